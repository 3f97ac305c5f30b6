"""What each row of the batch may rely on, whatever the others do."""

from __future__ import annotations

import math
from collections.abc import Iterable

import pytest
import torch
from torch import Tensor

from rtc_server.engine.personaplex.config import CODEBOOKS
from rtc_server.engine.personaplex.lm import LanguageModel, LmStep
from rtc_server.engine.personaplex.prompt import align
from rtc_server.engine.stepper import Sampling
from tests.engine.personaplex.goldens import HIDDEN, largest_error, lm_config, lm_model

CARD, TEXT_CARD = 256, 300


def users(calls: int, seed: int) -> Tensor:
    """[calls, 8]."""
    return torch.randint(CARD, (calls, CODEBOOKS), generator=torch.Generator().manual_seed(seed))


def opening(length: int, seed: int) -> Tensor:
    """Calls [length, 17] in which everything is given."""
    generator = torch.Generator().manual_seed(1000 + seed)
    calls = torch.randint(CARD, (length, 17), generator=generator)
    calls[:, 0] = torch.randint(TEXT_CARD, (length,), generator=generator)
    return calls


def open_row(lm: LanguageModel, row: int, calls: Tensor) -> None:
    positions = align(lm.config, calls)
    hidden = lm.prefill(row, 0, lm.embed(positions[:-1]))
    lm.begin(row, len(calls), positions[-1], hidden[-1:])


def step(lm: LanguageModel, user: Tensor, active: Iterable[int], n: int | None = None) -> LmStep:
    """A call of rows 0..n-1, of which `active` take part; user [8] or [n, 8]."""
    n, rows = n or lm.rows, list(active)
    flags = torch.zeros(n, dtype=torch.bool)
    flags[rows] = True
    lm.sampler.draw(rows)
    keys = lm.keys_for(lm.kv.length[rows].tolist())
    return lm.step(user.expand(n, -1), flags, keys)


def single_run(row_seed: int, prompt: int, calls: int) -> list[Tensor]:
    """Frames of a conversation that has an engine for itself."""
    lm = lm_model("lm_tiny", sampling=Sampling())
    lm.sampler.set(0, Sampling(), row_seed)
    if prompt:
        open_row(lm, 0, opening(prompt, row_seed))
    frames = []
    for user in users(calls, row_seed):
        made = step(lm, user, [0])
        if made.valid[0]:
            frames.append(made.frame[0])
    return frames


def test_conversations_of_any_age_in_one_batch_say_what_each_says_alone() -> None:
    """Sampled, with openings, pauses and rows that are used again; calls of all rows and of the first few."""
    plans = {0: (0, 50, 0), 1: (5, 35, 3), 2: (30, 30, 10), 3: (9, 12, 2), 4: (0, 14, 30)}  # prompt, calls, start
    rows = {0: 0, 1: 1, 2: 2, 3: 3, 4: 3}
    want = {seed: single_run(seed, prompt, calls) for seed, (prompt, calls, _) in plans.items()}
    lm = lm_model("lm_tiny", rows=4)
    got: dict[int, list[Tensor]] = {seed: [] for seed in plans}
    done = dict.fromkeys(plans, 0)
    for tick in range(70):
        user, active = torch.zeros(4, CODEBOOKS, dtype=torch.int64), []
        for seed, (prompt, calls, start) in plans.items():
            row = rows[seed]
            if tick == start:
                lm.reset(row)
                lm.sampler.set(row, Sampling(), seed)
                if prompt:
                    open_row(lm, row, opening(prompt, seed))
            if tick >= start and done[seed] < calls and (tick + seed) % 7:  # now and then it waits
                user[row] = users(calls, seed)[done[seed]]
                active.append(row)
                done[seed] += 1
        if not active:
            continue
        n = 4 if tick % 2 else max(active) + 1
        made = step(lm, user[:n], active, n)
        for seed in plans:
            row = rows[seed]
            if row in active and tick >= plans[seed][2] and made.valid[row] and (seed != 3 or tick < plans[4][2]):
                got[seed].append(made.frame[row])
    for seed in plans:
        assert len(got[seed]) == len(want[seed])
        assert torch.equal(torch.stack(got[seed]), torch.stack(want[seed]))


def test_an_inactive_row_keeps_every_bit() -> None:
    lm = lm_model("lm_tiny", rows=3, sampling=Sampling())
    open_row(lm, 1, opening(9, 1))

    def state() -> list[Tensor]:
        tensors = [lm.kv.save(1, 9), lm.kv.length[1], lm.tokens.window[1], lm.tokens.offset[1], lm.sampler.noise[1]]
        return [tensor.clone() for tensor in tensors]

    before = state()
    for number, user in enumerate(users(40, 0)):
        step(lm, user, [0, 2] if number % 2 else [0], 3 if number % 2 else 2)
    assert all(torch.equal(a, b) for a, b in zip(state(), before, strict=True))


