from __future__ import annotations

import json
from collections.abc import Sequence

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given
from torch import Tensor

from rtc_server.engine.personaplex.config import (
    AGENT_ROWS,
    CODEBOOKS,
    DELAYS,
    TEXT_ROW,
    TINY_LM,
    TOKEN_ROWS,
    USER_ROWS,
    MimiConfig,
)
from rtc_server.engine.personaplex.lm import LanguageModel
from rtc_server.engine.personaplex.mimi.codec import Mimi
from rtc_server.engine.personaplex.prompt import (
    FIXED_CALLS,
    PAD,
    SILENCE,
    SILENCE_CALLS,
    SINE,
    Prompt,
    align,
    compose,
    forced_calls,
    most_persona_tokens,
)
from rtc_server.engine.personaplex.tokens import FREE
from rtc_server.engine.personaplex.voicefiles import StoredVoice, VoiceAudio
from rtc_server.engine.personaplex.voicemaker import encode
from rtc_server.engine.personaplex.weights import StateDict
from rtc_server.engine.stepper import Sampling

from .goldens import GOLDEN, HIDDEN, golden, largest_error, lm_config, readme

INITIAL = torch.tensor(TINY_LM.initial_tokens)
RING = 4
GREEDY = Sampling(audio_temperature=0, text_temperature=0)

codes = st.integers(0, 24).flatmap(
    lambda n: st.integers(0, 2**31).map(
        lambda seed: torch.randint(TINY_LM.card, (n, CODEBOOKS), generator=torch.Generator().manual_seed(seed))
    )
)
personas = st.lists(st.integers(4, TINY_LM.text_card - 1), max_size=24)


class Ring:
    """The reference's way, one call at a time: a ring of four positions that given tokens are written into."""

    def __init__(self) -> None:
        self.ring = torch.full((TOKEN_ROWS, RING), FREE)
        self.inputs: list[Tensor] = []
        self.calls = 0

    def call(self, tokens: Tensor) -> None:
        now = self.calls
        for row, delay in enumerate(DELAYS):
            self.ring[row, (now + delay) % RING] = tokens[row]
            if now <= delay:
                self.ring[row, now % RING] = INITIAL[row]
        if now > 0:  # the reference runs one call late
            self.inputs.append(self.ring[:, (now - 1) % RING].clone())
        self.calls += 1


def by_hand(voice: Tensor, persona: Sequence[int]) -> tuple[Ring, Ring]:
    """The ring after the voice, and after all of the opening."""
    ring = Ring()
    pause = [(SILENCE, PAD)] * SILENCE_CALLS
    for agent, text in [(row.tolist(), PAD) for row in voice]:
        ring.call(torch.tensor([text, *agent, *SINE]))
    after_voice = Ring()
    after_voice.ring, after_voice.inputs, after_voice.calls = ring.ring.clone(), [*ring.inputs], ring.calls
    for agent, text in [*pause, *[(SILENCE, token) for token in persona], *pause]:
        ring.call(torch.tensor([text, *agent, *SINE]))
    return after_voice, ring


def all_tokens(prompt: Prompt) -> Tensor:
    """[P, 17], where the embeddings of a stored voice stand for their own tokens."""
    if prompt.embeddings is None:
        return prompt.tokens
    return torch.cat([prompt.embeddings.long(), prompt.tokens])


@given(codes, personas)
def test_the_positions_are_those_that_calls_one_by_one_would_run(voice: Tensor, persona: list[int]) -> None:
    _, ring = by_hand(voice, persona)
    prompt = compose(TINY_LM, voice, persona)
    assert prompt.positions == len(voice) + FIXED_CALLS + len(persona) == ring.calls
    assert torch.equal(prompt.tokens[:-1], torch.stack(ring.inputs))
    ring.call(torch.full((TOKEN_ROWS,), FREE))
    assert torch.equal(prompt.tokens[-1], ring.inputs[-1])
    ring.call(torch.full((TOKEN_ROWS,), FREE))
    assert torch.equal(prompt.last, ring.inputs[-1])


@given(codes.filter(lambda voice: len(voice) > 1), personas)
def test_a_stored_voice_opens_like_the_calls_that_it_was_made_from(voice: Tensor, persona: list[int]) -> None:
    after_voice, _ = by_hand(voice, [])
    stored = StoredVoice(torch.stack(after_voice.inputs).float(), after_voice.ring)
    assert stored.calls == len(voice)
    a, b = compose(TINY_LM, voice, persona), compose(TINY_LM, stored, persona)
    assert torch.equal(all_tokens(a), all_tokens(b))
    assert torch.equal(a.last, b.last)
    assert (a.positions, a.prefix) == (b.positions, b.prefix)


@given(codes, personas, personas)
def test_the_prefix_is_the_same_for_every_persona_and_ends_where_they_part(
    voice: Tensor, one: list[int], other: list[int]
) -> None:
    a, b = compose(TINY_LM, voice, one), compose(TINY_LM, voice, other)
    assert a.prefix == b.prefix == len(voice) + SILENCE_CALLS < min(a.positions, b.positions)
    assert torch.equal(a.tokens[: a.prefix], b.tokens[: b.prefix])
    if [*one, PAD][0] != [*other, PAD][0]:
        assert not torch.equal(a.tokens[a.prefix], b.tokens[b.prefix])


