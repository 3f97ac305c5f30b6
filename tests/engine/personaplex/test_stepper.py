"""The real model behind the engine contract, on a whole checkpoint with tiny weights."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from rtc_server.engine.conformance import check_stepper
from rtc_server.engine.personaplex import opening
from rtc_server.engine.personaplex.load import load_model
from rtc_server.engine.personaplex.pace import ChunkPace
from rtc_server.engine.personaplex.promptcache import PromptCache
from rtc_server.engine.personaplex.stepper import PersonaPlexStepper
from rtc_server.engine.personaplex.tick import Extent, PlainRunner
from rtc_server.engine.personaplex.voicefiles import VoiceAudio
from rtc_server.engine.registry import EngineOptions
from rtc_server.engine.stepper import FRAME_SAMPLES, Sampling, SessionPrompt, Setting, StepOutput
from rtc_server.errors import EngineError, NoVoiceSample, TooLarge, UnknownVoice
from tests.engine.personaplex.fixedshapes import fix_shapes
from tests.engine.personaplex.tiny import GOLDEN, SHORT_PERSONA, tiny_checkpoint

GREEDY = Sampling(audio_temperature=0.0, text_temperature=0.0)
Make = Callable[..., PersonaPlexStepper]


@pytest.fixture
def make(checkpoint: Path) -> Make:
    def make(slots: int = 2, **options: object) -> PersonaPlexStepper:
        return fix_shapes(
            PersonaPlexStepper(slots, EngineOptions(slots=slots, device="cpu", model=str(checkpoint), **options))
        )

    return make


def prompt(persona: str = SHORT_PERSONA, voice: str = "ALTO", seed: int = 1, **sampling: float) -> SessionPrompt:
    return SessionPrompt(persona=persona, voice=voice, seed=seed, sampling=Sampling(**sampling))


def opened(stepper: PersonaPlexStepper, slot: int, wish: SessionPrompt, budget_s: float = 0.5) -> int:
    """Open a slot and work on its prompt until it is ready. Returns the calls of `prefill`."""
    stepper.open(slot, wish)
    for calls in range(1, 10_000):
        if stepper.prefill(slot, budget_s):
            return calls
    raise AssertionError("the prompt is never finished")


def frames(seed: int, count: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(0, 0.1, (count, FRAME_SAMPLES)).astype(np.float32)


def step(stepper: PersonaPlexStepper, said: dict[int, np.ndarray]) -> StepOutput:
    pcm, live = np.zeros((stepper.slots, FRAME_SAMPLES), np.float32), np.zeros(stepper.slots, np.bool_)
    for slot, frame in said.items():
        pcm[slot], live[slot] = frame, True
    return stepper.step(pcm, live)


def talk(stepper: PersonaPlexStepper, slot: int, said: Iterable[np.ndarray]) -> list[list[int]]:
    """The token frames of a conversation that nobody else takes part in."""
    return [step(stepper, {slot: frame}).tokens[slot].tolist() for frame in said]


def test_it_keeps_the_contract(checkpoint: Path) -> None:
    def build(slots: int) -> PersonaPlexStepper:
        return fix_shapes(PersonaPlexStepper(slots, EngineOptions(slots=slots, device="cpu", model=str(checkpoint))))

    assert len(check_stepper(build, tolerance=1e-4, break_slot=_poison)) == 10


def _poison(stepper: PersonaPlexStepper, slot: int) -> None:
    """As a fault of the device would: what the slot remembers is no number any more."""
    stepper._lm.kv.store._all[:, :, stepper._rows[slot]] = float("nan")


@pytest.mark.parametrize("slot", [0, 1])
def test_a_session_speaks_the_tokens_and_the_sound_of_the_reference(make: Make, slot: int) -> None:
    golden = load_file(GOLDEN / "session_golden.safetensors")
    persona = json.loads((GOLDEN / "README.json").read_text())["configs"]["text"]
    expected = golden["eager.emitted_tokens"][0].T
    stepper = make()
    opened(stepper, slot, SessionPrompt(persona, "ALTO", 1, GREEDY))
    for index, frame in enumerate(golden["user_pcm"].view(-1, FRAME_SAMPLES).numpy()[: len(expected)]):
        output = step(stepper, {slot: frame})
        assert output.tokens is not None
        assert output.tokens[slot].tolist() == expected[index].tolist()
        sound = golden["eager.emitted_pcm"].flatten()[index * FRAME_SAMPLES :][:FRAME_SAMPLES].clamp(-1, 1)
        assert np.abs(output.pcm[slot] - sound.numpy()).max() < 1e-5


def test_two_callers_with_other_voices_personas_seeds_and_ages_do_not_hear_each_other(make: Make) -> None:
    wishes = {
        0: prompt("You are a pilot.", "ALTO", 7),
        1: prompt("", "BASS", 8, audio_temperature=1.2, audio_top_k=20),
    }
    said = {0: frames(1, 40), 1: frames(2, 30)}
    alone = {}
    for slot, wish in wishes.items():
        stepper = make()
        opened(stepper, slot, wish)
        alone[slot] = talk(stepper, slot, said[slot])
    stepper = make()
    opened(stepper, 0, wishes[0])
    together = {0: talk(stepper, 0, said[0][:10]), 1: []}
    opened(stepper, 1, wishes[1])
    for index in range(30):
        output = step(stepper, {0: said[0][10 + index], 1: said[1][index]})
        for slot in (0, 1):
            together[slot].append(output.tokens[slot].tolist())
    assert together == alone
    assert alone[0] != alone[1]


def test_a_seed_makes_a_conversation_repeatable_and_another_one_makes_another(make: Make) -> None:
    stepper = make(1)
    heard = []
    for seed in (5, 5, 6):
        opened(stepper, 0, prompt(seed=seed))
        heard.append(talk(stepper, 0, frames(3, 12)))
        stepper.close(0)
    assert heard[0] == heard[1] != heard[2]


def test_a_prompt_in_small_pieces_is_the_same_prompt(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, pieces = make(1), make(1)
    monkeypatch.setattr(pieces._prefills.pace, "fitting", lambda budget_s, most: min(3, most))
    assert opened(whole, 0, prompt()) == 1
    opened(pieces, 0, prompt(), budget_s=1e-6)
    assert talk(whole, 0, frames(4, 10)) == talk(pieces, 0, frames(4, 10))


def test_a_prompt_that_was_worked_through_once_is_only_copied(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    stepper = make(2)
    stepper._prefills.prompts = PromptCache(1 << 30)
    opened(stepper, 0, prompt())
    first = talk(stepper, 0, frames(5, 8))
    passes: list[int] = []
    prefill = stepper._lm.prefill
    monkeypatch.setattr(stepper._lm, "prefill", lambda row, start, x: passes.append(len(x)) or prefill(row, start, x))
    assert opened(stepper, 1, prompt()) == 1
    assert not passes
    assert talk(stepper, 1, frames(5, 8)) == first
    stepper.close(1)
    opened(stepper, 1, prompt(""))  # the same voice: only what comes after it
    voice_frames = stepper._model.shelf.frames("ALTO")
    assert sum(passes) == stepper._talks[1].positions - (voice_frames + 6)


def test_a_recorded_voice_is_encoded_once(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    stepper = make(2)
    opened(stepper, 0, prompt(voice="BASS"))
    monkeypatch.setattr(stepper._mimi, "encode", None)
    opened(stepper, 1, prompt("", voice="BASS"))


def test_a_waiting_prompt_takes_the_smallest_step_after_a_while(make: Make) -> None:
    stepper = make(1)
    stepper.open(0, prompt())
    now = [0.0]
    task = stepper._talks[0].opening
    assert task is not None
    task._clock = lambda: now[0]
    task._went_on_s = 0.0
    stepper._prefills.pace = ChunkPace()
    stepper._prefills.pace.took(256, 1000.0)
    assert not stepper.prefill(0, 0.010)
    assert task.done == 0
    now[0] = opening.PATIENCE_S + 0.1
    stepper.prefill(0, 0.010)
    assert task.done > 0


def test_progress_counts_positions(make: Make) -> None:
    stepper = make(1)
    stepper.open(0, prompt())
    seen = [stepper.progress(0)]
    while not stepper.prefill(0, 1e-5):
        seen.append(stepper.progress(0))
    assert seen[0] == (0, 0)
    assert seen == sorted(seen)


@pytest.mark.parametrize("persona", ["", "   ", "<system> hi <system>", "\ud800", "a" * 8])
def test_odd_personas_are_taken(make: Make, persona: str) -> None:
    stepper = make(1)
    wish = SessionPrompt(persona=persona, voice="ALTO", seed=1)
    stepper.check_prompt(wish)
    opened(stepper, 0, wish)
    assert len(talk(stepper, 0, frames(1, 2))) == 2


def test_a_persona_that_does_not_fit_is_refused_with_its_tokens_and_the_limit(make: Make) -> None:
    with pytest.raises(TooLarge, match=r"the persona is \d+ tokens long, and the model takes at most 14 beside"):
        make(1).check_prompt(prompt("You are a patient museum guide. " * 20))


def test_a_broken_slot_fails_alone_and_leaves_nothing_to_the_next(make: Make) -> None:
    stepper = make(2)
    opened(stepper, 0, prompt(seed=3))
    opened(stepper, 1, prompt(seed=4))
    _poison(stepper, 0)
    output = step(stepper, {0: frames(1, 1)[0], 1: frames(2, 1)[0]})
    assert output.failed == {0}
    assert np.isfinite(output.pcm).all()
    stepper.close(0)
    opened(stepper, 0, prompt(seed=3))
    fresh = make(2)
    opened(fresh, 0, prompt(seed=3))
    for frame in frames(9, 30):  # past the ring, so that every row of it has been read
        both = step(stepper, {0: frame, 1: frame})
        assert not both.failed
        assert both.tokens[0].tolist() == step(fresh, {0: frame}).tokens[0].tolist()


def test_a_slot_that_breaks_is_not_moved_and_its_row_is_clean_for_the_next(make: Make) -> None:
    stepper = make(2)
    for slot in range(2):
        opened(stepper, slot, prompt(seed=slot))
    stepper.close(0)
    _poison(stepper, 1)
    assert step(stepper, {1: frames(1, 1)[0]}).failed == {1}
    stepper.close(1)
    for slot in range(2):
        opened(stepper, slot, prompt(seed=slot))
    for frame in frames(2, 60):
        assert not step(stepper, {0: frame, 1: frame}).failed


def test_a_call_that_breaks_off_ends_the_conversations_in_it_and_no_other(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    stepper = make(3)
    for slot in range(2):
        opened(stepper, slot, prompt(seed=slot))
    decode, frame = stepper._mimi.decode, frames(1, 1)[0]

    def break_off(*args: object, **kwargs: object) -> None:
        raise RuntimeError("device-side assert")

    monkeypatch.setattr(stepper._mimi, "decode", break_off)
    with pytest.raises(RuntimeError, match="device-side"):
        step(stepper, {0: frame, 1: frame})
    with pytest.raises(EngineError, match="broke off"):
        step(stepper, {0: frame, 1: frame})
    monkeypatch.setattr(stepper._mimi, "decode", decode)
    opened(stepper, 2, prompt(seed=2))
    output = step(stepper, dict.fromkeys(range(3), frame))
    assert output.failed == {0, 1}
    assert output.tokens[2].min() >= 0
    for slot in range(2):
        stepper.close(slot)
        opened(stepper, slot, prompt(seed=slot))
    assert not step(stepper, dict.fromkeys(range(3), frame)).failed


def test_a_prompt_that_ends_in_no_number_fails_its_slot_and_is_not_kept(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    stepper = make(1)
    embed = stepper._lm.embed
    monkeypatch.setattr(stepper._lm, "embed", lambda tokens: embed(tokens) * float("nan"))
    with pytest.raises(EngineError, match="not finite"):
        opened(stepper, 0, prompt())
    monkeypatch.undo()
    stepper.close(0)
    opened(stepper, 0, prompt())
    assert not any(step(stepper, {0: frame}).failed for frame in frames(1, 60))


class SpyRunner(PlainRunner):
    extents: list[Extent]

    def run(self, extent: Extent) -> None:
        self.extents = [*getattr(self, "extents", []), extent]
        super().run(extent)


def test_a_caller_who_is_left_over_moves_to_a_low_row_and_does_not_notice(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rtc_server.engine.personaplex.stepper.MOVE_POSITIONS", 8)
    # The batch shrinks under way: sound whose codes are clear whatever the last bits are.
    said = load_file(GOLDEN / "mimi_golden.safetensors")["pcm_in"].view(-1, FRAME_SAMPLES).numpy()
    alone = make(4)
    opened(alone, 3, prompt(seed=11))
    expected = talk(alone, 3, said)
    stepper = make(4)
    for slot in range(4):
        opened(stepper, slot, prompt(seed=8 + slot))
    stepper._runner = runner = SpyRunner(stepper._tick)
    heard = [step(stepper, dict.fromkeys(range(4), frame)).tokens[3].tolist() for frame in said[:6]]
    for slot in range(3):
        stepper.close(slot)
    heard += talk(stepper, 3, said[6:])
    assert heard == expected
    rows = [extent.rows for extent in runner.extents]
    assert rows[6] == 4
    assert rows[-1] == 1


def test_whoever_hangs_up_while_they_move_leaves_both_rows_free(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rtc_server.engine.personaplex.stepper.MOVE_POSITIONS", 1)
    stepper = make(2)
    for slot in range(2):
        opened(stepper, slot, prompt(seed=slot))
    stepper.close(0)
    step(stepper, {1: frames(1, 1)[0]})
    assert stepper._move is not None
    stepper.close(1)
    assert stepper._move is None
    for slot in (0, 1):
        opened(stepper, slot, prompt(seed=slot))
    assert sorted(stepper._rows[slot] for slot in (0, 1)) == [0, 1]


def test_a_prompt_that_is_given_up_leaves_its_row_free(make: Make) -> None:
    stepper = make(1)
    for _ in range(3):
        stepper.open(0, prompt())
        stepper.prefill(0, 1e-6)
        stepper.close(0)
    opened(stepper, 0, prompt())
    fresh = make(1)
    opened(fresh, 0, prompt())
    assert talk(stepper, 0, frames(1, 5)) == talk(fresh, 0, frames(1, 5))


@pytest.mark.parametrize("pinned", [False, True])
def test_a_conversation_goes_on_past_the_window(make: Make, pinned: bool) -> None:
    stepper = make(1, pin_prompt=pinned)
    opened(stepper, 0, prompt("", "ALTO"))
    heard = talk(stepper, 0, frames(7, 150))
    assert all(min(frame) >= 0 for frame in heard)
    assert len({tuple(frame) for frame in heard}) > 100


def test_only_what_is_asked_for_is_pinned(make: Make) -> None:
    for pinned in (False, True):
        stepper = make(1, pin_prompt=pinned)
        opened(stepper, 0, prompt(""))
        positions = stepper._talks[0].positions
        assert stepper._lm.kv.pinned_positions(0) == (positions if pinned else 0)
        stepper.close(0)
        assert stepper._lm.kv.pinned_positions(0) == 0


def test_the_context_can_be_capped(make: Make) -> None:
    stepper = make(1, max_context=32)
    assert stepper._lm.config.context == 32
    opened(stepper, 0, prompt(""))
    assert len(talk(stepper, 0, frames(8, 60))) == 60


def test_moshi_takes_no_prompt_and_begins_with_a_silent_frame(tmp_path: Path) -> None:
    folder = tiny_checkpoint(tmp_path / "moshi", model_type="moshi")
    stepper = PersonaPlexStepper(1, EngineOptions(slots=1, device="cpu", model=str(folder)))
    assert stepper.spec.voices == ("default",) and stepper.spec.voice_samples == ()
    assert opened(stepper, 0, SessionPrompt(persona="ignored", seed=1)) == 1
    first = step(stepper, {0: frames(1, 1)[0]})
    assert not first.pcm.any()
    assert (first.tokens[0] == -1).all()
    assert first.text[0] is None
    assert min(talk(stepper, 0, frames(1, 1))[0]) >= 0


def test_text_comes_as_words_and_never_as_control_tokens(make: Make) -> None:
    stepper = make(1)
    opened(stepper, 0, prompt(seed=3))
    words = [step(stepper, {0: frame}).text[0] for frame in frames(9, 80)]
    said = "".join(word or "" for word in words)
    assert said
    assert not re.search(r"<(0x|s>|/s>|pad>|unk>)", said)
    assert None in words


def test_a_loaded_model_serves_a_stepper_of_its_own(checkpoint: Path) -> None:
    options = EngineOptions(slots=1, device="cpu", model=str(checkpoint))
    stepper = PersonaPlexStepper(1, options, load_model(1, options))
    opened(stepper, 0, prompt())
    assert torch.is_inference_mode_enabled() is False
    assert len(talk(stepper, 0, frames(1, 2))) == 2


def test_gaps_that_were_used_do_not_make_chunks_look_cheaper(make: Make) -> None:
    """Chunks that are taken for cheaper than they are overrun the gap, and then a neighbour's tick is late."""
    stepper = make(1)
    now = [0.0]
    fixed_s, each_s = 0.010, 0.001
    pace = stepper._prefills.pace = ChunkPace()
    for size in (1, 8, 64):
        pace.took(size, fixed_s + each_s * size)
    prefill = stepper._lm.prefill

    def timed(row: int, start: int, inputs: torch.Tensor) -> torch.Tensor:
        now[0] += fixed_s + each_s * len(inputs)
        return prefill(row, start, inputs)

    stepper._lm.prefill = timed  # type: ignore[method-assign]
    for turn in range(20):
        stepper.open(0, prompt(seed=turn))
        task = stepper._talks[0].opening
        assert task is not None
        stepper._prefills.prompts = PromptCache(0)
        task._clock = lambda: now[0]
        task._went_on_s = now[0]
        while True:
            gap_ends_s = now[0] + 0.030
            ready = stepper.prefill(0, 0.030)
            assert now[0] <= gap_ends_s + 1e-9
            if ready:
                break
            now[0] = gap_ends_s + 0.050
        stepper.close(0)


def test_a_voice_that_is_a_recording_can_be_listened_to(make: Make) -> None:
    stepper = make(1)
    assert stepper.spec.voice_samples == ("BASS",)
    sample = stepper.voice_sample("BASS")
    recording = stepper._model.shelf.load("BASS")
    assert isinstance(recording, VoiceAudio)
    np.testing.assert_array_equal(sample, recording.pcm)
    with pytest.raises(NoVoiceSample):
        stepper.voice_sample("ALTO")
    for name in ("BASS.wav", "../BASS", "/etc/passwd", ""):
        with pytest.raises(UnknownVoice):
            stepper.voice_sample(name)


def test_what_can_be_chosen_of_its_sampling_is_told(make: Make) -> None:
    settings = make(1).spec.sampling
    assert settings is not None
    assert settings.audio_temperature == Setting(0.8, 0, 10.0) and settings.audio_top_k == Setting(250, 1, 250)
    assert settings.text_temperature == Setting(0.7, 0, 10.0) and settings.text_top_k == Setting(25, 1, 250)
