"""The language model against what the reference implementations gave: every group of the golden tensors."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from rtc_server.engine.personaplex.config import AGENT_ROWS, CODEBOOKS
from rtc_server.engine.personaplex.lm import LanguageModel
from rtc_server.engine.personaplex.prompt import align
from tests.engine.personaplex.goldens import (
    CODE_LOGITS,
    HIDDEN,
    forced_speech,
    golden,
    largest_error,
    live_rows,
    lm_model,
    readme,
)

CALLS = 59
"""The reference's last call has no counterpart: it is one later."""
NO_FRAME = -9


def run_of(name: str) -> dict[str, Tensor]:
    """``greedy``, ``forced`` or ``mixed20``, without the dimension of one row."""
    prefix = f"{name}."
    return {key.removeprefix(prefix): value for key, value in golden("lm_golden").items() if key.startswith(prefix)}


def user_codes() -> Tensor:
    """[calls, 8]."""
    return golden("lm_golden")["user_codes"].T


def given_calls() -> Tensor:
    """[calls, 17]: every row of every call of the run ``forced``."""
    tensors = golden("lm_golden")
    return torch.cat([tensors["forced_text"][None], tensors["forced_agent_codes"], tensors["user_codes"]]).T


@pytest.mark.parametrize(("run", "forced_calls"), [("greedy", 0), ("forced", 60), ("mixed20", 20)])
def test_calls_give_what_the_reference_gives_one_call_later(run: str, forced_calls: int) -> None:
    want, given = run_of(run), given_calls()
    lm = lm_model("lm_tiny")
    for call in range(CALLS):
        forced = forced_speech(given[None, call, 0], given[None, call, AGENT_ROWS]) if call < forced_calls else None
        assert int(lm.tokens.offset) == int(want["call_index"][call]) - 1
        step = lm.step(user_codes()[None, call], live_rows(True), lm.keys_for([call]), forced, keep_logits=True)
        assert largest_error(step.hidden, want["hidden"][:, call]) < HIDDEN
        assert largest_error(step.text_logits, want["text_logits"][:, call]) < HIDDEN
        assert torch.equal(step.sampled_text, want["sampled_text"][:, call])
        if call + 1 >= forced_calls:  # before that the reference knows the next call's text and first code already
            assert step.code_logits is not None
            assert largest_error(step.code_logits, want["dep_logits"][:, call, :CODEBOOKS]) < CODE_LOGITS
            assert torch.equal(step.sampled_codes, want["sampled_audio"][:, call, :CODEBOOKS])
        assert bool(step.valid) == (int(want["emitted"][0, call, 0]) != NO_FRAME)
        if step.valid:
            assert torch.equal(step.frame, want["emitted"][:, call])


@pytest.mark.parametrize("run", ["greedy", "mixed20"])
def test_sixteen_depformer_steps_say_the_same(run: str) -> None:
    want, given = run_of(run), given_calls()
    lm = lm_model("lm_tiny", depformer_steps=16)
    for call in range(CALLS):
        forced = (
            forced_speech(given[None, call, 0], given[None, call, AGENT_ROWS])
            if run == "mixed20" and call < 20
            else None
        )
        step = lm.step(user_codes()[None, call], live_rows(True), lm.keys_for([call]), forced)
        if step.valid:
            assert torch.equal(step.frame, want["emitted"][:, call])


@pytest.mark.parametrize("chunk", [100, 7, 1])
def test_a_prefill_in_any_chunks_gives_the_hidden_states_of_single_calls(chunk: int) -> None:
    """More positions than the ring has."""
    lm = lm_model("lm_tiny", rows=3)
    hidden = prefill(lm, 1, given_calls()[:CALLS], chunk)
    assert largest_error(hidden, run_of("forced")["hidden"][0]) < HIDDEN


def test_a_prefill_longer_than_the_ring_is_followed_by_calls() -> None:
    lm, given = lm_model("lm_tiny", rows=3), given_calls()
    prefill(lm, 1, given[:40], 100)
    lm.begin(1, 40, align(lm.config, given[:40])[-1], torch.zeros(1, lm.config.dim))
    for call in range(40, CALLS):
        user = user_codes()[call].expand(3, -1)
        forced = forced_speech(given[call, 0].expand(3), given[call, AGENT_ROWS].expand(3, -1))
        step = lm.step(user, live_rows(False, True, False), lm.keys_for([call]), forced)
        assert largest_error(step.hidden[1], run_of("forced")["hidden"][0, call]) < HIDDEN


@pytest.mark.parametrize("chunk", [20, 3])
def test_an_opening_ends_with_what_its_last_position_leaves_free(chunk: int) -> None:
    want = run_of("mixed20")
    lm = lm_model("lm_tiny", rows=3)
    open_row(lm, 2, given_calls()[:20], chunk)
    for call in range(20, CALLS):
        step = lm.step(user_codes()[call].expand(3, -1), live_rows(False, False, True), lm.keys_for([call]))
        assert largest_error(step.hidden[2], want["hidden"][0, call]) < HIDDEN
        assert torch.equal(step.frame[2], want["emitted"][0, call])


