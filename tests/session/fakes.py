"""Real little classes in place of a peer, an engine and a clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from rtc_server.engine.client import Capacity, Lease, Live, SlotOutput, SlotStatus, TickResult
from rtc_server.engine.stepper import FRAME_SAMPLES, FrameSpec, Heard, SessionPrompt
from rtc_server.errors import EngineFull
from rtc_server.events import Numbered, ResponseDelta, ServerEvent
from rtc_server.session.attachment import Attachment
from rtc_server.session.leg import FloatFrame, Flushed, LegStats

Event = TypeVar("Event", bound=ServerEvent)


class FakeClock:
    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


class FakeLeg:
    """Hears `voice` in every frame, remembers what it was told."""

    kind = "fake"

    def __init__(self, clock: FakeClock, voice: FloatFrame | None = None) -> None:
        self.clock = clock
        self.voice = np.zeros(FRAME_SAMPLES, np.float32) if voice is None else voice
        self.expects_audio = True
        self.live = Live.YES
        self.input_ended = False
        self.input_dropped_ms = 0
        self.last_audio_s = clock.now
        self.last_sign_of_life_s = clock.now
        self.has_events = True
        self.event_room = 64
        self.events: list[ServerEvent] = []
        self.numbered: list[Numbered] = []
        self.written: list[FloatFrame] = []
        self.taken_at: list[float] = []
        self.flushes = 0
        self.skipped = 0
        self.closed: list[str] = []
        """Why it was closed, each time that it was."""
        self.ended: list[str] = []
        """Why it ended by itself."""
        self.fail_on_write = False
        self.handler: Attachment
        """Whom it tells: set by who attaches it."""

    # ---- what the caller does ----

    def connect(self) -> None:
        self.last_audio_s = self.last_sign_of_life_s = self.clock.now
        self.handler.on_connected()

    def say(self, message: str | bytes) -> None:
        self.handler.on_message(message)

    def end(self, reason: str = "peer_closed") -> None:
        """The connection ends from the far side, or is never made."""
        self.ended.append(reason)
        self.handler.on_leg_closed(reason)

    # ---- session.leg.Leg ----

    def take(self, now: float) -> FloatFrame:
        self.taken_at.append(now)
        return self.voice

    def skip(self, frames: int) -> int:
        self.skipped += frames
        return frames

    def write(self, now: float, pcm: FloatFrame) -> int:
        if self.fail_on_write:
            raise RuntimeError("broken leg")
        self.written.append(pcm)
        return len(self.written) * 3840

    def flush(self, now: float) -> Flushed:
        self.flushes += 1
        return Flushed(played_ms=self.played_ms(), dropped_ms=40)

    def played_ms(self) -> int:
        return len(self.written) * 80

    def send_event(self, numbered: Numbered) -> None:
        self.numbered.append(numbered)
        self.events.append(numbered.event)

    def stats(self) -> LegStats:
        return LegStats(input_dropped_ms=self.input_dropped_ms)

    async def close(self, reason: str) -> None:
        self.closed.append(reason)

    def alive(self) -> None:
        self.last_audio_s = self.last_sign_of_life_s = self.clock.now

    @property
    def types(self) -> list[str]:
        return [event.type for event in self.events]

    @property
    def words(self) -> list[str]:
        return [event.data for event in self.events if isinstance(event, ResponseDelta)]

    def last_of(self, kind: type[Event]) -> Event:
        return next(event for event in reversed(self.events) if isinstance(event, kind))

    def of(self, kind: type[ServerEvent]) -> list[ServerEvent]:
        return [event for event in self.events if isinstance(event, kind)]


@dataclass
class FakeEngine:
    """Steps at once whatever it is given, one tick a call."""

    slots: int = 2
    spec: FrameSpec = field(default_factory=lambda: FrameSpec(name="fake", summary="A fake.", voices=("alto", "bass")))
    ready_slots: bool = True
    shed: int = 0
    agent: int = 0
    """Sample value of the agent's frames."""
    text: str | None = None
    heard: tuple[Heard, ...] = ()
    prefill: tuple[int, int] = (0, 0)
    status: SlotStatus | None = None
    draining: bool = False
    ready: bool = True
    step_s: float = 0.001
    samples: dict[str, NDArray[np.int16]] = field(default_factory=dict)
    """By voice."""

    def __post_init__(self) -> None:
        self.edge = 0
        self.sampled: list[str] = []
        self.prompts: list[SessionPrompt] = []
        self.leases: list[Lease] = []
        self.exchanges: list[tuple[list[Lease], list[int], NDArray[np.int16]]] = []

    async def reserve(self, prompt: SessionPrompt) -> Lease:
        if len(self.leases) >= self.slots:
            raise EngineFull("full")
        lease = Lease("fake", "1", len(self.leases), f"token-{len(self.prompts)}")
        self.prompts.append(prompt)
        self.leases.append(lease)
        return lease

    async def exchange(
        self, leases: Sequence[Lease], live: Sequence[int], seq: int, pcm: NDArray[np.int16]
    ) -> TickResult:
        self.exchanges.append((list(leases), list(live), pcm))
        self.edge += 1 + self.shed
        outputs = tuple(self._output(lease, alive) for lease, alive in zip(leases, live, strict=True))
        return TickResult(self.edge, 0.08, self.step_s, self.shed, outputs)

    def _output(self, lease: Lease, live: int) -> SlotOutput:
        if lease not in self.leases:
            return SlotOutput(SlotStatus.REVOKED)
        if self.status is not None:
            return SlotOutput(self.status)
        if not self.ready_slots:
            return SlotOutput(SlotStatus.PREFILL, prefill=self.prefill)
        if not live:
            return SlotOutput(SlotStatus.FROZEN)
        return SlotOutput(SlotStatus.LIVE, np.full(FRAME_SAMPLES, self.agent, np.int16), self.text, self.heard)

    async def release(self, lease: Lease) -> None:
        if lease in self.leases:
            self.leases.remove(lease)

    async def voice_sample(self, voice: str) -> NDArray[np.int16] | None:
        self.sampled.append(voice)
        return self.samples.get(voice)

    def capacity(self) -> Capacity:
        return Capacity(self.slots, len(self.leases), self.draining, self.ready)


class FakePacer:
    def __init__(self) -> None:
        self.aligned: list[tuple[float, float]] = []

    def align(self, tick_s: float, offset_s: float) -> None:
        self.aligned.append((tick_s, offset_s))


def speech(seed: int = 1, level: float = 0.2) -> FloatFrame:
    """80 ms of something as loud and as uneven as a voice."""
    rng = np.random.default_rng(seed)
    t = np.arange(FRAME_SAMPLES) / 24_000
    tone = sum(np.sin(2 * np.pi * 140 * k * t + rng.uniform(0, 6)) / k for k in range(1, 12))
    return (level * np.asarray(tone) / 2).astype(np.float32)
