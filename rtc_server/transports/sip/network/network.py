"""SIP over UDP, TCP and TLS: messages in and out, each with the flow it takes."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count

from rtc_server.errors import ConfigError
from rtc_server.log import get_logger
from rtc_server.transports.sip.flow import Address, Flow, Transport
from rtc_server.transports.sip.hosts import source_of
from rtc_server.transports.sip.message.message import SipParseError
from rtc_server.transports.sip.network.addresses import WILDCARDS, OwnAddress, SourceAddresses, place_towards
from rtc_server.transports.sip.network.connection import StreamLimits
from rtc_server.transports.sip.network.dns import DnsResolver
from rtc_server.transports.sip.network.gate import Gate, GateForCalls, OpenGate
from rtc_server.transports.sip.network.listenon import ListenOn
from rtc_server.transports.sip.network.resolve import Resolver, addresses_of
from rtc_server.transports.sip.network.streams import LINES_OF_ALL, LINES_OF_EACH, Streams, listen_on_stream
from rtc_server.transports.sip.network.target import Target
from rtc_server.transports.sip.network.tls import TlsContexts, TlsSettings
from rtc_server.transports.sip.network.trouble import words_for
from rtc_server.transports.sip.network.turns import Turns
from rtc_server.transports.sip.network.udp import UdpSocket, bind_udp
from rtc_server.transports.sip.sparselog import SparseLog

SWEEP_EVERY_S = 1.0

logger = get_logger(__name__)


class SipNetwork:
    """Every socket of the SIP side. Loop thread only.

    Args:
        listen: may hold several places of one transport. Requests over UDP leave from one of them.
        on_message: one whole message, never a keep-alive. What it raises is logged; the socket lives on.
        on_closed: a connection is gone, whoever closed it. Not called for UDP.
        on_unreadable: a stream that cannot be followed any more. What is sent to its flow meanwhile still leaves.
        gate: whom to listen to, beside the hosts that calls are with. A connection on which somebody says more than is
            listened to is closed.
        advertise: an address or a name that leads here from outside, where this machine's own addresses do not.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        listen: Sequence[ListenOn],
        on_message: Callable[[bytes, Flow], None],
        on_closed: Callable[[Flow], None],
        *,
        on_unreadable: Callable[[SipParseError, Flow], None] | None = None,
        gate: Gate | None = None,
        tls: TlsSettings | None = None,
        advertise: str | None = None,
        limits: StreamLimits | None = None,
        resolver: Resolver | None = None,
        clock: Callable[[], float] = time.monotonic,
        chance: random.Random | None = None,
    ) -> None:
        self._listen = listen
        self._on_message = on_message
        self._on_closed = on_closed
        self._on_unreadable = on_unreadable
        self._turns = Turns()
        self._in_calls: Counter[tuple[Transport, str]] = Counter()  # hosts, each with the transport of its calls
        self._gate = GateForCalls(gate or OpenGate(), self._in_calls)
        self._tls = TlsContexts(tls or TlsSettings())
        self._own = OwnAddress(advertise)
        self._resolver = resolver or DnsResolver()
        self._chance = chance or random.Random()
        self._sources = SourceAddresses(clock)
        self._ids = count(1)
        self._udp: dict[int, UdpSocket] = {}
        self.streams = Streams(
            self._receive_on_stream,
            self._give_up,
            self._lose,
            self._tls,
            limits or StreamLimits(),
            clock,
            self._gate,
            self._turns,
            self._ids,
        )
        self._clock = clock
        self._lines = SparseLog(logger, LINES_OF_EACH, LINES_OF_ALL)
        self._sweeping: asyncio.TimerHandle | None = None

    @property
    def listening(self) -> Sequence[ListenOn]:
        """Where, with the ports that the sockets have got."""
        return self._own.listening

    async def start(self) -> None:
        """Raises: ConfigError where a place cannot be listened on, or a certificate is no good."""
        await asyncio.to_thread(self._tls.load, any(place.transport == "tls" for place in self._listen))
        for place in self._listen:
            try:
                got = self._open(place)
            except OSError as error:
                await self.close()
                raise ConfigError(
                    f"cannot listen on {place}: {error.strerror}",
                    hint="another server has it, or this machine has no such address",
                ) from None
            self._own.listening = [*self._own.listening, got]
            logger.info("SIP port open", transport=got.transport, port=got.port)
        self._sweep_later()

    async def close(self) -> None:
        """Close every connection, after a moment for what is unsent. May be called twice."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None
        await self.streams.close()
        for item in self._udp.values():
            item.close()
        self._udp.clear()
        self._turns.close()

    def send(self, data: bytes, flow: Flow) -> None:
        """Put a message on its way; never waits. Raises: OSError where it is known that it will not arrive."""
        if flow.transport != "udp":
            self.streams.send(data, flow)
        elif (item := self._udp.get(flow.id)) is not None:
            item.send(data, flow.remote)
        else:
            raise OSError("this flow's UDP socket is closed")

    async def connect(self, target: Target) -> Flow:
        """A flow to one of the target's addresses, the first that can be had. A connection that is there is used.

        Whether anybody is there only connections tell; over UDP it is the first address that a route leads to.

        Raises: OSError, TimeoutError.
        """
        failure: OSError = OSError("the name has no address")
        for remote in await addresses_of(target, self._resolver, self._chance):
            try:
                if target.transport == "udp":
                    return self._udp_flow(remote)
                source = self._source(target, remote)
                return await self.streams.connect(target.transport, remote, target.host, source)
            except OSError as error:  # TimeoutError is one
                logger.info("SIP address not reached", transport=target.transport, reason=words_for(error))
                failure = error
        raise failure

    def hold(self, flow: Flow) -> None:
        """A call uses this flow: its peer is listened to, and its connection not closed for being idle. `release` it
        once for each `hold`."""
        self._in_calls[flow.transport, flow.remote[0]] += 1
        if flow.transport != "udp":
            self.streams.hold(flow)

    def release(self, flow: Flow) -> None:
        host = flow.transport, flow.remote[0]
        self._in_calls[host] -= 1
        if self._in_calls[host] <= 0:
            del self._in_calls[host]
        if flow.transport != "udp":
            self.streams.release(flow)

    def sent_by(self, flow: Flow) -> str:
        """``host:port`` for our Via."""
        return self._own.sent_by(flow)

    def contact(self, flow: Flow) -> Address:
        """Where the peer of this flow reaches us, for Contact; the host without brackets. Its host is for SDP too."""
        return self._own.contact(flow)

    def _open(self, place: ListenOn) -> ListenOn:
        if place.transport == "udp":
            item = UdpSocket(bind_udp(place), next(self._ids), self._sources, self._turns, self._gate, self._receive)
            self._udp[item.id] = item
            return item.place
        bound = listen_on_stream(place)
        self.streams.listen(bound, place.transport)
        return ListenOn(place.transport, place.host, bound.getsockname()[1])

    def _udp_flow(self, remote: Address) -> Flow:
        by_place = {item.place: item for item in self._udp.values()}
        place = place_towards(remote[0], by_place, self._sources)
        if place is None:
            raise OSError("listen has no udp place that leads there")
        return by_place[place].flow_to(remote)

    def _source(self, target: Target, remote: Address) -> str | None:
        """Which address a connection comes from: the one that we listen on, if it is one in particular."""
        same = [place for place in self.listening if place.transport == target.transport]
        place = place_towards(remote[0], same, self._sources)
        return None if place is None or place.host in WILDCARDS else place.host

    # ---- from the sockets: nothing gets out of here ------------------------------------------------------------------

    def _receive_on_stream(self, data: bytes, flow: Flow) -> None:
        # Whom we have called is no stranger.
        if self.streams.is_ours(flow) or self._gate.allow(flow.remote[0], flow.transport):
            self._receive(data, flow)
        else:
            self.streams.drop(flow, "flood")

    def _receive(self, data: bytes, flow: Flow) -> None:
        try:
            self._on_message(data, flow)
        except Exception:
            logger.exception("SIP message failed", transport=flow.transport)

    def _give_up(self, error: SipParseError, flow: Flow) -> None:
        source = source_of(flow.remote[0])
        self._lines.info(
            source, "SIP stream cannot be read", self._clock(), transport=flow.transport, status=error.status
        )
        if self._on_unreadable is None:
            return
        try:
            self._on_unreadable(error, flow)
        except Exception:
            logger.exception("unreadable SIP message failed", transport=flow.transport)

    def _lose(self, flow: Flow) -> None:
        try:
            self._on_closed(flow)
        except Exception:
            logger.exception("end of a SIP connection failed", transport=flow.transport)

    def _sweep_later(self) -> None:
        self._sweeping = asyncio.get_running_loop().call_later(SWEEP_EVERY_S, self._sweep)

    def _sweep(self) -> None:
        self._sweep_later()
        self.streams.sweep()
