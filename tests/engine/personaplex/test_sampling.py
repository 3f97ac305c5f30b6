from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from rtc_server.engine.personaplex.sampling import (
    ANY_MODE,
    GREEDY,
    MAX_TOP_K,
    Mode,
    Sampler,
    choose,
)
from rtc_server.engine.stepper import Sampling
from tests.engine.personaplex.goldens import golden

STEPS = 8


@pytest.mark.parametrize("kind", ["text", "audio"])
def test_with_the_same_noise_the_tokens_are_those_of_the_reference(kind: str) -> None:
    want = golden("sampling_golden")
    temperature, _ = want[f"{kind}.temp_topk"].tolist()
    warmth = torch.full((64, 1), 1 / temperature)
    got = choose(want[f"{kind}.logits"], warmth, -want[f"{kind}.noise"].log())
    assert torch.equal(got, want[f"{kind}.tokens"])


@pytest.mark.parametrize("kind", ["text", "audio"])
@pytest.mark.parametrize("mode", [ANY_MODE, Mode(0, 0, True, True)])
def test_a_greedy_row_takes_the_likeliest(kind: str, mode: Mode) -> None:
    want = golden("sampling_golden")
    sampler = Sampler(64, STEPS, "cpu")
    for row in range(64):
        sampler.set(row, GREEDY, row)
    race = sampler.race(slice(0, 64), mode)
    got = race.text(want["text.logits"]) if kind == "text" else race.code(3, want["audio.logits"])
    assert torch.equal(got, want[f"{kind}.argmax"])


@pytest.mark.parametrize("mode", [ANY_MODE, Mode(0, 0, True, True)])
def test_of_equals_a_greedy_row_takes_the_lowest(mode: Mode) -> None:
    sampler = Sampler(1, STEPS, "cpu")
    sampler.set(0, GREEDY, 0)
    logits = torch.zeros(1, 2048)
    logits[0, [7, 100, 2000]] = 3.0
    assert sampler.race(slice(0, 1), mode).code(0, logits).item() == 7


def test_tokens_come_as_often_as_their_probabilities_say() -> None:
    """Top 3 of 5 at temperature 0.5; 4000 draws, each expected count within five standard deviations."""
    sampler = Sampler(1, STEPS, "cpu")
    sampler.set(0, Sampling(audio_temperature=0.5, audio_top_k=3, text_temperature=2.0, text_top_k=4), 7)
    logits = torch.tensor([[1.0, 2.0, 0.5, 1.8, -1.0, *[-9.0] * 300]])
    counts, text_counts = torch.zeros(305), torch.zeros(305)
    draws = 500
    for _ in range(draws):
        sampler.draw([0])
        race = sampler.race(slice(0, 1))
        text_counts[race.text(logits)] += 1
        for step in range(STEPS):
            counts[race.code(step, logits)] += 1
    check_counts(counts, logits[0], temperature=0.5, top_k=3)
    check_counts(text_counts, logits[0], temperature=2.0, top_k=4)


def check_counts(counts: Tensor, logits: Tensor, temperature: float, top_k: int) -> None:
    kept = logits.topk(top_k).indices
    probability = torch.zeros_like(logits)
    probability[kept] = torch.softmax(logits[kept] / temperature, -1)
    expected = counts.sum() * probability
    assert counts[probability == 0].sum() == 0
    deviation = (expected * (1 - probability)).sqrt()
    assert ((counts - expected).abs() <= 5 * deviation).all()


def test_each_row_has_settings_of_its_own() -> None:
    sampler = Sampler(4, STEPS, "cpu")
    sampler.set(0, GREEDY, 0)
    sampler.set(1, Sampling(text_top_k=1, audio_top_k=1), 1)
    sampler.set(2, Sampling(text_temperature=0.0, audio_top_k=2), 2)
    sampler.set(3, Sampling(), 3)
    logits = torch.linspace(0, 1, 300).expand(4, -1)
    seen: list[set[int]] = [set() for _ in range(8)]
    for _ in range(60):
        sampler.draw(range(4))
        race = sampler.race(slice(0, 4), sampler.mode(range(4)))
        for column, tokens in enumerate((race.text(logits), race.code(5, logits))):
            for row, token in enumerate(tokens.tolist()):
                seen[2 * row + column].add(token)
    assert seen[0] == seen[1] == seen[2] == seen[3] == seen[4] == {299}
    assert seen[5] == {298, 299}
    assert len(seen[6]) > 10 and min(seen[6]) >= 300 - 25
    assert len(seen[7]) > 30 and min(seen[7]) >= 300 - MAX_TOP_K


def test_a_row_draws_the_same_whoever_else_is_there() -> None:
    alone, among = Sampler(1, STEPS, "cpu"), Sampler(5, STEPS, "cpu")
    alone.set(0, Sampling(), 11)
    for row in range(5):
        among.set(row, GREEDY if row == 1 else Sampling(text_top_k=3), 100 + row)
    among.set(4, Sampling(), 11)
    torch.manual_seed(0)
    for tick in range(4):
        alone.draw([0])
        among.draw([4] if tick == 2 else [3, 1, 4])
        logits = torch.randn(1, 3000)
        one, many = alone.race(slice(0, 1)), among.race(slice(0, 5))
        assert torch.equal(one.text(logits)[0], many.text(logits.expand(5, -1))[4])
        for step in range(STEPS):
            codes = torch.randn(1, 2048)
            assert torch.equal(one.code(step, codes)[0], many.code(step, codes.expand(5, -1))[4])


