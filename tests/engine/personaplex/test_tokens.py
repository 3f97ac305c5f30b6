from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from rtc_server.engine.personaplex.config import AGENT_ROWS, DELAYS, TEXT_ROW, TINY_LM, TOKEN_ROWS, USER_ROWS
from rtc_server.engine.personaplex.tokens import FREE, Forced, TokenRows
from tests.engine.personaplex.goldens import forced_speech, golden, lm_config

INITIAL = torch.tensor(TINY_LM.initial_tokens)
LATE = torch.tensor(DELAYS) > 0


def rows_of(count: int = 1) -> TokenRows:
    tokens = TokenRows(count, TINY_LM, "cpu")
    for row in range(count):
        tokens.reset(row)
    return tokens


def user_codes(call: int, rows: int = 1) -> Tensor:
    """Different for each call and row: [rows, 8]."""
    return 100 * torch.arange(rows)[:, None] + 10 * (call % 10) + torch.arange(8)


def chosen(call: int, rows: int = 1) -> Tensor:
    """Text and agent of position call + 1, likewise: [rows, 9]."""
    return 100 * torch.arange(rows)[:, None] + 10 * (call % 10) + torch.arange(9)


ON = torch.ones(1, dtype=torch.bool)


def test_the_first_call_runs_on_initial_tokens_and_swallows_the_user() -> None:
    tokens = rows_of()
    call = tokens.call(user_codes(0))
    assert torch.equal(call.now[0], INITIAL)


def test_rows_that_lie_behind_are_initial_at_the_second_position_too() -> None:
    tokens = rows_of()
    tokens.finish(tokens.call(user_codes(0)), chosen(0), ON)
    call = tokens.call(user_codes(1))
    assert torch.equal(call.now[0, LATE], INITIAL[LATE])
    assert call.now[0, TEXT_ROW] == chosen(0)[0, 0] and call.now[0, 1] == chosen(0)[0, 1]
    assert call.now[0, USER_ROWS.start] == user_codes(1)[0, 0]


def test_a_frame_is_put_together_from_two_positions() -> None:
    tokens = rows_of()
    for number in range(6):
        call = tokens.call(user_codes(number))
        frame = tokens.finish(call, chosen(number), ON)
        if number == 0:
            continue
        want = torch.empty(TOKEN_ROWS, dtype=torch.int64)
        want[: AGENT_ROWS.stop] = torch.where(LATE[:9], chosen(number)[0], chosen(number - 1)[0])
        want[USER_ROWS] = user_codes(number)[0]
        assert torch.equal(frame[0], want)


def test_what_the_model_reads_is_what_the_reference_reads() -> None:
    """The golden run in which every row of every call is given."""
    tensors, tokens = golden("lm_golden"), TokenRows(1, lm_config("lm"), "cpu")
    tokens.reset(0)
    for number in range(59):
        forced = forced_speech(tensors["forced_text"][None, number], tensors["forced_agent_codes"][None, :, number])
        call = tokens.call(tensors["user_codes"][None, :, number], forced)
        assert torch.equal(call.now, tensors["forced.input_tokens"][:, number])
        # The reference, a call later, has been given the next call's text and first codes as well.
        given = tensors["forced.target_provided"][0, number].bool() & LATE
        assert torch.equal(call.given[0], given)
        assert torch.equal(call.target[0, given], tensors["forced.target_tokens"][0, number, given])
        tokens.finish(call, torch.where(given[None, :9], call.target[:, :9], 77), ON)


