"""Repeats our last DTLS flight much sooner than OpenSSL would.

OpenSSL's first retransmission comes after 1 s, pyOpenSSL cannot change that, and a repeated flight of the *peer* does
not make OpenSSL repeat its own before the timer. So the datagrams of our last flight are put on the wire again, byte
for byte; the replay window of the peer drops what it has seen already.

A flight ends when the peer answers with something new. As the DTLS server our last flight (ChangeCipherSpec and
Finished) gets no handshake answer: only an application record or an SRTP packet proves that it arrived, so being
connected ourselves is no reason to stop. As the client our last flight is answered by the server's, and then our
handshake is done, which is the reason to stop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

REPEAT_AT_S = (0.060, 0.180, 0.420, 0.900)
"""After the last datagram of the flight."""

MAX_FLIGHT_DATAGRAMS = 8

_CHANGE_CIPHER_SPEC, _HANDSHAKE = 20, 22


class Timer(Protocol):
    def cancel(self) -> None: ...


CallLater = Callable[[float, Callable[[], None]], Timer]
"""As `asyncio.AbstractEventLoop.call_later`."""


class FlightRepeater:
    """Told of every DTLS datagram both ways; calls `send` for repetitions."""

    def __init__(self, send: Callable[[bytes], None], call_later: CallLater) -> None:
        self.repeated = 0
        """Datagrams sent again."""
        self._send = send
        self._call_later = call_later
        self._flight: list[bytes] = []
        self._begin_anew = True
        self._timers: list[Timer] = []
        self._done = False

    def on_sent(self, data: bytes) -> None:
        if self._done or data[0] not in (_CHANGE_CIPHER_SPEC, _HANDSHAKE):
            return
        if self._begin_anew:
            self._flight, self._begin_anew = [], False
        if len(self._flight) < MAX_FLIGHT_DATAGRAMS:
            self._flight.append(data)
        self._cancel()
        self._timers = [self._call_later(delay_s, self._repeat) for delay_s in REPEAT_AT_S]

    def on_received(self) -> None:
        """A DTLS record of the peer: what we send next is a new flight."""
        self._begin_anew = True

    def stop(self) -> None:
        """The handshake is over on both sides (or the call is). May be called again and again."""
        if not self._done:
            self._done = True
            self._cancel()
            self._flight.clear()

    def _repeat(self) -> None:
        self._begin_anew = True  # what OpenSSL repeats by its own timer after this replaces the flight
        for data in self._flight:
            self.repeated += 1
            self._send(data)

    def _cancel(self) -> None:
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
