"""The language model, one conversation at a time: each call of a trace against the same call here."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rtc_server.engine.personaplex.config import CODEBOOKS, LmConfig
from rtc_server.engine.personaplex.matrix import activation_dtype
from rtc_server.engine.personaplex.verify.compare import (
    CODE_LOGITS_LIMIT,
    HIDDEN_LIMIT,
    TEXT_LOGITS_LIMIT,
    Comparison,
)
from rtc_server.engine.personaplex.verify.folder import GoldenFolder, Models, Tensors
from rtc_server.engine.personaplex.verify.rows import GreedyRows, call_of

WEIGHTS = "lm_tiny.safetensors"
FILES = ("lm_golden.safetensors", WEIGHTS)
NONE_EMITTED = -9
"""In all rows of a frame that the reference did not return."""


@dataclass(frozen=True, slots=True)
class Trace:
    """A run of the reference, by call of this engine, whose call c is the reference's call c + 1.

    Attributes:
        calls: [N, 17], what each call is given.
        given: [N + 1] bool, text and agent codes are given in the call.
    """

    name: str
    calls: Tensor
    given: Tensor
    want: dict[str, Tensor]

    def __len__(self) -> int:
        return len(self.calls)

    @property
    def opening(self) -> int:
        """Calls at the start that are given."""
        free = (~self.given).nonzero()
        return int(free[0]) if len(free) else len(self)

    def frame(self, call: int) -> Tensor | None:
        """[17] what is emitted."""
        emitted = self.want["emitted"][0, call]
        return None if bool((emitted == NONE_EMITTED).all()) else emitted


def traces_of(golden: Tensors, config: LmConfig) -> list[Trace]:
    """Every run in the file, whatever their names and numbers."""
    names = [name.removesuffix(".hidden") for name in golden if name.endswith(".hidden")]
    return [_trace(golden, name, config) for name in sorted(names)]


def _trace(golden: Tensors, name: str, config: LmConfig) -> Trace:
    want = golden.under(f"{name}.")
    count = want["hidden"].shape[1]
    # What stands in the text row at position p was given in call p - delay; the first position recorded is 1.
    provided = want["target_provided"][0, :, 0]
    known = torch.cat([provided[:1], provided])[config.delays[0] :]
    given = torch.cat([known, known[-1:].expand(config.delays[0])])
    given[0] = given[1]  # what call 0 was given is swallowed, so nothing depends on it
    calls = torch.stack([
        call_of(golden["user_codes"][:, c], golden["forced_text"][c], golden["forced_agent_codes"][:, c])
        if given[c]
        else call_of(golden["user_codes"][:, c])
        for c in range(count)
    ])  # fmt: skip
    return Trace(name, calls, given, want)


def check(folder: GoldenFolder, models: Models, compare: Comparison) -> None:
    config = folder.lm_config("lm", personaplex=True)
    golden = folder.tensors(FILES[0])
    traces = traces_of(golden, config)
    rows = GreedyRows(models.lm(WEIGHTS, config, rows=1), models.device)
    for trace in traces:
        _follow(trace, rows, compare)
    if config.depformer_steps > CODEBOOKS:
        for trace in traces:
            _all_steps(trace, config, models, compare)


def _follow(trace: Trace, rows: GreedyRows, compare: Comparison) -> None:
    """Call by call, in row 0. Once a conversation has taken another turn, only its tokens are compared."""
    rows.reset(0)
    group, alike = f"lm {trace.name}", True
    for c, call in enumerate(trace.calls):
        step = rows.step({0: call}, keep_logits=True)
        assert step.code_logits is not None
        # Between two given calls the code logits differ: the reference knows the next call's text and first code.
        free_next = not trace.given[c + 1]
        if alike:
            compare.near(f"{group}: hidden", step.hidden[0], trace.want["hidden"][0, c], HIDDEN_LIMIT)
            compare.near(
                f"{group}: text logits", step.text_logits[0], trace.want["text_logits"][0, c], TEXT_LOGITS_LIMIT
            )
            if free_next:
                want = trace.want["dep_logits"][0, c, :CODEBOOKS]
                compare.near(f"{group}: code logits", step.code_logits[0], want, CODE_LOGITS_LIMIT)
        same = compare.same(
            f"{group}: tokens", step.sampled_text[0], trace.want["sampled_text"][0, c], f"text, call {c}"
        )
        if free_next:
            codes = trace.want["sampled_audio"][0, c, :CODEBOOKS]
            same &= compare.same(f"{group}: tokens", step.sampled_codes[0], codes, f"codes, call {c}")
        same &= compare_frame(
            compare, f"{group}: tokens", step.frame[0], step.valid[0], trace.frame(c), f"frame, call {c}"
        )
        alike &= same or not free_next


def compare_frame(
    compare: Comparison, group: str, frame: Tensor, valid: Tensor, want: Tensor | None, place: str
) -> bool:
    """A frame that is expected, or none."""
    if bool(valid) != (want is not None):
        compare.true(group, False, f"{place}: {'a frame that should not be' if want is None else 'no frame'}")
        return False
    return want is None or compare.same(group, frame, want, place)


def _all_steps(trace: Trace, config: LmConfig, models: Models, compare: Comparison) -> None:
    """The depformer alone, over all stored steps, told what the reference chose. All calls at once."""
    steps, count = config.depformer_steps, len(trace)
    depformer = models.depformer(WEIGHTS, config, rows=count)
    hidden, chosen = trace.want["hidden"][0], trace.want["cache_after"][0].to(models.device)
    codes = chosen[:, 1 : 1 + steps]
    _, sampled, logits = depformer.run(
        hidden.to(models.device, activation_dtype(models.device, models.dtype)),
        chosen[:, 0],
        lambda _step, step_logits: step_logits.argmax(-1),
        codes,
        torch.ones_like(codes, dtype=torch.bool),
        keep_logits=True,
    )
    assert logits is not None
    group = f"lm {trace.name}, {steps} steps"
    compare.near(f"{group}: code logits", logits, trace.want["dep_logits"][0], CODE_LOGITS_LIMIT)
    compare.same(f"{group}: tokens", sampled, trace.want["sampled_audio"][0], "calls, steps")
