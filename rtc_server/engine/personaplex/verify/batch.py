"""Conversations side by side: each starts, and ends, when it likes, and must be what it is alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rtc_server.engine.personaplex.config import CODEBOOKS
from rtc_server.engine.personaplex.verify.compare import HIDDEN_LIMIT, TEXT_LOGITS_LIMIT, Comparison
from rtc_server.engine.personaplex.verify.folder import README, GoldenFolder, Models, Tensors
from rtc_server.engine.personaplex.verify.language import WEIGHTS, Trace, compare_frame
from rtc_server.engine.personaplex.verify.openings import chunk_sizes, no_openings
from rtc_server.engine.personaplex.verify.rows import GreedyRows, call_of
from rtc_server.errors import ConfigError

FILES = ("lm_batch_golden.safetensors", WEIGHTS)


@dataclass(slots=True)
class _Conversation:
    """One session of the schedule in ``info.lm.sessions``: its row, its first tick, and what each call should give."""

    row: int
    start: int
    trace: Trace
    alike: bool = True


def check(folder: GoldenFolder, models: Models, compare: Comparison) -> None:
    config = folder.lm_config("lm", personaplex=True)
    golden = folder.tensors(FILES[0])
    schedule = _schedule(folder)
    rows = GreedyRows(models.lm(WEIGHTS, config, rows=1 + max(int(s["row"]) for s in schedule)), models.device)
    styles = ["given calls", "prefill"]
    if why := no_openings(config):
        styles.pop()
        compare.report.skip("lm_batch, prefill", why)
    for style in styles:
        conversations = [_conversation(golden, index, session) for index, session in enumerate(schedule)]
        for tick in range(max(one.start + len(one.trace) for one in conversations)):
            _tick(tick, conversations, rows, compare, f"lm_batch, {style}", prefill=style == "prefill")


def _schedule(folder: GoldenFolder) -> list[dict[str, Any]]:
    lm = folder.info.get("lm")
    sessions = lm.get("sessions") if isinstance(lm, dict) else None
    wanted = {"row", "start", "calls", "prompt"}
    if not isinstance(sessions, list) or not sessions or not all(wanted <= set(session) for session in sessions):
        raise ConfigError(f"{folder.path / README}: info.lm.sessions is not a list of row, start, calls and prompt")
    return sessions


def _conversation(golden: Tensors, index: int, session: dict[str, Any]) -> _Conversation:
    want = golden.under(f"session{index}.")
    missing = {"hidden", "text_logits", "sampled_audio", "emitted", "user_codes", "prompt_text", "prompt_agent_codes"}
    if missing := missing - want.keys():
        raise ConfigError(f"{FILES[0]} has no tensor session{index}.{min(missing)}")
    prompt, count = int(session["prompt"]), want["hidden"].shape[1]
    user, text, agent = want["user_codes"], want["prompt_text"], want["prompt_agent_codes"]
    calls: list[Tensor] = []
    for c in range(count):
        given = c < prompt
        calls.append(call_of(user[:, c], text[c], agent[:, c]) if given else call_of(user[:, c]))
    trace = Trace(f"session{index}", torch.stack(calls), torch.arange(count + 1) < prompt, want)
    return _Conversation(int(session["row"]), int(session["start"]), trace)


def _tick(
    tick: int, conversations: list[_Conversation], rows: GreedyRows, compare: Comparison, group: str, *, prefill: bool
) -> None:
    calls: dict[int, Tensor] = {}
    running: list[_Conversation] = []
    for one in conversations:
        c = tick - one.start
        if not 0 <= c < len(one.trace):
            continue
        if c == 0:
            rows.reset(one.row)
        opening = one.trace.opening
        if prefill and c < opening:
            if c + 1 == opening:
                hidden = rows.prefill(one.row, one.trace.calls[:opening], chunk_sizes(opening)[: tick % 4])
                compare.near(f"{group}: hidden", hidden, one.trace.want["hidden"][0, :opening], HIDDEN_LIMIT)
            continue
        calls[one.row] = one.trace.calls[c]
        running.append(one)
    if not running:
        return
    step = rows.step(calls)
    for one in running:
        c, row, want = tick - one.start, one.row, one.trace.want
        if one.alike:
            compare.near(f"{group}: hidden", step.hidden[row], want["hidden"][0, c], HIDDEN_LIMIT)
            compare.near(f"{group}: text logits", step.text_logits[row], want["text_logits"][0, c], TEXT_LOGITS_LIMIT)
        if one.trace.given[c + 1]:
            continue
        place = f"{one.trace.name}, call {c}"
        codes = want["sampled_audio"][0, c, :CODEBOOKS]
        same = compare.same(f"{group}: tokens", step.sampled_codes[row], codes, f"{place}, codes")
        frame = one.trace.frame(c)
        same &= compare_frame(compare, f"{group}: tokens", step.frame[row], step.valid[row], frame, f"{place}, frame")
        one.alike &= same
