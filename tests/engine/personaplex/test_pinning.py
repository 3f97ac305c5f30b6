"""Prompts that stay in the window: against attention over an explicit list of keys."""

from __future__ import annotations

import pytest
import torch

from rtc_server.engine.personaplex.kvcache import REPIN_POSITIONS
from tests.engine.personaplex.test_kvcache import LAYERS, History, random_qkv, ring, step_row

PROMPT = 5


@pytest.mark.parametrize("drop_oldest", [True, False])
@pytest.mark.parametrize("bits", [16, 8])
def test_a_pinned_prompt_sits_before_the_window_and_the_row_beside_it_is_not_concerned(
    drop_oldest: bool, bits: int
) -> None:
    torch.manual_seed(0)
    cache = ring(2, drop_oldest=drop_oldest, bits=bits)
    window = cache.capacity
    histories = [History(), History()]
    for position in range(100):
        qkv = random_qkv(2, 1)
        for row in range(2):
            histories[row].qkv.append(qkv[row, 0])
        if position == PROMPT:
            cache.pin(1, cache.save(1, PROMPT))
        if position >= PROMPT:
            cache.repin(1, position)
        plan = cache.step_plan(1, min(position + 1, window), torch.ones(2, dtype=torch.bool))
        for layer in range(LAYERS):
            got = plan.attend(layer, qkv.clone())
        cache.advance(1, torch.ones(2, dtype=torch.bool))

        plain = histories[0].seen(position, position + 1, drop_oldest)
        oldest = max(PROMPT, position - (window - PROMPT) + 1)
        behind = position + 1 - window
        shift = max(0, -(-behind // REPIN_POSITIONS) * REPIN_POSITIONS)
        pinned: dict[int, float] = {p: p + shift for p in range(min(PROMPT, position + 1))}
        pinned |= {p: p for p in range(oldest, position + 1)}
        assert len(pinned) == len(plain), "no fewer keys than without"
        assert all(position - place < window for place in pinned.values()), "no key further away than without"
        tolerance = 1e-5 if bits == 16 else 0.05
        for row, places in enumerate((plain, pinned)):
            want = histories[row].answer(position, places)
            torch.testing.assert_close(got[row, 0], want, atol=tolerance, rtol=tolerance)


def test_the_pinned_keys_move_only_every_few_positions_and_never_from_where_they_were_moved_to() -> None:
    torch.manual_seed(0)
    cache = ring(1)
    for _ in range(PROMPT):
        step_row(cache, 0, random_qkv(1, 1))
    saved = cache.save(0, PROMPT)
    cache.pin(0, saved)
    moved = []
    for position in range(PROMPT, 400):
        if cache.repin(0, position):
            moved.append(position)
        step_row(cache, 0, random_qkv(1, 1))
    assert moved[0] == cache.capacity
    assert {later - earlier for earlier, later in zip(moved, moved[1:], strict=False)} == {REPIN_POSITIONS}
    after_many = cache.save(0, PROMPT)
    fresh = ring(1)
    fresh.load(0, saved)
    fresh.pin(0, saved)
    fresh.repin(0, 399)
    assert torch.equal(fresh.save(0, PROMPT), after_many)


def test_a_pinned_row_is_copied_with_its_prompt() -> None:
    torch.manual_seed(0)
    cache = ring(3)
    for _ in range(PROMPT):
        step_row(cache, 2, random_qkv(1, 1))
    cache.pin(2, cache.save(2, PROMPT))
    for position in range(PROMPT, 47):
        cache.repin(2, position)
        step_row(cache, 2, random_qkv(1, 1))
    cache.copy(2, 0, 47 - cache.capacity, 40)
    cache.copy(2, 0, 40, 47)
    cache.copy_state(2, 0)
    for position in range(47, 80):
        qkv = random_qkv(1, 1)
        assert cache.repin(0, position) == cache.repin(2, position)
        assert torch.equal(step_row(cache, 0, qkv), step_row(cache, 2, qkv))


def test_a_row_that_is_reset_is_not_pinned_any_more() -> None:
    torch.manual_seed(0)
    cache, fresh = ring(1), ring(1)
    for _ in range(PROMPT):
        step_row(cache, 0, random_qkv(1, 1))
    cache.pin(0, cache.save(0, PROMPT))
    cache.reset(0)
    for position in range(30):
        qkv = random_qkv(1, 1)
        assert not cache.repin(0, position)
        torch.testing.assert_close(step_row(cache, 0, qkv), step_row(fresh, 0, qkv))


def test_a_prompt_that_would_fill_the_window_is_refused() -> None:
    cache = ring(1)
    assert cache.pin_limit == 9
    cache.pin(0, cache.save(0, 9))
    with pytest.raises(ValueError, match="10 positions cannot be pinned; the limit is 9"):
        cache.pin(0, cache.save(0, 10))
