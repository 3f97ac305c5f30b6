"""The golden tensors notice when any one rule of the model is changed: so passing them means something."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from rtc_server.engine.personaplex import layers
from rtc_server.engine.personaplex.config import AGENT_ROWS, CODEBOOKS, LmConfig
from rtc_server.engine.personaplex.lm import LanguageModel
from rtc_server.engine.personaplex.sampling import GREEDY
from rtc_server.engine.personaplex.weights import StateDict
from tests.engine.personaplex.goldens import CODE_LOGITS, HIDDEN, golden, largest_error, lm_config

CALLS = 40
"""The ring of 24 wraps."""


def misses(config: LmConfig) -> set[str]:
    """What a free-running conversation gets wrong, each call judged until the first wrong token."""
    lm = LanguageModel(StateDict(golden("lm_tiny")), config, rows=1, device="cpu", dtype=torch.float32)
    lm.sampler.set(0, GREEDY, 0)
    want, missed = golden("lm_golden"), set()
    for call in range(CALLS):
        user = want["user_codes"][None, :, call]
        step = lm.step(user, torch.ones(1, dtype=torch.bool), lm.keys_for([call]), keep_logits=True)
        assert step.code_logits is not None
        if largest_error(step.hidden, want["greedy.hidden"][:, call]) > HIDDEN:
            missed.add("hidden")
        if largest_error(step.code_logits, want["greedy.dep_logits"][:, call, :CODEBOOKS]) > CODE_LOGITS:
            missed.add("code logits")
        if not torch.equal(step.frame[:, AGENT_ROWS], want["greedy.emitted"][:, call, AGENT_ROWS]) and call > 0:
            missed.add("tokens")
    return missed


def test_nothing_is_missed_as_it_is() -> None:
    assert misses(lm_config("lm")) == set()


@pytest.mark.parametrize(
    "changed",
    [
        replace(lm_config("lm"), drop_oldest=False),
        replace(lm_config("lm"), context=23),
        replace(lm_config("lm"), context=25),
        replace(lm_config("lm"), force_initial=False),
        replace(lm_config("lm"), max_period=9900.0),
    ],
    ids=["window", "shorter", "longer", "initial", "rotation"],
)
def test_a_changed_rule_is_noticed(changed: LmConfig) -> None:
    assert misses(changed)


def test_a_larger_eps_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "EPS", 1e-5)
    assert "code logits" in misses(lm_config("lm"))
