"""How the rest of the server sees an engine, wherever it runs.

One client per media process and engine. Once a tick the conductor makes one `exchange` for all its sessions: their
frames go in, their answers come out. The engine owns the clock and the slots; a client only holds leases.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from rtc_server.engine.stepper import FrameSpec, Heard, SessionPrompt


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to one slot. `incarnation` is random per engine start, so a restarted engine refuses an old lease."""

    engine_id: str
    incarnation: str
    slot: int
    token: str


class Live(enum.IntEnum):
    """Is a slot to be stepped? True and False do as well."""

    NO = 0
    """Not in the coming tick, nor until an exchange says otherwise: it is frozen."""
    YES = 1
    """In every tick until an exchange says otherwise, with silence where its frame is late: time is the clock."""
    ONCE = 2
    """In the coming tick, with the frame that comes along, and then not again: the caller's audio is the clock."""


class SlotStatus(enum.Enum):
    PREFILL = "prefill"
    """The prompt is being worked on; frames are not stepped."""
    READY = "ready"
    """Prefilled; waits for its first live exchange."""
    LIVE = "live"
    """Stepped in this tick."""
    FROZEN = "frozen"
    """Prefilled and kept, but not stepped, since the exchange said `live=False`."""
    FAILED = "failed"
    """The slot broke; the lease is gone."""
    REVOKED = "revoked"
    """The lease is unknown here: expired, released, or of another incarnation."""


@dataclass(frozen=True, slots=True)
class SlotOutput:
    """One session's share of a tick."""

    status: SlotStatus
    pcm: NDArray[np.int16] | None = None
    """[1920] at 24 kHz when LIVE, else None."""
    text: str | None = None
    heard: tuple[Heard, ...] = ()
    prefill: tuple[int, int] = (0, 0)
    """(done, total) while PREFILL; a total of 0: not known."""


@dataclass(frozen=True, slots=True)
class TickResult:
    """What an exchange returns; `outputs` lie in the order of the leases."""

    tick: int
    """Number of the edge that the tick counts for. The difference to an owner's last result is the engine time that
    went by for it: what exceeds 1 was stepped with silence or not at all, and as much input is past its time."""
    next_tick_in_s: float
    """From now to the next tick's edge."""
    step_s: float
    """How long the step took."""
    shed: int
    """Edges that went by without a tick since the tick before, because a step overran."""
    outputs: tuple[SlotOutput, ...]


@dataclass(frozen=True, slots=True)
class Capacity:
    total: int
    in_use: int
    draining: bool
    ready: bool
    """A tick succeeded lately (or, on an idle engine, the loop's heartbeat is fresh)."""


class EngineClient(Protocol):
    """PCM here is int16 everywhere: it is what Opus yields, and half the bytes when the engine is far away."""

    spec: FrameSpec

    async def reserve(self, prompt: SessionPrompt) -> Lease:
        """Take a slot and begin its prefill. Where none is free, one that is closing is waited for, but not for long.

        Raises: EngineFull, EngineDraining, EngineUnavailable, UnknownVoice, BadRequest for a prompt that the engine
        cannot take.
        """

    async def exchange(
        self, leases: Sequence[Lease], live: Sequence[int], seq: int, pcm: NDArray[np.int16]
    ) -> TickResult:
        """The one call per tick: `pcm` [n, 1920] belongs to `leases` [n], and so does `live`, each a `Live` or a bool;
        the row of a slot that is not live is ignored. Renews every lease it names. `seq` grows by one per call. Returns
        after the tick.

        Raises: EngineUnavailable when there was no tick before the deadline.
        """

    async def release(self, lease: Lease) -> None:
        """Give the slot back. May be called twice; a stale lease is ignored."""

    async def voice_sample(self, voice: str) -> NDArray[np.int16] | None:
        """How a voice sounds: [frames, 1920], at most six seconds; None where there is no sample. Costs no slot, and
        may take seconds.

        Raises: UnknownVoice, EngineUnavailable, EngineError.
        """

    def capacity(self) -> Capacity:
        """Non-blocking; may be up to 0.5 s old."""
