"""The channel between the mux and aiortc's DTLS: what RTCDtlsTransport takes for an ICE transport.

Datagrams of one call come in by `receive`; SRTP is handed on at once, DTLS records wait in a short queue for aiortc's
reader. On the way out, handshake flights are repeated early (`flights`), and small application records are sent twice:
a lost event would otherwise wait for an SCTP timer, while a copy costs a few hundred bytes a second and is dropped by
the peer's replay window (RFC 6347 section 4.1.2.6). An SCTP INIT is never copied: a copy whose original was lost may
arrive when the association is up, which a stock aiortc peer takes for a new start.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from rtc_server import metrics
from rtc_server.transports.ratelimit import RateLimit
from rtc_server.transports.webrtc.flights import CallLater, FlightRepeater
from rtc_server.transports.webrtc.sdp import DtlsRole

QUEUE_DATAGRAMS = 64
"""DTLS records that may wait for the reader; more are dropped, and repeated by the peer."""

RECORDS_PER_S = 300.0
"""DTLS records that a peer may send on average: handling one costs about half a millisecond."""

TWICE_AFTER_S = 0.020
TWICE_MAX_BYTES = 400

_APPLICATION_DATA = 23


class DtlsChannel:
    """One call's datagrams.

    `on_srtp` gets SRTP and SRTCP as they come, and says whether they authenticate. Set it once DTLS is connected; None
    drops them. `setup` is our DTLS role, to be set before DTLS starts.

    Args:
        send: puts a datagram on the selected path; False while there is none.
        clock: monotonic seconds.
        call_later: as of the event loop.
    """

    def __init__(self, send: Callable[[bytes], bool], clock: Callable[[], float], call_later: CallLater) -> None:
        self.on_srtp: Callable[[bytes], bool] | None = None
        self.setup: DtlsRole = "passive"
        self.flights = FlightRepeater(self._put, call_later)
        self._send_datagram = send
        self._clock = clock
        self._call_later = call_later
        self._queue: deque[bytes] = deque()
        self._wakeup = asyncio.Event()
        self._closed = False
        self._once = False
        self._records = RateLimit(RECORDS_PER_S, RECORDS_PER_S)

    @property
    def role(self) -> str:
        """aiortc makes the ``controlling`` side the DTLS server, the passive one. Not the ICE role."""
        return "controlling" if self.setup == "passive" else "controlled"

    @property
    def state(self) -> str:
        return "closed" if self._closed else "completed"

    def receive(self, data: bytes) -> bool:
        """One datagram of the peer that is not STUN and not empty. RFC 7983: 20-63 DTLS, 128-191 SRTP.

        Returns: True for SRTP that authenticates. DTLS is read later, and says nothing here.
        """
        first = data[0]
        if 127 < first < 192:
            self._peer_has_finished()
            if self.on_srtp is not None:
                return self.on_srtp(data)
            metrics.DATAGRAMS_DROPPED.labels("early_srtp").inc()
        elif 19 < first < 64:
            self._receive_record(data)
        else:
            metrics.DATAGRAMS_DROPPED.labels("unknown_protocol").inc()
        return False

    def handshake_done(self) -> None:
        """On our side. The client's last flight has been answered; the server's may still be lost."""
        if self.setup == "active":
            self.flights.stop()

    def next_record_once(self) -> None:
        self._once = True

    def close(self) -> None:
        """Wake the reader with the end of the connection, send nothing any more. May be called twice."""
        self._closed = True
        self.flights.stop()
        self._queue.clear()
        self._wakeup.set()

    def _receive_record(self, data: bytes) -> None:
        if self._closed:
            return
        if len(self._queue) >= QUEUE_DATAGRAMS or not self._records.allow(self._clock()):
            metrics.DATAGRAMS_DROPPED.labels("dtls_flood").inc()
            return
        if data[0] == _APPLICATION_DATA:
            self._peer_has_finished()
        else:
            self.flights.on_received()
        self._queue.append(data)
        self._wakeup.set()

    def _peer_has_finished(self) -> None:
        # The server's last flight is the last of all. A client that hears of a finished server still waits for that
        # flight, and only repeating its own brings it back.
        if self.setup == "passive":
            self.flights.stop()

    # ---- called by RTCDtlsTransport ----------------------------------------------------------------------------------

    async def _recv(self) -> bytes:
        while not self._queue:
            if self._closed:
                raise ConnectionError
            self._wakeup.clear()
            await self._wakeup.wait()
        return self._queue.popleft()

    async def _send(self, data: bytes) -> None:
        if self._closed:
            raise ConnectionError
        once, self._once = self._once, False
        if data[0] == _APPLICATION_DATA and len(data) <= TWICE_MAX_BYTES and not once:
            self._call_later(TWICE_AFTER_S, lambda: self._put(data))
        self.flights.on_sent(data)
        self._put(data)

    def _put(self, data: bytes) -> None:
        if not self._closed:
            self._send_datagram(data)
