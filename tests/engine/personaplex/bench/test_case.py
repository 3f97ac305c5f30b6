import weakref
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch

from rtc_server.engine.personaplex.bench import machine as machines
from rtc_server.engine.personaplex.bench.case import Figures, cases, rounding_errors
from rtc_server.engine.personaplex.bench.machine import Machine
from rtc_server.engine.personaplex.bench.spec import EngineBench
from rtc_server.engine.personaplex.bench.subjects import LanguagePart
from rtc_server.engine.personaplex.lm import LanguageModel
from rtc_server.errors import ConfigError

TINY = EngineBench(preset="tiny", slots=(2,), fill=(5,), device="cpu", threads=1, ticks=2, buffer_bytes=1 << 20)
CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def measured(spec: EngineBench) -> list[Figures]:
    return [case.measure() for case in cases(spec)]


@pytest.mark.parametrize("part", ["lm", "mimi", "all"])
def test_a_call_is_told_beside_its_bounds(part: str) -> None:
    figures = measured(replace(TINY, part=part))[0]
    assert figures["part"] == part
    for name in ("tick_ms", "best_ms", "floor_ms", "best_form_ms", "limit_ms", "of_floor", "of_best_form", "of_limit"):
        value = figures[name]
        assert isinstance(value, float) and value > 0, name


def test_every_number_of_slots_is_measured_at_every_age() -> None:
    seen = [(figures["slots"], figures["fill"]) for figures in measured(replace(TINY, slots=(1, 4), fill=(5, 9)))]
    assert seen == [(1, 5), (1, 9), (4, 5), (4, 9)]


@pytest.mark.parametrize(("dtype", "weight_bits", "kv_bits"), [("bf16", 16, 16), ("f32", 8, 16), ("f32", 16, 8)])
def test_smaller_forms_read_less(dtype: str, weight_bits: int, kv_bits: int) -> None:
    full = measured(TINY)[0]
    small = measured(replace(TINY, dtype=dtype, weight_bits=weight_bits, kv_bits=kv_bits))[0]
    assert (small["dtype"], small["weight_bits"], small["kv_bits"]) == (dtype, weight_bits, kv_bits)
    assert int(small["bytes"] or 0) < int(full["bytes"] or 0)


def test_a_call_reads_the_keys_of_its_live_slots() -> None:
    one = measured(replace(TINY, live=1))[0]
    both = measured(TINY)[0]
    assert (one["live"], both["live"]) == (1, 2)
    lm = TINY.config.lm
    assert one["key_bytes_per_slot"] == 2 * lm.layers * 6 * lm.dim * 4  # the sixth position is the call's own
    assert int(both["bytes"] or 0) > int(one["bytes"] or 0)


def test_past_the_window_a_call_reads_the_window() -> None:
    lm = TINY.config.lm
    assert (
        measured(replace(TINY, fill=(1000,)))[0]["key_bytes_per_slot"] == 2 * lm.layers * (lm.context - 1) * lm.dim * 4
    )


def test_a_slot_is_as_old_at_each_call_as_was_asked_for() -> None:
    lm = Machine(TINY).language_model(4)
    part = LanguagePart(lm, live=3, fill=7, device=CPU)
    for _ in range(3):
        part.rewind()
        assert lm.kv.length.tolist() == [7, 8, 9, 0]
        step = part.call()
        assert lm.kv.length.tolist() == [8, 9, 10, 0]
        assert step.valid.tolist() == [True, True, True, False]
        assert step.finite[:3].all()


def test_a_model_that_does_not_fit_is_refused_with_the_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines, "free_bytes", lambda device: 20 << 30)
    with pytest.raises(ConfigError, match=r"load 31\.10 GB.* free on cpu") as raised:
        next(cases(replace(TINY, preset="7b")))
    assert "--dtype bf16" in raised.value.hint


def test_a_model_is_gone_before_the_next_one_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[weakref.ref[LanguageModel]] = []
    make = Machine.language_model

    def recorded(machine: Machine, slots: int) -> LanguageModel:
        assert all(model() is None for model in made)
        lm = make(machine, slots)
        made.append(weakref.ref(lm))
        return lm

    monkeypatch.setattr(Machine, "language_model", recorded)
    assert len(measured(replace(TINY, slots=(1, 2)))) == len(made) == 2


def test_where_nobody_knows_what_is_free_it_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machines, "free_bytes", lambda device: None)
    assert measured(TINY)


def test_rounding_is_told_for_what_is_rounded() -> None:
    assert not list(rounding_errors(TINY))
    weights = {error.name: error for error in rounding_errors(replace(TINY, weight_bits=8))}
    assert {"192 x 64", "hidden state", "text logits", "code logits"} <= set(weights)
    assert all(0 < error.rms < 0.05 for error in weights.values())
    keys = {error.name: error for error in rounding_errors(replace(TINY, kv_bits=8))}
    assert set(keys) == {"hidden state", "text logits", "code logits"}
    assert 0 < keys["hidden state"].rms < weights["hidden state"].rms
    assert keys["code logits"].rms == 0