@pytest.mark.parametrize("calls", [4, 40])
def test_a_moved_row_goes_on_as_it_would_have_where_it_was(calls: int) -> None:
    lm = lm_model("lm_tiny", rows=3, sampling=Sampling())
    open_row(lm, 2, opening(6, 2))
    for user in users(calls, 2):
        step(lm, user, [2])
    lm.kv.copy(2, 0, 0, 6 + calls)
    lm.copy_row(2, 0)
    for user in users(30, 3):
        made = step(lm, user, [0, 2])
        assert torch.equal(made.frame[0], made.frame[2])
        assert torch.equal(made.hidden[0], made.hidden[2])


def test_nan_stays_in_its_row_and_is_told_and_a_scrubbed_row_is_as_new() -> None:
    lm, healthy = lm_model("lm_tiny", rows=3), lm_model("lm_tiny", rows=3)
    for number, user in enumerate(users(30, 5)):
        if number == 6:
            lm.kv.load(1, lm.kv.save(1, 3) * math.nan)
        if number == 15:
            for model in (lm, healthy):
                model.reset(1, scrub=True)
        made, want = step(lm, user, range(3)), step(healthy, user, range(3))
        broken = 6 <= number < 15
        assert made.finite.tolist() == [True, not broken, True]
        rows = [0, 2] if broken else [0, 1, 2]
        assert torch.equal(made.hidden[rows], want.hidden[rows])
        assert torch.equal(made.frame[rows], want.frame[rows])
        assert ((made.frame >= 0) & (made.frame <= TEXT_CARD)).all(), "a broken row still gives codes in range"


@pytest.mark.parametrize("kv_bits", [16, 8])
def test_a_saved_opening_is_continued_with_the_same_tokens(kv_bits: int) -> None:
    lm = lm_model("lm_tiny", rows=2, kv_bits=kv_bits)
    positions = align(lm.config, opening(12, 0))
    hidden = lm.prefill(0, 0, lm.embed(positions[:-1]))
    saved = lm.kv.save(0, 12)
    lm.kv.load(1, saved)
    lm.kv.set_length(1, 12)
    for row in range(2):
        lm.begin(row, 12, positions[-1], hidden[-1:])
    for user in users(30, 0):
        made = step(lm, user, [0, 1])
        assert torch.equal(made.hidden[0], made.hidden[1])
        assert torch.equal(made.frame[0], made.frame[1])


@pytest.mark.parametrize("kv_bits", [16, 8])
def test_an_opening_in_pieces_between_the_calls_of_others_is_the_same(kv_bits: int) -> None:
    lm = lm_model("lm_tiny", rows=2, kv_bits=kv_bits)
    x = lm.embed(align(lm.config, opening(30, 0))[:-1])
    whole = lm.prefill(0, 0, x)
    lm.reset(0)
    parts = []
    for start in range(0, 30, 7):
        parts.append(lm.prefill(1, start, x[start : start + 7]))
        step(lm, users(1, start)[0], [0])
    assert largest_error(torch.cat(parts), whole) < HIDDEN


def test_keys_to_read_are_the_filled_ones_of_the_oldest_row() -> None:
    lm = lm_model("lm_tiny")
    assert lm.keys_for([0]) == 1
    assert lm.keys_for([3, 11, 7]) == 12
    assert lm.keys_for([5, 1000]) == lm.kv.capacity == lm_config("lm").context - 1
    assert lm.keys_for([]) == 1


def test_more_keys_or_a_wider_mode_change_nothing() -> None:
    exact, wide = (lm_model("lm_tiny", rows=2, sampling=Sampling()) for _ in range(2))
    on = torch.ones(2, dtype=torch.bool)
    for number, user in enumerate(users(30, 0)):
        for lm in (exact, wide):
            lm.sampler.draw([0, 1])
        narrow = exact.step(
            user.expand(2, -1), on, exact.keys_for([number]), mode=exact.sampler.mode([0, 1]), full=True
        )
        broad = wide.step(user.expand(2, -1), on, wide.kv.capacity)
        assert largest_error(narrow.hidden, broad.hidden) < HIDDEN
        assert torch.equal(narrow.frame, broad.frame)


def test_bytes_per_row_is_what_a_row_more_takes() -> None:
    def state_bytes(lm: LanguageModel) -> int:
        parts = (lm.kv, lm.kv.store, lm.tokens, lm.sampler, lm._depformer)
        tensors = [value for part in parts for value in vars(part).values() if isinstance(value, Tensor)]
        return sum(tensor.nbytes for tensor in tensors)

    for kv_bits in (16, 8):
        few, many = (lm_model("lm_tiny", rows=rows, kv_bits=kv_bits) for rows in (2, 7))
        assert state_bytes(many) - state_bytes(few) == 5 * few.bytes_per_row
        assert few.bytes_per_row == many.bytes_per_row
        assert few.nbytes == many.nbytes
