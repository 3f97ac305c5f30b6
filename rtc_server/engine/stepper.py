"""The engine contract: what device code provides, and nothing about how it is driven.

A stepper is synchronous, lives on one thread and knows no network. A single conversation is a batch of one slot; slots
are independent of each other: each has its own prompt, voice, seed and age.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from rtc_server.errors import UnknownVoice

SAMPLE_RATE = 24_000
FRAME_SAMPLES = 1920
FRAME_RATE = 12.5
FRAME_S = 0.080
FRAME_MS = 80
VOICE_SUFFIXES = (".pt", ".wav", ".safetensors")
"""Of the files that voices are read from."""

MAX_TEMPERATURE = 10.0
MAX_TOP_K = 100_000
MAX_SEED = 2**63 - 1
"""What callers may ask for of these is 0 to the maximum, whichever way they come."""

MAX_VOICE_SAMPLE_FRAMES = 75
"""Six seconds: enough to know a voice by."""

FloatFrames = NDArray[np.float32]
"""Mono samples in [-1, 1] at 24 kHz; shape [slots, 1920] where nothing else is said."""


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What goes in, what comes out, and whether the agent speaks without being spoken to."""

    input: tuple[str, ...] = ("audio",)
    output: tuple[str, ...] = ("audio", "text")
    proactive: bool = True


@dataclass(frozen=True, slots=True)
class Setting:
    """A number that a caller may choose, and the range in which it makes a difference."""

    default: int | float
    min: int | float
    max: int | float


@dataclass(frozen=True, slots=True)
class SamplingSettings:
    """What the fields of `Sampling` mean to an engine."""

    audio_temperature: Setting
    audio_top_k: Setting
    text_temperature: Setting
    text_top_k: Setting


@dataclass(frozen=True, slots=True)
class FrameSpec:
    """What an engine is. Shown to people: in the terminal, on the page, in ``/v1/config``."""

    name: str
    """Short name: ``echo``, ``cascade``, ``personaplex``."""
    summary: str
    """One honest sentence for a person who meets the engine: what it is and what it is not."""
    device: str = "cpu"
    voices: tuple[str, ...] = ("default",)
    """The first one is the default."""
    capabilities: Capabilities = field(default_factory=Capabilities)
    hears_interruptions: bool = True
    """The engine perceives speech over its own voice and deals with it; no audio is dropped for it."""
    default_persona: str = ""
    persona_note: str = ""
    """What a persona does here, and what it does not; shown beside the box that takes it."""
    max_persona_chars: int = 4000
    sampling: SamplingSettings | None = None
    """None: the engine does not sample, and takes no notice of a prompt's `Sampling`."""
    voice_samples: tuple[str, ...] = ()
    """Those of `voices` that can be listened to before a call, see `SupportsVoiceSamples`."""
    sample_rate: int = SAMPLE_RATE
    frame_samples: int = FRAME_SAMPLES
    frame_rate: float = FRAME_RATE

    def voice_named(self, name: str) -> str | None:
        """The voice of this name, or the one whose file is called so: other servers name voices by their files."""
        if name in self.voices:
            return name
        stem = functools.reduce(str.removesuffix, VOICE_SUFFIXES, name)
        return stem if stem in self.voices else None

    def check_voice(self, name: str) -> None:
        """Raises: UnknownVoice, for what is not one of `voices`."""
        if name not in self.voices:
            raise UnknownVoice(f"no voice {name[:40]!r}", hint=f"the engine has {', '.join(self.voices)}")

    def voice_wanted(self, name: str | None) -> str | None:
        """The name, where there is something to choose. Clients of other servers always send one: it means nothing to
        an engine with one voice."""
        return name if name and len(self.voices) > 1 else None


@dataclass(frozen=True, slots=True)
class Sampling:
    """Overrides of the engine's own sampling; ``None`` keeps its default.

    A temperature of 0 is greedy; a top-k of 0 is no limit.
    """

    audio_temperature: float | None = None
    audio_top_k: int | None = None
    text_temperature: float | None = None
    text_top_k: int | None = None


