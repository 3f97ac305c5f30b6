"""The ring cache against attention over an explicit list of everything that was ever said."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from rtc_server.engine.personaplex.kvcache import KvRing

LAYERS, HEADS, DIM, CONTEXT = 2, 3, 8, 12
MAX_PERIOD = 100.0


def ring(rows: int, *, drop_oldest: bool = True, bits: int = 16, dtype: torch.dtype = torch.float32) -> KvRing:
    return KvRing(
        LAYERS,
        rows,
        HEADS,
        DIM,
        CONTEXT,
        drop_oldest=drop_oldest,
        max_period=MAX_PERIOD,
        device="cpu",
        dtype=dtype,
        bits=bits,
    )


def turned(x: Tensor, position: float) -> Tensor:
    """Rotary positions, written out: x [..., D] float64."""
    out = x.clone()
    for i in range(DIM // 2):
        angle = position * MAX_PERIOD ** (-2 * i / DIM)
        a, b = x[..., 2 * i], x[..., 2 * i + 1]
        out[..., 2 * i] = a * math.cos(angle) - b * math.sin(angle)
        out[..., 2 * i + 1] = a * math.sin(angle) + b * math.cos(angle)
    return out


@dataclass
class History:
    """One row's raw queries, keys and values [3, H, D], position by position."""

    qkv: list[Tensor] = field(default_factory=list)

    def answer(self, query: int, places: dict[int, float]) -> Tensor:
        """[H * D]: `places` says which positions are seen, and where each of them seems to be."""
        q = turned(self.qkv[query][0].double(), query)
        keys = torch.stack([turned(self.qkv[p][1].double(), place) for p, place in places.items()], 1)
        values = torch.stack([self.qkv[p][2].double() for p in places], 1)  # [H, n, D]
        weight = torch.softmax((keys @ q[:, :, None])[..., 0] / math.sqrt(DIM), -1)
        return (weight[:, None] @ values)[:, 0].flatten().float()

    def seen(self, query: int, end: int, drop_oldest: bool) -> dict[int, float]:
        """The rule of the reference for a call after which `end` positions have been taken."""
        oldest = end - CONTEXT + 1 if drop_oldest else end - CONTEXT
        return {p: p for p in range(query + 1) if p >= oldest and query - p < CONTEXT}


def random_qkv(rows: int, steps: int) -> Tensor:
    return torch.randn(rows, steps, 3, HEADS, DIM)