@pytest.mark.parametrize("seed", range(6))
def test_for_any_delays_frames_and_inputs_are_the_reference_s_of_the_next_call(seed: int) -> None:
    """The reference's rules written out, with a dictionary of positions for its ring; a made-up model. The first calls
    are given, all or in part."""
    generator = torch.Generator().manual_seed(seed)
    most = 1 + seed % 3
    delays = torch.randint(most + 1, (TOKEN_ROWS,), generator=generator)
    delays[0], delays[1], delays[2] = 0, 0, most
    config = replace(TINY_LM, delays=tuple(delays.tolist()))
    tokens = TokenRows(1, config, "cpu")
    tokens.reset(0)
    cells: dict[tuple[int, int], int] = {}
    given: set[tuple[int, int]] = set()
    frames: list[Tensor | None] = []
    inputs: list[Tensor] = []
    calls, masks = torch.randint(200, (30, TOKEN_ROWS), generator=generator), []
    for t in range(30):
        mask = torch.rand(TOKEN_ROWS, generator=generator) < (1.0 if t < 5 else 0.5 if t < 12 else 0.0)
        mask[USER_ROWS] = True
        masks.append(mask)
        for row, delay in enumerate(delays.tolist()):
            if mask[row]:
                cells[t + delay, row] = int(calls[t, row])
                given.add((t + delay, row))
            if t <= delay:
                cells[t, row] = int(INITIAL[row])
                given.add((t, row))
        if t == 0:
            continue
        inputs.append(torch.tensor([cells[t - 1, row] for row in range(TOKEN_ROWS)]))
        for row in range(TOKEN_ROWS):
            if (t, row) not in given:
                cells[t, row] = sampled_at(t, row)
        places = [(t - most + int(delays[row]), row) for row in range(TOKEN_ROWS)]
        frames.append(torch.tensor([cells[place] for place in places]) if t > most else None)
    for number in range(29):
        forced = Forced(calls[None, number], masks[number][None])
        call = tokens.call(calls[None, number, USER_ROWS], forced)
        assert torch.equal(call.now[0], inputs[number])
        wanted = torch.tensor([[sampled_at(number + 1, row) for row in range(9)]])
        assert number >= tokens.first or frames[number] is None
        frame = tokens.finish(call, torch.where(call.given[:, :9], call.target[:, :9], wanted), ON)
        want = frames[number]
        if number >= tokens.first:
            assert want is not None and torch.equal(frame[0], want)


def sampled_at(position: int, row: int) -> int:
    return (7 * position + 13 * row) % 200


def test_given_text_and_first_code_replace_what_the_call_before_sampled() -> None:
    tokens = rows_of()
    for number in range(3):
        tokens.finish(tokens.call(user_codes(number)), chosen(number), ON)
    call = tokens.call(user_codes(3), forced_speech(torch.tensor([200]), torch.arange(201, 209)[None]))
    assert call.now[0, TEXT_ROW] == 200 and call.now[0, 1] == 201
    assert torch.equal(call.now[0, 2:9], chosen(2)[0, 2:]), "the others of this position came a call before"
    assert torch.equal(call.target[0, 2:9], torch.arange(202, 209)) and call.given[0, 2:9].all()
    assert not call.given[0, :2].any()


def test_some_rows_may_be_given_and_others_not() -> None:
    tokens = rows_of(2)
    both = torch.ones(2, dtype=torch.bool)
    for number in range(3):
        tokens.finish(tokens.call(user_codes(number, 2)), chosen(number, 2), both)
    mask = torch.zeros(2, TOKEN_ROWS, dtype=torch.bool)
    mask[1, TEXT_ROW] = True
    call = tokens.call(user_codes(3, 2), Forced(torch.full((2, TOKEN_ROWS), 250), mask))
    free = tokens.call(user_codes(3, 2))
    assert torch.equal(call.now[0], free.now[0])
    assert call.now[1, TEXT_ROW] == 250
    assert torch.equal(call.now[1, 1:], free.now[1, 1:])


def test_inactive_rows_keep_their_tokens_and_their_number() -> None:
    tokens = rows_of(3)
    for number in range(5):
        active = torch.tensor([True, number < 2, number % 2 == 0])
        before = tokens.window.clone(), tokens.offset.clone()
        tokens.finish(tokens.call(user_codes(number, 3)), chosen(number, 3), active)
        assert torch.equal(tokens.window[~active], before[0][~active])
        assert torch.equal(tokens.offset, before[1] + active)


def test_only_the_first_rows_are_touched_by_a_smaller_call() -> None:
    tokens = rows_of(3)
    before = tokens.window[2].clone()
    tokens.finish(tokens.call(user_codes(0, 2)), chosen(0, 2), torch.ones(2, dtype=torch.bool))
    assert torch.equal(tokens.window[2], before)
    assert tokens.offset.tolist() == [1, 1, 0]


def test_a_loaded_row_goes_on_from_there_with_the_users_first_code_of_the_call() -> None:
    tokens = rows_of(2)
    position = torch.arange(300, 300 + TOKEN_ROWS)
    position[USER_ROWS.start] = FREE
    tokens.load(1, 40, position)
    call = tokens.call(user_codes(0, 2))
    want = position.clone()
    want[USER_ROWS.start] = user_codes(0, 2)[1, 0]
    assert torch.equal(call.now[1], want)
    assert not call.given[1, : AGENT_ROWS.stop].any()


def test_moshi_does_not_force_initial_tokens_into_the_depformer() -> None:
    for name, forces in (("lm", True), ("mk", False)):
        tokens = TokenRows(1, lm_config(name), "cpu")
        tokens.reset(0)
        given = tokens.call(user_codes(0)).given[0, AGENT_ROWS]
        assert torch.equal(given, LATE[AGENT_ROWS] & forces)
