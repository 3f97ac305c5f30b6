"""Recordings through engines: whole files or none, and what breaks breaks alone."""

from __future__ import annotations

import io
import json
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from rich.console import Console

from rtc_server import cli
from rtc_server.engine.echo import EchoStepper
from rtc_server.engine.registry import EngineOptions
from rtc_server.engine.stepper import (
    FRAME_SAMPLES,
    FloatFrames,
    FrameSpec,
    FrameStepper,
    Heard,
    Sampling,
    SessionPrompt,
    StepOutput,
)
from rtc_server.errors import BadRequest, ConfigError, RtcServerError, UnknownVoice
from rtc_server.media.pcm import to_float, to_int16
from rtc_server.offline import command
from rtc_server.offline.run import Pair, check_paths, run
from rtc_server.offline.stream import AgentFrame, Failure, stream

LENGTHS = (1, 1919, 1920, 1921, 5000)


class TokenStepper:
    """Halves what it hears, speaks in tokens that count each slot's own steps, and breaks on demand."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.spec = FrameSpec("token", "For tests.", voices=("default", "other"), max_persona_chars=20)
        self.age = np.zeros(slots, np.int64)
        self.prompts: dict[int, SessionPrompt] = {}
        self.prefills_left: dict[int, int] = {}
        self.batches: list[list[int]] = []
        self.closed: list[int] = []
        self.drained = self.shut_down = 0
        self.fail_at: dict[int, int] = {}
        """Slot -> its step that fails."""
        self.raise_at = -1
        self.refuse: set[int] = set()
        self.poison: set[int] = set()

    def open(self, slot: int, prompt: SessionPrompt) -> None:
        self.prompts[slot] = prompt
        self.prefills_left[slot] = 3
        self.age[slot] = 0

    def prefill(self, slot: int, budget_s: float) -> bool:
        assert budget_s > 0
        if slot in self.refuse:
            raise RuntimeError("no such prompt")
        self.prefills_left[slot] -= 1
        return self.prefills_left[slot] == 0

    def step(self, pcm: FloatFrames, live: NDArray[np.bool_]) -> StepOutput:
        slots = np.flatnonzero(live).tolist()
        assert all(self.prefills_left[slot] == 0 for slot in slots)
        assert not pcm[~live].any()
        self.batches.append(slots)
        if len(self.batches) - 1 == self.raise_at:
            raise RuntimeError("out of memory")
        failed = frozenset(slot for slot in slots if self.fail_at.get(slot) == self.age[slot])
        tokens = np.full((self.slots, 17), -1, np.int64)
        text: list[str | None] = [None] * self.slots
        heard: list[tuple[Heard, ...]] = [()] * self.slots
        for slot in slots:
            if self.age[slot]:  # the first frame is not whole yet
                tokens[slot] = np.arange(17) + 100 * self.age[slot]
                text[slot] = f" é{self.age[slot]}"
        self.age[slots] += 1
        out = pcm * np.float32(0.5)
        for slot in self.poison:
            out[slot] = np.nan
        if 0 in slots and self.age[0] == 2:
            heard[0] = (Heard("hello", 0, 1, True),)
        return StepOutput(out, text, heard, failed, tokens)

    def close(self, slot: int) -> None:
        self.closed.append(slot)
        del self.prefills_left[slot]

    def drain(self, timeout_s: float = 30.0) -> bool:
        self.drained += 1
        return True

    def shutdown(self) -> None:
        self.shut_down += 1


def noise(samples: int, seed: int = 0) -> NDArray[np.int16]:
    return np.random.default_rng(seed).integers(-32768, 32768, samples).astype(np.int16)


def write_wav(path: Path, pcm: NDArray[np.int16], rate: int = 24_000) -> Path:
    """[n] or [n, channels]"""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1 if pcm.ndim == 1 else pcm.shape[1])
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(pcm.tobytes())
    return path


def samples_of(path: Path) -> NDArray[np.int16]:
    """As the standard library reads it."""
    with wave.open(str(path)) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (24_000, 1, 2)
        return np.frombuffer(file.readframes(file.getnframes()), "<i2")


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def echo(slots: int = 1) -> FrameStepper:
    return EchoStepper(slots, EngineOptions(slots=slots))


def pairs_in(folder: Path, *recordings: NDArray[np.int16]) -> list[Pair]:
    return [
        Pair(write_wav(folder / f"in{number}.wav", pcm), folder / f"out{number}.wav")
        for number, pcm in enumerate(recordings)
    ]


def names_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


# ---- sound -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("samples", LENGTHS)
def test_echo_returns_the_file_bit_for_bit(samples: int, tmp_path: Path) -> None:
    pcm = noise(samples)
    pairs = pairs_in(tmp_path, pcm)
    assert run(echo, pairs) == []
    assert np.array_equal(samples_of(pairs[0].target), pcm)


def test_pairs_of_different_lengths_share_one_engine(tmp_path: Path) -> None:
    recordings = [noise(samples, seed) for seed, samples in enumerate(LENGTHS)]
    pairs = pairs_in(tmp_path, *recordings)
    assert run(lambda: echo(len(pairs)), pairs) == []
    for pair, pcm in zip(pairs, recordings, strict=True):
        assert np.array_equal(samples_of(pair.target), pcm)


def test_a_missing_input_is_refused_before_the_engine_is_built(tmp_path: Path) -> None:
    def build() -> FrameStepper:
        raise AssertionError

    with pytest.raises(ConfigError, match="No such file"):
        run(build, [Pair(tmp_path / "in.wav", tmp_path / "out.wav")])
    assert not names_in(tmp_path)


# ---- words and tokens ------------------------------------------------------------------------------------------------


def test_there_is_one_line_a_frame_and_pair(tmp_path: Path) -> None:
    pairs = pairs_in(tmp_path, noise(3 * FRAME_SAMPLES), noise(FRAME_SAMPLES + 1))
    assert run(lambda: TokenStepper(2), pairs, tmp_path / "out.jsonl") == []
    lines = lines_of(tmp_path / "out.jsonl")
    assert [(line["pair"], line["frame"]) for line in lines] == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2)]
    assert lines[0] == {"pair": 0, "frame": 0, "text": None}
    assert lines[2] == {
        "pair": 0,
        "frame": 1,
        "text": " é1",
        "tokens": list(range(100, 117)),
        "heard": [{"text": "hello", "start_frame": 0, "end_frame": 1, "final": True}],
    }
    assert lines[4]["tokens"][0] == 200


def test_an_engine_without_tokens_has_lines_without_tokens(tmp_path: Path) -> None:
    run(echo, pairs_in(tmp_path, noise(FRAME_SAMPLES)), tmp_path / "out.jsonl")
    assert lines_of(tmp_path / "out.jsonl") == [{"pair": 0, "frame": 0, "text": None}]


def test_frames_of_a_call_saved_as_a_file_reach_the_engine_unchanged() -> None:
    """The engine loop and the offline run convert alike: what the engine gets, and what becomes of its answer."""
    said = noise(2 * FRAME_SAMPLES)
    stepper = TokenStepper(1)
    frames = [event for event in stream(stepper, [said], [SessionPrompt()]) if isinstance(event, AgentFrame)]
    expected = to_int16(to_float(said) * np.float32(0.5))
    assert np.array_equal(np.concatenate([frame.pcm for frame in frames]), expected)


# ---- the engine's calls ----------------------------------------------------------------------------------------------


def test_slots_step_together_and_leave_when_their_recording_ends(tmp_path: Path) -> None:
    stepper = TokenStepper(3)
    prompts = [SessionPrompt(seed=seed, sampling=Sampling(0.0)) for seed in range(2)]
    list(stream(stepper, [noise(FRAME_SAMPLES), noise(3 * FRAME_SAMPLES)], prompts))
    assert stepper.batches == [[0, 1], [1], [1]]
    assert stepper.closed == [0, 1]
    assert [stepper.prompts[slot] for slot in (0, 1)] == prompts
    assert stepper.drained == 3


def test_the_engine_is_shut_down_whatever_happens(tmp_path: Path) -> None:
    stepper = TokenStepper(1)
    run(lambda: stepper, pairs_in(tmp_path, noise(10)))
    assert stepper.shut_down == 1
    with pytest.raises(UnknownVoice):
        run(lambda: stepper, [Pair(tmp_path / "in0.wav", tmp_path / "out.wav", SessionPrompt(voice="nobody"))])
    assert stepper.shut_down == 2


def test_progress_ends_at_all_frames(tmp_path: Path) -> None:
    stepper = TokenStepper(2)
    stepper.fail_at[1] = 2
    seen: list[tuple[int, int]] = []
    pairs = pairs_in(tmp_path, noise(2 * FRAME_SAMPLES), noise(9 * FRAME_SAMPLES))
    run(lambda: stepper, pairs, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (11, 11)
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


# ---- what breaks -----------------------------------------------------------------------------------------------------


def test_a_slot_that_fails_ends_its_pair_alone(tmp_path: Path) -> None:
    stepper = TokenStepper(2)
    stepper.fail_at[0] = 1
    pairs = pairs_in(tmp_path, noise(3 * FRAME_SAMPLES), noise(3 * FRAME_SAMPLES))
    failures = run(lambda: stepper, pairs, tmp_path / "out.jsonl")
    assert [(failure.pair, failure.frame) for failure in failures] == [(0, 1)]
    assert not pairs[0].target.exists()
    assert len(samples_of(pairs[1].target)) == 3 * FRAME_SAMPLES
    mine = [line for line in lines_of(tmp_path / "out.jsonl") if line["pair"] == 0]
    assert [line["frame"] for line in mine] == [0, 1]
    assert set(mine[-1]) == {"pair", "frame", "error"}
    assert stepper.closed == [0, 1]


def test_a_prompt_that_does_not_open_ends_its_pair_alone() -> None:
    stepper = TokenStepper(2)
    stepper.refuse.add(0)
    events = list(stream(stepper, [noise(10), noise(10)], [SessionPrompt()] * 2))
    assert events[0] == Failure(0, 0, "RuntimeError: no such prompt")
    assert [event.pair for event in events[1:]] == [1]
    assert stepper.closed == [0, 1]


def test_audio_that_is_not_finite_ends_its_pair_alone() -> None:
    stepper = TokenStepper(2)
    stepper.poison.add(1)
    events = list(stream(stepper, [noise(10), noise(10)], [SessionPrompt()] * 2))
    assert [(event.pair, type(event)) for event in events] == [(0, AgentFrame), (1, Failure)]


def test_a_step_that_raises_ends_every_pair_that_was_live(tmp_path: Path) -> None:
    stepper = TokenStepper(2)
    stepper.raise_at = 1
    pairs = pairs_in(tmp_path, noise(10), noise(9 * FRAME_SAMPLES))
    failures = run(lambda: stepper, pairs, tmp_path / "out.jsonl")
    assert failures == [Failure(1, 1, "RuntimeError: out of memory")]
    assert pairs[0].target.exists() and not pairs[1].target.exists()


# ---- files -----------------------------------------------------------------------------------------------------------


def test_an_output_named_twice_is_refused(tmp_path: Path) -> None:
    source = write_wav(tmp_path / "in.wav", noise(10))
    with pytest.raises(ConfigError, match="twice"):
        run(lambda: echo(2), [Pair(source, tmp_path / "out.wav"), Pair(source, tmp_path / "." / "out.wav")])
    with pytest.raises(ConfigError, match="twice"):
        run(echo, [Pair(source, tmp_path / "out")], tmp_path / "out")


def test_a_link_that_leads_to_itself_is_named(tmp_path: Path) -> None:
    (loop := tmp_path / "loop.wav").symlink_to(loop)
    with pytest.raises(ConfigError, match="loop.wav is a link that leads nowhere"):
        check_paths([Pair(loop, tmp_path / "out.wav", SessionPrompt())], None)


def test_an_input_is_never_overwritten(tmp_path: Path) -> None:
    source = write_wav(tmp_path / "in.wav", noise(10))
    (tmp_path / "link.wav").symlink_to(source)
    for target in (source, tmp_path / "link.wav"):
        with pytest.raises(ConfigError, match="input and an output"):
            run(echo, [Pair(source, target)])
    assert np.array_equal(samples_of(source), noise(10))


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    source = write_wav(tmp_path / "in.wav", noise(10))
    with pytest.raises(ConfigError, match="nowhere"):
        run(echo, [Pair(source, tmp_path / "nowhere" / "out.wav")])
    with pytest.raises(ConfigError, match="no file"):
        (tmp_path / "folder.wav").mkdir()
        run(echo, [Pair(source, tmp_path / "folder.wav")])
    assert names_in(tmp_path) == {"in.wav", "folder.wav"}


def test_nothing_is_left_behind_when_the_engine_does_not_start(tmp_path: Path) -> None:
    def build() -> FrameStepper:
        raise ConfigError("no weights")

    pairs = pairs_in(tmp_path, noise(10))
    pairs[0].target.write_bytes(b"from an earlier run")
    with pytest.raises(ConfigError, match="no weights"):
        run(build, pairs, tmp_path / "out.jsonl")
    assert names_in(tmp_path) == {"in0.wav", "out0.wav"}
    assert pairs[0].target.read_bytes() == b"from an earlier run"


def test_a_full_disk_is_told_and_leaves_nothing_behind(tmp_path: Path) -> None:
    def progress(_done: int, _total: int) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(RtcServerError, match="No space left"):
        run(echo, pairs_in(tmp_path, noise(10)), tmp_path / "out.jsonl", progress)
    assert names_in(tmp_path) == {"in0.wav"}


@pytest.mark.parametrize(
    ("prompt", "error"),
    [(SessionPrompt(voice="nobody"), UnknownVoice), (SessionPrompt(persona="x" * 21), BadRequest)],
)
def test_a_prompt_that_the_engine_does_not_take_is_refused(
    prompt: SessionPrompt, error: type[RtcServerError], tmp_path: Path
) -> None:
    source = write_wav(tmp_path / "in.wav", noise(10))
    with pytest.raises(error):
        run(lambda: TokenStepper(1), [Pair(source, tmp_path / "out.wav", prompt)])
    assert names_in(tmp_path) == {"in.wav"}


def test_a_voice_may_be_named_by_its_file(tmp_path: Path) -> None:
    source = write_wav(tmp_path / "in.wav", noise(10))
    stepper, prompt = TokenStepper(1), SessionPrompt(persona="A sailor.", voice="other.pt", seed=7)
    assert run(lambda: stepper, [Pair(source, tmp_path / "out.wav", prompt)]) == []
    assert stepper.prompts[0] == SessionPrompt(persona="A sailor.", voice="other", seed=7)


# ---- the command -----------------------------------------------------------------------------------------------------


def offline(*arguments: object) -> int:
    return cli.main(["offline", *map(str, arguments)])


def test_command_takes_as_many_slots_as_pairs(tmp_path: Path) -> None:
    pairs = pairs_in(tmp_path, *(noise(100 + seed, seed) for seed in range(6)))
    files = [path for pair in pairs for path in (pair.source, pair.target)]
    assert offline(*files, "--engine", "echo", "--text", tmp_path / "out.jsonl") == 0
    for seed, pair in enumerate(pairs):
        assert np.array_equal(samples_of(pair.target), noise(100 + seed, seed))
    assert len(lines_of(tmp_path / "out.jsonl")) == 6


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["in.wav"], "no output"),
        (["in.wav", "a.wav", "in.wav", "b.wav", "--slots", "1"], "2 pairs do not fit 1 slots"),
        (["in.wav", "in.wav"], "input and an output"),
        (["in.wav", "no/a.wav"], "no folder"),
        (["in.wav", "a.wav", "--seed", "-1"], "--seed"),
        (["in.wav", "a.wav", "--greedy", "--text-temperature", "0.5"], "--greedy"),
        (["in.wav", "a.wav", "--audio-temperature", "nan"], "--audio-temperature"),
        (["in.wav", "a.wav", "--text-top-k", "-3"], "--text-top-k"),
        (["in.wav", "a.wav", "--voice", "nobody"], "nobody"),
    ],
)
def test_wrong_use_is_one_clear_line(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write_wav(tmp_path / "in.wav", noise(10))
    assert offline(*arguments, "--engine", "echo") == 2
    error = capsys.readouterr().err
    assert message in error and "Traceback" not in error
    assert names_in(tmp_path) == {"in.wav"}


class OneBreaks(TokenStepper):
    """As ``package.module:Class``."""

    def __init__(self, slots: int, options: EngineOptions) -> None:
        super().__init__(slots)
        self.fail_at[0] = 1


def test_command_says_which_pair_broke(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = pairs_in(tmp_path, noise(3 * FRAME_SAMPLES), noise(3 * FRAME_SAMPLES))
    files = [path for pair in pairs for path in (pair.source, pair.target)]
    assert offline(*files, "--engine", f"{__name__}:OneBreaks", "--greedy", "--seed", 5) == 1
    assert "in0.wav: broke off after 0.08 s" in capsys.readouterr().err
    assert pairs[1].target.exists() and not pairs[0].target.exists()


def test_flags_become_the_prompt_of_every_pair(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[SessionPrompt] = []
    opened = TokenStepper.open

    def spy(self: TokenStepper, slot: int, prompt: SessionPrompt) -> None:
        seen.append(prompt)
        opened(self, slot, prompt)

    monkeypatch.setattr(TokenStepper, "open", spy)
    pairs = pairs_in(tmp_path, noise(10), noise(10))
    files = [path for pair in pairs for path in (pair.source, pair.target)]
    flags = ["--persona", "A sailor.", "--voice", "other", "--seed", "7", "--greedy", "--text-top-k", "5"]
    assert offline(*files, "--engine", f"{__name__}:OneBreaks", *flags) == 0
    assert seen == [SessionPrompt("A sailor.", "other", 7, Sampling(0.0, None, 0.0, 5))] * 2


def test_a_terminal_sees_a_bar_and_a_pipe_does_not() -> None:
    for terminal in (True, False):
        out = io.StringIO()
        with command._bar(Console(file=out, force_terminal=terminal, width=80)) as progress:
            if progress is not None:
                progress(3, 12)
        assert (progress is not None) == terminal
        assert ("3/12" in out.getvalue()) == terminal
