"""What a GPU asks of the language model, tested without one."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from rtc_server.engine.personaplex import depformer, lm, matrix, sampling, temporal
from rtc_server.engine.personaplex.config import CODEBOOKS
from rtc_server.engine.personaplex.lm import LanguageModel
from rtc_server.engine.personaplex.weights import StateDict
from rtc_server.engine.stepper import Sampling
from tests.engine.personaplex.goldens import forced_speech, golden, largest_error, lm_config, lm_model

WAITS = ("_local_scalar_dense", "item", "nonzero", "is_nonzero", "equal", "lift_fresh", "masked_select", "unique")
"""Calls that read from the device, make a shape of data, or bring a tensor from the host."""


class NoWaiting(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Fails on any call for which the host would have to wait for a GPU."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.overloadpacket.__name__
        assert name not in WAITS, f"{func} in a step"
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("kv_bits", [16, 8])
@pytest.mark.parametrize("forced", [False, True])
def test_a_step_never_waits_for_the_device(kv_bits: int, forced: bool) -> None:
    model = lm_model("lm_tiny", rows=3, sampling=Sampling(), kv_bits=kv_bits)
    user, active = torch.zeros(2, CODEBOOKS, dtype=torch.int64), torch.tensor([True, False])
    speech = forced_speech(torch.zeros(2, dtype=torch.int64), user) if forced else None
    with NoWaiting():
        for _ in range(3):
            model.step(user, active, 5, speech)
    with pytest.raises(AssertionError, match="in a step"), NoWaiting():
        torch.tensor([1.0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize(("weight_bits", "kv_bits"), [(16, 16), (8, 8)])
def test_every_path_keeps_to_the_device_and_to_its_type(
    dtype: torch.dtype, weight_bits: int, kv_bits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the meta device, where nothing can be read at all and activations have the type of the weights."""
    monkeypatch.setattr(sampling, "Generator", lambda device: torch.Generator())
    monkeypatch.setattr(sampling.Sampler, "draw", lambda self, rows: None)
    device = torch.device("meta")
    model = LanguageModel(
        StateDict(golden("lm_tiny"), device, dtype),
        lm_config("lm"),
        rows=4,
        device=device,
        dtype=dtype,
        weight_bits=weight_bits,
        kv_bits=kv_bits,
    )
    user = torch.zeros(3, CODEBOOKS, dtype=torch.int64, device=device)
    step = model.step(user, torch.ones(3, dtype=torch.bool, device=device), 5, keep_logits=True)
    assert step.code_logits is not None
    for tensor in (step.hidden, step.text_logits, step.code_logits):
        assert tensor.dtype == dtype and tensor.device == device
    x = model.embed(torch.zeros(6, 17, dtype=torch.int64, device=device))
    hidden = model.prefill(1, 6, model.prefill(1, 0, x))
    assert hidden.dtype == dtype
    model.begin(1, 12, torch.zeros(17, dtype=torch.int64, device=device), hidden[-1:])
    saved = model.kv.save(1, 12)
    assert saved.dtype == (torch.int8 if kv_bits == 8 else dtype)
    model.kv.load(2, saved)
    model.kv.pin(1, saved)
    assert model.kv.repin(1, 100)
    model.kv.copy(1, 3, 0, 50)
    model.copy_row(1, 3)
    model.reset(3, scrub=True)


@pytest.mark.parametrize(("dtype", "limit"), [(torch.bfloat16, 0.2), (torch.float16, 0.02)])
def test_sixteen_bit_arithmetic_follows_the_reference(
    dtype: torch.dtype, limit: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a GPU: residuals, keys and values in 16 bits; norms, rotations and softmax in 32. Values are about 1."""
    modules: tuple[ModuleType, ...] = (lm, temporal, depformer, matrix)
    for module in modules:
        monkeypatch.setattr(module, "activation_dtype", lambda device, dtype: dtype)
    weights = StateDict(golden("lm_tiny"), dtype=dtype)
    model = LanguageModel(weights, lm_config("lm"), rows=1, device="cpu", dtype=dtype)
    want = golden("lm_golden")
    errors = []
    for call in range(59):
        forced = forced_speech(want["forced_text"][None, call], want["forced_agent_codes"][None, :, call])
        step = model.step(want["user_codes"][None, :, call], torch.ones(1, dtype=torch.bool), 24, forced)
        assert step.hidden.dtype == dtype and bool(step.finite)
        errors.append(largest_error(step.hidden, want["forced.hidden"][:, call]))
    assert max(errors) < limit


def worst_error(kv_bits: int, weight_bits: int = 16) -> tuple[float, float]:
    """(largest, mean absolute error) of the hidden states of the golden run that is given everywhere."""
    model, want = lm_model("lm_tiny", kv_bits=kv_bits, weight_bits=weight_bits), golden("lm_golden")
    errors: list[Tensor] = []
    for call in range(59):
        forced = forced_speech(want["forced_text"][None, call], want["forced_agent_codes"][None, :, call])
        step = model.step(want["user_codes"][None, :, call], torch.ones(1, dtype=torch.bool), 24, forced)
        errors.append((step.hidden - want["forced.hidden"][:, call]).abs())
    return float(torch.stack(errors).max()), float(torch.stack(errors).mean())


def test_eight_bit_keys_stay_close_to_the_reference() -> None:
    largest, mean = worst_error(kv_bits=8)
    assert largest < 0.05 and mean < 0.005
    assert largest > 1e-4, "they are not exact, and the option would do nothing if they were"