@pytest.mark.parametrize("prefilled", [False, True])
def test_sessions_that_start_at_different_times_in_one_batch_equal_their_single_runs(prefilled: bool) -> None:
    """One row is used by two of them, one after the other. Openings by forced calls, or by prefill."""
    schedule = readme()["info"]["lm"]["sessions"]
    sessions = [session(index) for index in range(len(schedule))]
    lm = lm_model("lm_tiny", rows=1 + max(s["row"] for s in schedule))
    checked = 0
    for tick in range(max(s["start"] + s["calls"] for s in schedule)):
        user = torch.zeros(lm.rows, CODEBOOKS, dtype=torch.int64)
        text, agent = torch.zeros(lm.rows, dtype=torch.int64), torch.zeros(lm.rows, CODEBOOKS, dtype=torch.int64)
        active, speaks = torch.zeros(lm.rows, dtype=torch.bool), torch.zeros(lm.rows, dtype=torch.bool)
        running = []
        for plan, given in zip(schedule, sessions, strict=True):
            call, row = tick - plan["start"], plan["row"]
            if not 0 <= call < plan["calls"] - 1:
                continue
            if call == 0:
                lm.reset(row)
            if call < plan["prompt"]:
                if prefilled:
                    if call + 1 == plan["prompt"]:
                        hidden = open_row(lm, row, calls_of(given)[: plan["prompt"]], 100)
                        assert largest_error(hidden, given["hidden"][0, : plan["prompt"]]) < HIDDEN
                    continue
                text[row], agent[row], speaks[row] = (
                    given["prompt_text"][call],
                    given["prompt_agent_codes"][:, call],
                    True,
                )
            user[row], active[row] = given["user_codes"][:, call], True
            running.append((row, call, plan["prompt"], given))
        forced = forced_speech(text, agent)
        forced = type(forced)(forced.tokens, forced.mask & speaks[:, None])
        step = lm.step(user, active, lm.keys_for(call for _, call, _, _ in running), forced)
        for row, call, prompt, given in running:
            assert largest_error(step.hidden[row], given["hidden"][0, call]) < HIDDEN
            assert largest_error(step.text_logits[row], given["text_logits"][0, call]) < HIDDEN
            if call + 1 >= prompt:
                assert torch.equal(step.sampled_codes[row], given["sampled_audio"][0, call, :CODEBOOKS])
            if step.valid[row] and call >= prompt:
                assert torch.equal(step.frame[row], given["emitted"][0, call])
                checked += 1
    assert checked == sum(s["calls"] - 1 - max(1, s["prompt"]) for s in schedule)


def test_moshi_is_stepped_without_a_prompt() -> None:
    want = golden("moshiko_lm_golden")
    lm = lm_model("moshiko_lm_tiny")
    for call in range(want["user_codes"].shape[1]):
        step = lm.step(want["user_codes"][None, :, call], live_rows(True), lm.keys_for([call]))
        assert largest_error(step.text_logits, want["text_logits"][:, call]) < HIDDEN
        assert torch.equal(step.sampled_text, want["sampled_text"][:, call])
        assert torch.equal(step.sampled_codes, want["sampled_audio"][:, call])
        frame = torch.where(step.valid[:, None], step.frame[:, :9], NO_FRAME)
        assert torch.equal(frame, want["emitted"][:, call])


def test_a_row_of_moshi_starts_anew_among_others() -> None:
    want = golden("moshiko_lm_golden")
    not_yet, rows = -2, 3
    lm = lm_model("moshiko_lm_tiny", rows=rows)
    for call in range(want["batch.user_codes"].shape[2]):
        if call == int(want["batch.reset_row1_at"]):
            lm.reset(1)
        step = lm.step(want["batch.user_codes"][:, :, call], torch.ones(rows, dtype=torch.bool), lm.keys_for([call]))
        frame = torch.where(step.valid[:, None], step.frame[:, :9], not_yet)
        assert torch.equal(frame, want["batch.emitted"][:, call])


def prefill(lm: LanguageModel, row: int, calls: Tensor, chunk: int) -> Tensor:
    """Positions 0..K-1 of K calls [K, 17] -> hidden states [K, dim]."""
    x = lm.embed(align(lm.config, calls)[:-1])
    return torch.cat([lm.prefill(row, start, x[start : start + chunk]) for start in range(0, len(x), chunk)])


def open_row(lm: LanguageModel, row: int, calls: Tensor, chunk: int) -> Tensor:
    lm.reset(row)
    hidden = prefill(lm, row, calls, chunk)
    lm.begin(row, len(calls), align(lm.config, calls)[-1], hidden[-1:])
    return hidden


def session(index: int) -> dict[str, Tensor]:
    prefix = f"session{index}."
    tensors = golden("lm_batch_golden")
    return {key.removeprefix(prefix): value for key, value in tensors.items() if key.startswith(prefix)}


def calls_of(given: dict[str, Tensor]) -> Tensor:
    """[prompt, 17]."""
    prompt = len(given["prompt_text"])
    return torch.cat([given["prompt_text"][None], given["prompt_agent_codes"], given["user_codes"][:, :prompt]]).T
