"""The rows of the engine's batch and who may use them. Sans-IO, and without a lock: `EngineLoop` holds one.

::

    FREE --reserve--> OPENING --open--> PREFILL --prefill--> READY --live frame--> LIVE <--> FROZEN
                         |                 |                                        |
                         +---- raises -----+----------------- breaks ---------------+--> FAILED --told--> CLOSING
    any phase with an owner --release, or lease not used for 5 s--> CLOSING --close--> FREE

Only the engine thread leaves CLOSING, and it does so between two calls into the stepper. So a slot is never handed on
while a call that belongs to its old owner still runs.
"""

from __future__ import annotations

import enum
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field

from rtc_server.engine.client import Lease, SlotStatus
from rtc_server.engine.stepper import Heard, SessionPrompt
from rtc_server.errors import EngineFull

LEASE_TTL_S = 5.0
"""A lease that no exchange named for so long is freed by the engine: its media process is gone."""


MAX_UNREAD_CHARS = 2000
MAX_UNREAD_HEARD = 16


class SlotsClosing(EngineFull):
    """Every slot is in use, but one of them is about to be free: it waits for the step in flight."""


class Phase(enum.Enum):
    FREE = "free"
    OPENING = "opening"
    PREFILL = "prefill"
    READY = "ready"
    LIVE = "live"
    FROZEN = "frozen"
    FAILED = "failed"
    CLOSING = "closing"


_STATUS = {
    Phase.OPENING: SlotStatus.PREFILL,
    Phase.PREFILL: SlotStatus.PREFILL,
    Phase.READY: SlotStatus.READY,
    Phase.LIVE: SlotStatus.LIVE,
    Phase.FROZEN: SlotStatus.FROZEN,
    Phase.FAILED: SlotStatus.FAILED,
}
_PREFILLED = frozenset((Phase.READY, Phase.LIVE, Phase.FROZEN))


@dataclass(slots=True)
class Slot:
    """One row of the batch."""

    index: int
    phase: Phase = Phase.FREE
    token: str = ""
    """The owner's secret, empty without an owner."""
    prompt: SessionPrompt = field(default_factory=SessionPrompt)
    last_use_s: float = 0.0
    wants_live: bool = False
    """What the owner's latest exchange asked for."""
    live_once: bool = False
    """It asked for the tick of its frame only, and for none without it."""
    has_frame: bool = False
    """The frame for the next tick is in."""
    opened: bool = False
    """The stepper may hold something of this slot: a `close` is owed."""
    progress: tuple[int, int] = (0, 0)
    """(done, total) of the prefill, as far as the stepper says."""
    unread_text: str = ""
    unread_heard: tuple[Heard, ...] = ()
    """Words of steps that no exchange took part in; the next exchange gets them. Bounded, the oldest go."""

    @property
    def steps(self) -> bool:
        """It takes part in the next tick."""
        return self.wants_live and self.phase in _PREFILLED

    def keep_unread(self, text: str | None, heard: tuple[Heard, ...]) -> None:
        self.unread_text = (self.unread_text + (text or ""))[-MAX_UNREAD_CHARS:]
        self.unread_heard = (self.unread_heard + heard)[-MAX_UNREAD_HEARD:]

    def take_unread(self) -> tuple[str, tuple[Heard, ...]]:
        unread = self.unread_text, self.unread_heard
        self.unread_text, self.unread_heard = "", ()
        return unread

    @property
    def status(self) -> SlotStatus:
        return _STATUS[self.phase]


class SlotTable:
    """All slots of one engine, and the leases on them."""

    def __init__(self, count: int, engine_id: str, incarnation: str) -> None:
        self._slots = [Slot(index) for index in range(count)]
        self._engine_id = engine_id
        self._incarnation = incarnation

    def __iter__(self) -> Iterator[Slot]:
        return iter(self._slots)

    def __len__(self) -> int:
        return len(self._slots)

    def __getitem__(self, index: int) -> Slot:
        return self._slots[index]

    @property
    def in_use(self) -> int:
        return sum(slot.phase is not Phase.FREE for slot in self._slots)

    def in_phase(self, phase: Phase) -> list[Slot]:
        return [slot for slot in self._slots if slot.phase is phase]

    def reserve(self, prompt: SessionPrompt, now: float) -> Lease:
        """Raises: EngineFull; SlotsClosing when trying again in a moment will do."""
        slot = next((slot for slot in self._slots if slot.phase is Phase.FREE), None)
        if slot is None:
            kind = SlotsClosing if self.in_phase(Phase.CLOSING) else EngineFull
            raise kind(f"all {len(self)} slots of the engine are in use", hint="try again in a few seconds")
        slot.phase = Phase.OPENING
        slot.token = secrets.token_hex(16)
        slot.prompt = prompt
        slot.last_use_s = now
        slot.wants_live = slot.has_frame = False
        slot.progress = (0, 0)
        slot.take_unread()
        return Lease(self._engine_id, self._incarnation, slot.index, slot.token)

    def find(self, lease: Lease) -> Slot | None:
        """The slot that this lease still holds. None for one that expired, was released or is of another engine."""
        if (lease.engine_id, lease.incarnation) != (self._engine_id, self._incarnation):
            return None
        if not lease.token or not 0 <= lease.slot < len(self._slots):
            return None
        slot = self._slots[lease.slot]
        return slot if slot.token == lease.token else None

    def release(self, slot: Slot) -> None:
        """Take the slot from its owner. It is free at once if the stepper never saw it, else after its `close`."""
        slot.token = ""
        slot.prompt = SessionPrompt()
        slot.wants_live = slot.has_frame = False
        slot.phase = Phase.CLOSING if slot.opened else Phase.FREE

    def fail(self, slot: Slot) -> None:
        """The slot broke. Its owner keeps the lease just long enough to be told so."""
        slot.phase = Phase.FAILED
        slot.prompt = SessionPrompt()
        slot.wants_live = slot.has_frame = False

    def to_close(self) -> list[Slot]:
        """Slots whose `close` is owed to the stepper."""
        return [slot for slot in self._slots if slot.opened and slot.phase in (Phase.CLOSING, Phase.FAILED)]

    def closed(self, slot: Slot) -> None:
        """The stepper has forgotten the slot."""
        slot.opened = False
        if slot.phase is Phase.CLOSING:
            slot.phase = Phase.FREE

    def expired(self, now: float) -> list[Slot]:
        """Slots whose owner has not been heard of for `LEASE_TTL_S`."""
        return [slot for slot in self._slots if slot.token and now - slot.last_use_s > LEASE_TTL_S]