def test_the_first_position_after_an_opening_knows_its_late_rows_only() -> None:
    last = compose(TINY_LM, None, [7]).last
    free = [row for row in range(TOKEN_ROWS) if last[row] == FREE]
    assert free == [TEXT_ROW, AGENT_ROWS.start, USER_ROWS.start]
    assert last[AGENT_ROWS].tolist()[1:] == list(SILENCE[1:])
    assert last[USER_ROWS].tolist()[1:] == list(SINE[1:])


def test_an_opening_without_voice_and_persona_is_two_silences() -> None:
    prompt = compose(TINY_LM, None, ())
    assert (prompt.positions, prompt.prefix) == (FIXED_CALLS, SILENCE_CALLS)
    assert torch.equal(prompt.tokens[0], INITIAL)
    assert set(prompt.tokens[1:, TEXT_ROW].tolist()) == {PAD}
    assert torch.equal(prompt.tokens, compose(TINY_LM, torch.zeros(0, CODEBOOKS, dtype=torch.int64), ()).tokens)


def test_the_persona_stands_one_token_a_position_after_voice_and_silence() -> None:
    prompt = compose(TINY_LM, torch.ones(5, CODEBOOKS, dtype=torch.int64), (11, 12, 13))
    assert prompt.tokens[11:14, TEXT_ROW].tolist() == [11, 12, 13]
    assert {*prompt.tokens[1:11, TEXT_ROW].tolist(), *prompt.tokens[14:, TEXT_ROW].tolist()} == {PAD}


def test_what_no_call_has_given_stays_free() -> None:
    rows = align(TINY_LM, forced_calls(torch.tensor([SILENCE])), first=9)
    late = torch.tensor(DELAYS) > 0
    assert torch.equal(rows[0] == FREE, late)
    assert torch.equal(rows[1] == FREE, ~late)


def test_the_longest_persona_leaves_the_whole_opening_in_the_window_of_the_first_frame() -> None:
    config = lm_config("slm")  # a window of 39, and the golden opening has 38 positions
    assert most_persona_tokens(config, voice_calls=12) == 14
    assert most_persona_tokens(config, voice_calls=500) == 0
    assert most_persona_tokens(lm_config("mk"), voice_calls=0) == 24 - 1 - FIXED_CALLS


# ---- the reference's session ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def session() -> dict[str, Tensor]:
    return golden("session_golden")


@pytest.fixture(scope="module")
def voices(session: dict[str, Tensor]) -> dict[str, Tensor | StoredVoice]:
    """A: codes of a recording; B: the same stored."""
    config = MimiConfig.from_json(readme()["configs"]["mimi"], personaplex=True)
    mimi = Mimi(StateDict(golden("mimi_tiny")), config, rows=1, device="cpu")
    return {
        "A": encode(mimi, VoiceAudio(session["voice_pcm"][0].numpy())),
        "B": StoredVoice(session["voice.embeddings"][:, 0, 0], session["voice.cache"][0]),
    }


@pytest.mark.parametrize("way", ["A", "B"])
def test_the_token_rows_of_the_reference_session(
    way: str, session: dict[str, Tensor], voices: dict[str, Tensor | StoredVoice]
) -> None:
    info = json.loads((GOLDEN / "session_info.json").read_text())
    prompt = compose(lm_config("slm"), voices[way], session["text_tokens"].tolist())
    want = session[f"{way}.trace.input_tokens"][0]
    assert prompt.positions == info["marks_audio"]["after_silence2"]
    assert prompt.prefix == info["marks_audio"]["after_silence1"]
    first = prompt.positions - len(prompt.tokens)
    assert torch.equal(prompt.tokens, want[first : prompt.positions])
    known = prompt.last != FREE
    assert torch.equal(prompt.last[known], want[prompt.positions][known])


@pytest.mark.parametrize("chunk", [100, 7])
@pytest.mark.parametrize("way", ["A", "B"])
def test_an_opening_in_one_pass_leads_to_the_conversation_of_the_reference(
    way: str, chunk: int, session: dict[str, Tensor], voices: dict[str, Tensor | StoredVoice]
) -> None:
    weights = StateDict(golden("session_lm_tiny"))
    lm = LanguageModel(weights, lm_config("slm"), rows=1, device="cpu", dtype=torch.float32)
    lm.sampler.set(0, GREEDY, seed=0)
    lm.reset(0)
    prompt = compose(lm.config, voices[way], session["text_tokens"].tolist())
    inputs = lm.embed(prompt.tokens)
    if prompt.embeddings is not None:
        inputs = torch.cat([prompt.embeddings, inputs])
    starts = range(0, len(inputs), chunk)
    hidden = torch.cat([lm.prefill(0, start, inputs[start : start + chunk]) for start in starts])
    want = session[f"{way}.trace.hidden"][0]
    assert largest_error(hidden, want[: prompt.positions]) < HIDDEN
    lm.begin(0, prompt.positions, prompt.last, hidden[-1:])
    active = torch.ones(1, dtype=torch.bool)
    frames = []
    for call, user in enumerate(session["B.user_codes"][0].T):
        lm.sampler.draw([0])
        step = lm.step(user[None], active, lm.keys_for([prompt.positions + call]))
        assert bool(step.valid[0])
        frames.append(step.frame[0])
        if prompt.positions + call < len(want):
            assert largest_error(step.hidden[0], want[prompt.positions + call]) < HIDDEN
    expected = session["eager.emitted_tokens"][0].T
    got = torch.stack(frames)[: len(expected)]
    assert torch.equal(got, expected)