@dataclass(frozen=True, slots=True)
class SessionPrompt:
    """What a conversation starts from. ``voice`` is a name out of ``FrameSpec.voices``, never a path."""

    persona: str | None = None
    voice: str | None = None
    seed: int | None = None
    sampling: Sampling = field(default_factory=Sampling)


@dataclass(frozen=True, slots=True)
class Heard:
    """The user's words, from engines that recognise speech. Frames count from the slot's first live step (0)."""

    text: str
    start_frame: int
    end_frame: int
    final: bool


@dataclass(slots=True)
class StepOutput:
    """What one step made, for every slot; rows of slots that were not live are ignored."""

    pcm: FloatFrames
    """[slots, 1920]; may be reused by the next step, so whoever keeps it copies it."""
    text: list[str | None]
    """A piece of the inner monologue per slot, as it should be appended (spaces included), or None."""
    heard: list[tuple[Heard, ...]]
    failed: frozenset[int] = frozenset()
    """Slots that broke. Their neighbours go on."""
    tokens: NDArray[np.int64] | None = None
    """[slots, 17] from engines that speak in tokens: the frame that this step emitted (text, 8 codes of the agent, 8 of
    the user). A row of -1: the slot emitted none yet, since a frame is whole only once its latest row came."""


class FrameStepper(Protocol):
    """Device code. Every method runs on the engine thread; none may await, sleep or touch a socket."""

    spec: FrameSpec
    slots: int

    def open(self, slot: int, prompt: SessionPrompt) -> None:
        """Make a free slot ready for a new conversation. Quick: the work belongs into `prefill`."""

    def prefill(self, slot: int, budget_s: float) -> bool:
        """Work on the slot's prompt for about `budget_s`. True once the slot may go live: that is the last call."""

    def step(self, pcm: FloatFrames, live: NDArray[np.bool_]) -> StepOutput:
        """One tick: `pcm` [slots, 1920] is what the users said; only rows with `live` [slots] count and advance."""

    def close(self, slot: int) -> None:
        """Forget the conversation of a slot; the next `open` must not see anything of it."""


@runtime_checkable
class SupportsShutdown(Protocol):
    """What a stepper that keeps threads or processes of its own offers beside `FrameStepper`."""

    def shutdown(self) -> None:
        """End them, and wait until they have ended. The last call, on the engine thread, with every slot closed."""


@runtime_checkable
class SupportsDrain(Protocol):
    """What a stepper that works on threads beside its steps offers, for whoever steps it without a clock."""

    def drain(self, timeout_s: float = 30.0) -> bool:
        """Wait until that work is done, so that the next step has its results. False when it took longer."""


@runtime_checkable
class SupportsPromptCheck(Protocol):
    """What a stepper that cannot take every prompt offers, so that a caller is refused before a slot is taken."""

    def check_prompt(self, prompt: SessionPrompt) -> None:
        """Quick, and called from any thread, also while another method runs: it must not change anything.

        Raises: ClientError (say BadRequest) which names the limit.
        """


@runtime_checkable
class SupportsProgress(Protocol):
    """What a stepper whose prefill takes a while offers, so that a caller sees it move."""

    def progress(self, slot: int) -> tuple[int, int]:
        """(done, total) of a slot in prefill, in whatever unit; a total of 0: not known yet."""


@runtime_checkable
class SupportsVoiceSamples(Protocol):
    """What a stepper offers whose voices can be listened to before a call."""

    def voice_sample(self, voice: str) -> NDArray[np.float32]:
        """How one of `FrameSpec.voice_samples` sounds: [n], mono, 24 kHz. What exceeds six seconds is cut off.

        Called from a thread of its own, one call at a time, also while another method runs: it must not change what
        they see, nor work so hard that a step is late.
        """
