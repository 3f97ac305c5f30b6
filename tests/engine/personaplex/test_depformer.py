from __future__ import annotations

import pytest
import torch
from torch import Tensor

from rtc_server.engine.personaplex.config import CODEBOOKS
from rtc_server.engine.personaplex.depformer import Depformer
from rtc_server.engine.personaplex.weights import StateDict
from tests.engine.personaplex.goldens import CODE_LOGITS, golden, largest_error, lm_config

CALLS = 59


def depformer(steps: int, rows: int = CALLS) -> Depformer:
    return Depformer(StateDict(golden("lm_tiny")), lm_config("lm"), steps=steps, rows=rows)


def run(model: Depformer, want: dict[str, Tensor], run_name: str) -> tuple[Tensor, Tensor, Tensor]:
    """All calls of a golden run as one batch, every code given as the reference had it in the end."""
    target = want[f"{run_name}.cache_after"][0]
    codes, sampled, logits = model.run(
        want[f"{run_name}.hidden"][0],
        target[:, 0],
        lambda step, logits: logits.argmax(-1),
        target[:, 1 : 1 + model.steps],
        torch.ones(CALLS, model.steps, dtype=torch.bool),
        keep_logits=True,
    )
    assert logits is not None
    return codes, sampled, logits


@pytest.mark.parametrize("run_name", ["greedy", "forced", "mixed20"])
@pytest.mark.parametrize("steps", [CODEBOOKS, 16])
def test_every_step_gives_the_logits_of_the_reference(run_name: str, steps: int) -> None:
    """The last of sixteen does not see the first: the reference's ring is full there."""
    want = golden("lm_golden")
    _, sampled, logits = run(depformer(steps), want, run_name)
    assert largest_error(logits, want[f"{run_name}.dep_logits"][0, :, :steps]) < CODE_LOGITS
    assert torch.equal(sampled, want[f"{run_name}.sampled_audio"][0, :, :steps])


def test_only_the_last_of_sixteen_steps_is_blind_to_the_first() -> None:
    want = golden("lm_golden")
    model = depformer(16)
    model._blind_step = None
    _, _, logits = run(model, want, "greedy")
    error = (logits - want["greedy.dep_logits"][0]).abs().amax((0, 2))
    assert error[:15].max() < CODE_LOGITS
    assert error[15] > 0.01


def test_given_codes_are_the_ones_that_later_steps_see() -> None:
    torch.manual_seed(0)
    model = depformer(CODEBOOKS, rows=2)
    hidden, text = torch.randn(2, 64), torch.tensor([5, 7])
    target = torch.full((2, CODEBOOKS), 9)
    given = torch.zeros(2, CODEBOOKS, dtype=torch.bool)
    free, sampled, _ = model.run(hidden, text, lambda step, logits: logits.argmax(-1), target, given)
    assert torch.equal(free, sampled)
    given[1, 2] = True
    codes, sampled, _ = model.run(hidden, text, lambda step, logits: logits.argmax(-1), target, given)
    assert torch.equal(codes[0], free[0])
    assert torch.equal(codes[1, :2], free[1, :2]) and codes[1, 2] == 9 and sampled[1, 2] == free[1, 2]
    assert not torch.equal(codes[1, 3:], free[1, 3:])


def test_nothing_survives_a_call() -> None:
    torch.manual_seed(0)
    model = depformer(CODEBOOKS, rows=4)
    hidden, text = torch.randn(4, 64), torch.arange(4)
    nothing = torch.zeros(4, CODEBOOKS, dtype=torch.int64), torch.zeros(4, CODEBOOKS, dtype=torch.bool)

    def logits_of(rows: slice) -> Tensor:
        target, given = (tensor[rows] for tensor in nothing)
        _, _, logits = model.run(hidden[rows], text[rows], lambda _, x: x.argmax(-1), target, given, keep_logits=True)
        assert logits is not None
        return logits

    before = logits_of(slice(0, 1))
    logits_of(slice(0, 4))
    assert torch.equal(logits_of(slice(0, 1)), before)


def test_only_the_steps_that_are_run_are_read_from_the_checkpoint() -> None:
    class Recorder(StateDict):
        def take(self, name: str, rows: slice | None = None) -> Tensor:
            taken[name, rows.start if rows is not None else None] = super().take(name, rows)
            return taken[name, rows.start if rows is not None else None]

    taken: dict[tuple[str, int | None], Tensor] = {}
    Depformer(Recorder(golden("lm_tiny")), lm_config("lm"), steps=CODEBOOKS, rows=1)
    names = {name for name, _ in taken}
    assert "linears.7.weight" in names and "linears.8.weight" not in names
    assert "depformer_emb.6.weight" in names and "depformer_emb.7.weight" not in names
    dim = lm_config("lm").depformer_dim
    projections = [start for name, start in taken if name == "depformer.layers.0.self_attn.in_proj_weight"]
    assert projections == [step * 3 * dim for step in range(CODEBOOKS)]
