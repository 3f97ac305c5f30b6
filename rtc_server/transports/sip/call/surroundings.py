"""What a call needs of the server around it, as narrow as it is used."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from rtc_server.engine.stepper import SessionPrompt
from rtc_server.events import Numbered
from rtc_server.log import get_logger
from rtc_server.session.admission import Admission
from rtc_server.session.leg import Leg, LegHandler
from rtc_server.session.session import Session
from rtc_server.transports.sip.flow import Address, Flow
from rtc_server.transports.sip.negotiation.agreedmedia import AgreedMedia, LocalMedia
from rtc_server.transports.sip.network.target import Target
from rtc_server.transports.sip.sparselog import SparseLog
from rtc_server.transports.sip.transaction.layer import Transactions
from rtc_server.transports.sip.transaction.timers import Intervals, Timers

LINES_OF_EACH, LINES_OF_ALL = 12, 240
"""Of the log, a minute, about what the other end of one call does within it, and those of all calls."""

T = TypeVar("T")

log = get_logger(__name__)


class Network(Protocol):
    """`network.SipNetwork`, as far as calls are concerned."""

    async def connect(self, target: Target) -> Flow:
        """Raises: OSError, TimeoutError."""

    def contact(self, flow: Flow) -> Address:
        """Where others reach us."""

    def hold(self, flow: Flow) -> None:
        """A call uses this flow: it is not closed for being idle until it is released."""

    def release(self, flow: Flow) -> None: ...


class Port(Protocol):
    """`media.rtpport.RtpPort`."""

    @property
    def local(self) -> LocalMedia: ...

    def close(self) -> None: ...


class CallLeg(Leg, Protocol):
    """`media.leg.SipLeg`."""

    handler: LegHandler

    def agree(self, agreed: AgreedMedia, peer_host: str | None = None) -> None:
        """`peer_host`: where the signalling comes from."""

    def hold(self, held: bool) -> None:
        """Whether the other end has put the call on hold: nothing that it plays is for the agent."""

    def answer(self) -> None:
        """The call is answered: audio flows from now on."""

    def send_digits(self, digits: str) -> None: ...

    def keep_alive(self) -> None:
        """The dialog has just proved to be alive."""


class Media(Protocol):
    """Makes ports and legs."""

    def acquire(self, own_host: str, told_host: str) -> Port:
        """Two ports on an address of ours, which the other end is told another address for. Raises: CapacityError."""

    def leg(self, port: Port, on_event: Callable[[Numbered], None], on_close: Callable[[str], None]) -> CallLeg: ...


@dataclass(frozen=True, slots=True)
class CallSettings:
    agent: str = "rtc-server"
    """Names us in Warning headers."""
    setup_s: float = 30.0
    """From an INVITE to the agent being ready to speak."""
    ring_s: float = 60.0
    """How long a call of ours may ring."""
    session_expires_s: int = 1800
    min_se_s: int = 90
    max_calls: int | None = None
    """At once, on all trunks together. None: as many as there are slots."""
    quiet_s: float = 20.0
    """A call in which nothing was heard for so long is asked whether it is still there."""
    held_quiet_s: float = 300.0
    """The same of a call that is on hold, or else sends nothing by agreement."""
    transfer_s: float = 60.0
    """How long a transfer may take."""
    goodbye_s: float = 2.0
    """How long the end of the server waits for the answers to its last BYEs."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    transactions: Transactions
    timers: Timers
    intervals: Intervals
    network: Network
    media: Media
    admission: Admission
    tasks: Tasks
    settings: CallSettings = field(default_factory=CallSettings)
    clock: Callable[[], float] = time.monotonic
    random: random.Random = field(default_factory=random.SystemRandom)
    lines: SparseLog = field(default_factory=lambda: SparseLog(log, LINES_OF_EACH, LINES_OF_ALL))
    """For what the other ends of calls may cause as often as they like; each call is a source."""


class Tasks:
    """Owns the tasks of a user agent, so that none is lost and all end with it."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def start(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """Cancel all, and wait until they are over."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def admit(around: Surroundings, prompt: SessionPrompt, whose: str) -> Session:
    """A session for a call. Where nobody wants it any more (this is cancelled), it is closed as soon as it is there: an
    engine that is about to give a slot must not be interrupted.

    Raises: what `Admission.admit` raises.
    """
    admitting = around.tasks.start(around.admission.admit(prompt), f"sip-admit {whose}")
    try:
        return await asyncio.shield(admitting)
    except asyncio.CancelledError:
        admitting.add_done_callback(_close_unwanted)
        del admitting  # the traceback is kept as long as the call is remembered, and the session must not be
        raise


def _close_unwanted(admitting: asyncio.Task[Session]) -> None:
    if not admitting.cancelled() and admitting.exception() is None:
        admitting.result().close("call_ended")
