"""What the four transactions have in common (RFC 3261 section 17, as RFC 6026 and RFC 4320 changed it). Sans-IO.

A transaction is one request and what is answered to it, over one flow. Four things can happen to it: its user calls it,
a message arrives, a timer runs, the flow breaks. It answers by sending bytes and by calling its user. Where the figures
of the RFC name a timer, so does the code: A, B and D are those of an INVITE's client, E, F and K of another client,
G, H, I of an INVITE's server, J of another server, L and M of RFC 6026.

A transaction changes its state before it calls its user, so the user may call back at once.
"""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from rtc_server.transports.sip.flow import Flow
from rtc_server.transports.sip.message.message import Request, Response
from rtc_server.transports.sip.transaction.derived import response_to
from rtc_server.transports.sip.transaction.timers import Intervals, Timer, Timers

LOST_ON_THE_WAY = frozenset(
    {errno.ENOBUFS, errno.ENOMEM, errno.ECONNREFUSED, errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTUNREACH}
)
"""Why a datagram could not leave just now, which says nothing of the next one: a buffer is full, a route is away for a
moment, an ICMP message has come that anybody may have sent."""


class State(Enum):
    """Of the figures 5 to 8 of RFC 3261, and of RFC 6026."""

    CALLING = auto()
    TRYING = auto()
    PROCEEDING = auto()
    ACCEPTED = auto()
    """A 2xx to an INVITE: the user repeats it, or acknowledges it; the transaction only keeps repetitions apart. A flow
    that breaks is no reason to do so no longer: they may come another way."""
    COMPLETED = auto()
    CONFIRMED = auto()
    TERMINATED = auto()


class Failure(Enum):
    """A transaction that ends without a final response. The value is the status it counts as (section 8.1.3.1)."""

    TIMEOUT = 408
    TRANSPORT = 503


@dataclass(frozen=True, slots=True)
class Layer:
    """What a transaction needs of the layer it lives in."""

    timers: Timers
    intervals: Intervals
    send: Callable[[bytes, Flow], None]
    """Raises OSError where it is known at once that the message cannot go out."""
    answered: Callable[[], None]
    """Called when a refusal, or any final response to another request than an INVITE, has gone out: from now on the
    transaction only waits for repetitions."""
    ended: Callable[[], None]
    """Called once, when the transaction is over; nothing is pending then."""


class Transaction(ABC):
    """A request, the state of its transaction, and the timers that run, by their letters."""

    def __init__(self, request: Request, flow: Flow, layer: Layer, state: State) -> None:
        self.request = request
        self.flow = flow
        self.state = state
        self._layer = layer
        self._intervals = layer.intervals
        self._running: dict[str, Timer] = {}
        self._latest = b""
        """What is sent again."""

    @property
    def over(self) -> bool:
        return self.state is State.TERMINATED

    def on_transport_error(self) -> None:
        """The flow is broken, or the other end cannot be reached (section 17.1.4)."""
        if not self.over:
            self._fail(Failure.TRANSPORT)

    def drop(self) -> None:
        """Forget it, without a word to anyone."""
        self._end()

    @abstractmethod
    def _fail(self, failure: Failure) -> None:
        """End, and tell the user if this is news to it."""

    @property
    def way_out(self) -> Flow:
        """Where its messages go."""
        return self.flow

    def _send(self, data: bytes) -> None:
        try:
            self._layer.send(data, self.way_out)
        except OSError as error:
            if not self.way_out.reliable and error.errno in LOST_ON_THE_WAY:
                return  # it is sent again, or the transaction's time runs out
            # Not from within the call that sends: its caller would find the transaction in a state it did not expect.
            self._start("broken", 0.0, self.on_transport_error)

    def _send_again(self) -> None:
        if self._latest:
            self._send(self._latest)

    def _repeat(self, letter: str, interval_s: float, following: Callable[[float], float]) -> None:
        """Send the latest message again after `interval_s`, and on, until timer `letter` is stopped.

        `following`: the next interval, from the one that is over. It counts from when the timer ran: repetitions that a
        stall has swallowed are not made up for.
        """

        def again() -> None:
            self._send_again()
            self._repeat(letter, following(interval_s), following)

        self._start(letter, interval_s, again)

    def _doubled(self, interval_s: float) -> float:
        return min(2 * interval_s, self._intervals.t2_s)

    def _start(self, letter: str, delay_s: float, callback: Callable[[], None]) -> None:
        self._stop(letter)
        self._running[letter] = self._layer.timers.after(delay_s, callback)

    def _stop(self, *letters: str) -> None:
        for letter in letters:
            timer = self._running.pop(letter, None)
            if timer is not None:
                timer.cancel()

    def _enter(self, state: State) -> None:
        """A state in which nothing of the last one's timers matters. Enter it before sending, or a failure to send is
        forgotten with them."""
        self.state = state
        self._stop(*self._running)

    def _linger(self, letter: str, delay_s: float) -> None:
        """Absorb repetitions until timer `letter`, at once if they cannot come."""
        if delay_s > 0:
            self._start(letter, delay_s, self._end)
        else:
            self._end()

    def _end(self) -> None:
        if not self.over:
            self._enter(State.TERMINATED)
            self._layer.ended()