@pytest.mark.parametrize("drop_oldest", [True, False])
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_rows_of_any_age_see_what_the_reference_lets_them_see(steps: int, drop_oldest: bool) -> None:
    torch.manual_seed(steps)
    cache, histories = ring(3, drop_oldest=drop_oldest), [History() for _ in range(3)]
    for call in range(40 // steps):
        if call == 9:
            cache.reset(0)
            histories[0] = History()
        active = torch.tensor([True, call % 3 != 1, call >= 5])
        qkv = random_qkv(3, steps)
        for row in range(3):
            if active[row]:
                histories[row].qkv.extend(qkv[row])
        keys = min(max(len(history.qkv) for history in histories), cache.capacity)
        plan = cache.step_plan(steps, keys, active)
        for layer in range(LAYERS):
            got = plan.attend(layer, qkv.clone())
        cache.advance(steps, active)
        for row, history in enumerate(histories):
            end = len(history.qkv)
            assert int(cache.length[row]) == end
            for step in range(steps if active[row] else 0):
                query = end - steps + step
                want = history.answer(query, history.seen(query, end, drop_oldest))
                torch.testing.assert_close(got[row, step], want, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("chunks", [(30,), (5, 20, 5), (12, 12, 6), (11, 1, 18), (1,) * 30])
@pytest.mark.parametrize("bits", [16, 8])
def test_a_prefill_in_any_chunks_leaves_what_single_calls_leave(chunks: tuple[int, ...], bits: int) -> None:
    torch.manual_seed(0)
    one_by_one, cache = ring(2, bits=bits), ring(3, bits=bits)
    qkv = random_qkv(1, 40)
    want = [step_row(one_by_one, 0, qkv[:, [position]]) for position in range(40)]
    start = 0
    for size in chunks:
        plan = cache.prefill_plan(1, start, size)
        for layer in range(LAYERS):
            got = plan.attend(layer, qkv[:, start : start + size].clone())
        start += size
        cache.set_length(1, start)
        torch.testing.assert_close(got[0], torch.stack(want[start - size : start]), atol=1e-5, rtol=1e-5)
    for position in range(30, 40):
        got_one = step_row(cache, 1, qkv[:, [position]])
        torch.testing.assert_close(got_one, want[position], atol=1e-5, rtol=1e-5)


def test_a_slice_of_rows_is_stepped_as_all_of_them_are() -> None:
    torch.manual_seed(0)
    cache, other = ring(4), ring(4)
    for _ in range(15):
        qkv = random_qkv(4, 2)
        on = torch.ones(4, dtype=torch.bool)
        plan = cache.step_plan(2, cache.capacity, on)
        for layer in range(LAYERS):
            want = plan.attend(layer, qkv.clone())
        cache.advance(2, on)
        for rows in (slice(2, 4), slice(0, 2)):
            plan = other.step_plan(2, other.capacity, on[rows], rows)
            for layer in range(LAYERS):
                got = plan.attend(layer, qkv[rows].clone())
            other.advance(2, on[rows], rows)
            torch.testing.assert_close(got, want[rows], atol=1e-6, rtol=1e-6)


def test_more_keys_than_are_filled_change_nothing_and_a_full_ring_needs_no_mask() -> None:
    torch.manual_seed(0)
    caches = [ring(2) for _ in range(3)]
    for position in range(30):
        qkv = random_qkv(2, 1)
        exact = min(position + 1, caches[0].capacity)
        plans = [
            caches[0].step_plan(1, exact, torch.ones(2, dtype=torch.bool)),
            caches[1].step_plan(1, 1000, torch.ones(2, dtype=torch.bool)),
            caches[2].step_plan(1, exact, torch.ones(2, dtype=torch.bool), full=True),
        ]
        answers = []
        for cache, plan in zip(caches, plans, strict=True):
            answers.append(plan.attend(0, qkv.clone()))
            cache.advance(1, torch.ones(2, dtype=torch.bool))
        torch.testing.assert_close(answers[1], answers[0], atol=1e-6, rtol=1e-6)
        torch.testing.assert_close(answers[2], answers[0], atol=1e-6, rtol=1e-6)


def test_an_inactive_row_keeps_every_bit() -> None:
    torch.manual_seed(0)
    cache = ring(2)
    for length in (5, 11, 12, 30):
        cache.reset(1)
        for _ in range(length):
            step_row(cache, 1, random_qkv(1, 1))
        before = cache.save(1, cache.capacity)
        for _ in range(14):
            step_row(cache, 0, random_qkv(1, 1), beside=random_qkv(1, 1))
        assert torch.equal(cache.save(1, cache.capacity), before)
        assert int(cache.length[1]) == length


@pytest.mark.parametrize(("bits", "dtype"), [(16, torch.float32), (16, torch.bfloat16), (8, torch.float32)])
def test_saved_positions_are_loaded_bit_for_bit(bits: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    cache = ring(3, bits=bits, dtype=dtype)
    for _ in range(7):
        step_row(cache, 0, random_qkv(1, 1).to(dtype))
    saved = cache.save(0, 7)
    cache.load(2, saved)
    cache.set_length(2, 7)
    assert torch.equal(cache.save(2, 7), saved)
    qkv = random_qkv(1, 1).to(dtype)
    assert torch.equal(step_row(cache, 2, qkv), step_row(cache, 0, qkv))


def test_what_does_not_fit_into_the_ring_is_not_saved() -> None:
    with pytest.raises(ValueError, match="12 positions do not fit into a ring of 11"):
        ring(1).save(0, 12)


@pytest.mark.parametrize("length", [3, 11, 25, 40])
@pytest.mark.parametrize("piece", [100, 4])
@pytest.mark.parametrize("bits", [16, 8])
def test_a_row_is_copied_piece_by_piece_while_it_goes_on(length: int, piece: int, bits: int) -> None:
    torch.manual_seed(0)
    cache = ring(3, bits=bits)
    for _ in range(length):
        step_row(cache, 2, random_qkv(1, 1), beside=random_qkv(2, 1))
    copied, positions = 0, length
    while True:
        start, stop = max(copied, positions - cache.capacity), min(positions, max(copied, positions - 11) + piece)
        cache.copy(2, 0, start, stop)
        copied = stop
        if copied == positions:
            break
        step_row(cache, 2, random_qkv(1, 1), beside=random_qkv(2, 1))
        positions += 1
    cache.copy_state(2, 0)
    for _ in range(15):
        qkv = random_qkv(1, 1)
        assert torch.equal(step_row(cache, 0, qkv), step_row(cache, 2, qkv))


def test_a_scrubbed_row_has_forgotten_its_nan() -> None:
    torch.manual_seed(0)
    cache = ring(2)
    for _ in range(6):
        step_row(cache, 1, torch.full((1, 1, 3, HEADS, DIM), math.nan))
    cache.reset(1)
    assert not step_row(cache, 1, random_qkv(1, 1), keys=6).isfinite().any(), "a mask does not hide NaN"
    cache.reset(1)
    cache.scrub(1)
    assert step_row(cache, 1, random_qkv(1, 1), keys=6).isfinite().all()


@pytest.mark.parametrize("bits", [16, 8])
def test_bytes_per_row_is_what_a_row_more_takes(bits: int) -> None:
    def tensors(thing: object) -> int:
        found = [value for value in vars(thing).values() if isinstance(value, Tensor)]
        return sum(tensor.nbytes for tensor in found)

    sizes = [tensors(cache) + tensors(cache.store) for cache in (ring(rows, bits=bits) for rows in (2, 5))]
    assert sizes[1] - sizes[0] == 3 * ring(2, bits=bits).bytes_per_row == 3 * ring(5, bits=bits).bytes_per_row


def step_row(cache: KvRing, row: int, qkv: Tensor, *, beside: Tensor | None = None, keys: int | None = None) -> Tensor:
    """A call of all rows in which only one is active -> [H * D]. `beside` [.., 1, 3, H, D]: what the others compute."""
    rows = len(cache.length)
    active = torch.zeros(rows, dtype=torch.bool)
    active[row] = True
    all_rows = (beside if beside is not None else torch.zeros_like(qkv)).new_zeros(rows, *qkv.shape[1:])
    if beside is not None:
        all_rows[:] = beside[:1]
    all_rows[row] = qkv[0]
    keys = keys or min(int(cache.length[row]) + 1, cache.capacity)
    plan = cache.step_plan(1, keys, active)
    for layer in range(LAYERS):
        answer = plan.attend(layer, all_rows.clone())
    cache.advance(1, active)
    return answer[row, 0]