def test_a_seed_says_what_is_drawn_and_no_seed_is_always_another() -> None:
    sampler = Sampler(4, STEPS, "cpu")
    for row, seed in enumerate((5, 5, None, None)):
        sampler.set(row, Sampling(), seed)
    sampler.draw(range(4))
    assert torch.equal(sampler.noise[0], sampler.noise[1])
    assert not torch.equal(sampler.noise[2], sampler.noise[3])
    assert not torch.equal(sampler.noise[0], sampler.noise[2])


def test_what_is_drawn_does_not_depend_on_the_settings() -> None:
    sampler = Sampler(2, STEPS, "cpu")
    sampler.set(0, Sampling(), 5)
    sampler.set(1, Sampling(text_temperature=0.0, audio_top_k=7), 5)
    for _ in range(2):
        sampler.draw(range(2))
    assert torch.equal(sampler.noise[0], sampler.noise[1])


def test_a_greedy_row_draws_nothing() -> None:
    sampler = Sampler(1, STEPS, "cpu")
    sampler.set(0, GREEDY, 5)
    before = sampler.noise.clone()
    sampler.draw([0])
    assert torch.equal(sampler.noise, before)


def test_a_copied_row_goes_on_drawing_the_same() -> None:
    sampler = Sampler(3, STEPS, "cpu")
    sampler.set(2, Sampling(audio_top_k=9), 3)
    sampler.draw([2])
    sampler.copy_row(2, 0)
    logits = torch.randn(1, 2048, generator=torch.Generator().manual_seed(0)).expand(3, -1)
    for _ in range(5):
        codes = sampler.race(slice(0, 3)).code(1, logits)
        assert codes[0] == codes[2]
        sampler.draw([0, 2])
        assert torch.equal(sampler.noise[0], sampler.noise[2])
    assert sampler.mode([0]) == sampler.mode([2])


def test_a_mode_says_what_the_rows_of_a_call_want() -> None:
    sampler = Sampler(3, STEPS, "cpu")
    sampler.set(0, GREEDY, 0)
    sampler.set(1, Sampling(audio_top_k=10_000, text_top_k=3), 1)
    sampler.set(2, Sampling(audio_temperature=0.0), 2)
    assert sampler.mode([0]) == Mode(0, 0, greedy_text=True, greedy_codes=True)
    assert sampler.mode([1]) == Mode(3, MAX_TOP_K, greedy_text=False, greedy_codes=False)
    assert sampler.mode([1, 2]) == Mode(25, MAX_TOP_K, greedy_text=False, greedy_codes=True)
    assert sampler.mode([0, 1, 2]) == Mode(25, MAX_TOP_K, greedy_text=True, greedy_codes=True)


def test_a_top_k_of_0_is_no_limit() -> None:
    sampler = Sampler(2, STEPS, "cpu")
    sampler.set(0, Sampling(text_top_k=0, audio_top_k=0), 1)
    sampler.set(1, Sampling(text_top_k=MAX_TOP_K, audio_top_k=MAX_TOP_K), 1)
    assert sampler.mode([0]) == sampler.mode([1])
    sampler.draw(range(2))
    race = sampler.race(slice(0, 2))
    logits = torch.linspace(0, 1, 300).expand(2, -1)
    for chosen in (race.text(logits), race.code(0, logits)):
        assert chosen[0] == chosen[1] != 299


def test_the_narrowest_mode_chooses_what_the_widest_does() -> None:
    sampler = Sampler(3, STEPS, "cpu")
    for row in range(3):
        sampler.set(row, Sampling(audio_temperature=0.0) if row == 1 else Sampling(), row)
    sampler.draw(range(3))
    torch.manual_seed(0)
    text, codes = torch.randn(3, 32000), torch.randn(3, 2048)
    narrow, wide = sampler.race(slice(0, 3), sampler.mode(range(3))), sampler.race(slice(0, 3))
    assert torch.equal(narrow.text(text), wide.text(text))
    assert torch.equal(narrow.code(2, codes), wide.code(2, codes))


def test_a_card_smaller_than_the_top_k_is_no_trouble() -> None:
    sampler = Sampler(1, STEPS, "cpu")
    sampler.set(0, Sampling(), 0)
    sampler.draw([0])
    assert 0 <= sampler.race(slice(0, 1)).code(0, torch.zeros(1, 20)).item() < 20


def test_noise_at_either_end_of_its_range_draws_a_token_all_the_same() -> None:
    sampler = Sampler(2, STEPS, "cpu")
    sampler.noise[0], sampler.noise[1] = math.inf, 2**-24
    codes = sampler.race(slice(0, 2)).code(0, torch.randn(2, 2048, generator=torch.Generator().manual_seed(0)))
    assert ((codes >= 0) & (codes < 2048)).all()