class ClientTransaction(Transaction):
    """A request of ours.

    Args:
        on_response: each provisional response, and the final one once; of an INVITE every 2xx that arrives, for each
            wants its ACK.
        on_failure: there will be no final response. Never called after one.
    """

    def __init__(
        self,
        request: Request,
        flow: Flow,
        layer: Layer,
        state: State,
        on_response: Callable[[Response], None],
        on_failure: Callable[[Failure], None],
    ) -> None:
        super().__init__(request, flow, layer, state)
        self._on_response = on_response
        self._on_failure = on_failure
        self._latest = request.to_bytes()

    @abstractmethod
    def start(self) -> None:
        """Send the request. Called once."""

    @abstractmethod
    def receive(self, response: Response) -> None:
        """A response that belongs to this transaction."""

    def _fail(self, failure: Failure) -> None:
        waiting = self.state in (State.CALLING, State.TRYING, State.PROCEEDING)
        if self.state is not State.ACCEPTED:
            self._end()
        if waiting:
            self._on_failure(failure)


class ServerTransaction(Transaction):
    """A request of the other end. The user answers it, sooner or later, with `respond`.

    Args:
        flow: which way it came, and where requests to its sender may go.
        back: where responses go; differs from `flow` where the sender has asked for another port (section 18.2.2).
        to_tag: for the To of every response of ours. The same whenever the same request arrives again, even if no
            transaction remembers it (section 8.2.7).
    """

    def __init__(self, request: Request, flow: Flow, layer: Layer, state: State, back: Flow, to_tag: str) -> None:
        super().__init__(request, flow, layer, state)
        self.back = back
        self.to_tag = to_tag
        self.on_failure: Callable[[Failure], None] | None = None
        """Set by the user who wants to know that its final response, or the way to send one, was lost."""

    @abstractmethod
    def receive(self, request: Request) -> None:
        """The request again, or its ACK."""

    @abstractmethod
    def respond(self, response: Response) -> bool:
        """Send a response. False: it comes too late, a final one is out or the transaction is over."""

    @property
    def way_out(self) -> Flow:
        return self.back

    @property
    def answered(self) -> bool:
        """A final response is out, or none can be sent any more."""
        return self.state not in (State.TRYING, State.PROCEEDING)

    def reply(self, status: int, reason: str = "") -> Response:
        """A response to fill in and send, with what section 8.2.6 asks for."""
        return response_to(self.request, status, self.to_tag, reason)

    def respond_once(self, response: Response) -> None:
        """Send a final response and forget the request: a challenge to a stranger must not cost memory, nor be sent
        eleven times to a forged address (section 26.3.2.4). The ACK to it belongs to nothing."""
        if not self.answered:
            self._send(response.to_bytes())
            self._end()

    def _fail(self, failure: Failure) -> None:
        if self.state is not State.ACCEPTED:
            self._end()
        if self.on_failure is not None:
            self.on_failure(failure)
