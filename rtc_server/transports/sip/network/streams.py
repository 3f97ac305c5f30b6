"""All TCP and TLS connections: who may open one, which one is used again, and when one has to go."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from itertools import count
from typing import Any, Literal

from rtc_server import metrics
from rtc_server.log import get_logger
from rtc_server.transports.sip.flow import Address, Flow
from rtc_server.transports.sip.hosts import is_address, source_of
from rtc_server.transports.sip.message.message import SipParseError
from rtc_server.transports.sip.network.connection import Connection, StreamLimits, Upcalls
from rtc_server.transports.sip.network.gate import Gate
from rtc_server.transports.sip.network.listenon import ListenOn
from rtc_server.transports.sip.network.tls import TlsContexts
from rtc_server.transports.sip.network.trouble import words_for
from rtc_server.transports.sip.network.turns import Turns
from rtc_server.transports.sip.sparselog import SparseLog

BACKLOG = 128
ACCEPT_PAUSE_S = 0.5
"""When the process has no descriptor left: asking again at once would only burn a core."""
CLOSE_GRACE_S = 0.5
"""For what is unsent when the server goes down."""
LINES_OF_EACH, LINES_OF_ALL = 5, 30
"""In the log, about connections that did not come about: a minute, of one address and of all."""
_OUT_OF_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

StreamTransport = Literal["tcp", "tls"]

logger = get_logger(__name__)


class Streams:
    """Loop thread only. Owns listeners, connections, and a task for each listener and each connection that is not up
    yet.

    Args:
        turns: of all sockets.
        ids: for flows; shared with sockets of other kinds.
        on_closed: a flow is gone.
    """

    def __init__(
        self,
        on_message: Callable[[bytes, Flow], None],
        on_unreadable: Callable[[SipParseError, Flow], None],
        on_closed: Callable[[Flow], None],
        tls: TlsContexts,
        limits: StreamLimits,
        clock: Callable[[], float],
        gate: Gate,
        turns: Turns,
        ids: Iterator[int] | None = None,
    ) -> None:
        self._upcalls = Upcalls(on_message, on_unreadable, self._on_lost)
        self._on_closed = on_closed
        self._tls = tls
        self._limits = limits
        self._clock = clock
        self._gate = gate
        self._turns = turns
        self._ids = ids if ids is not None else count(1)
        self._connections: dict[int, Connection] = {}
        self._inbound: Counter[str] = Counter()  # by source
        self._lines = SparseLog(logger, LINES_OF_EACH, LINES_OF_ALL)
        self._listeners: list[socket.socket] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._opening: dict[tuple[StreamTransport, Address, str], asyncio.Task[Flow]] = {}
        self._empty = asyncio.Event()
        self._empty.set()
        self._is_closed = False

    def __len__(self) -> int:
        """Connections that are up, or about to be."""
        return len(self._connections)

    def is_ours(self, flow: Flow) -> bool:
        """Whether this connection was opened from here."""
        connection = self._connections.get(flow.id)
        return connection is not None and not connection.inbound

    def listen(self, bound: socket.socket, transport: StreamTransport) -> None:
        """Take connections from a socket that listens, and own it."""
        self._listeners.append(bound)
        self._start(self._accept(bound, transport), f"sip-listen {transport}")

    async def connect(self, transport: StreamTransport, remote: Address, name: str, source: str | None = None) -> Flow:
        """The connection to `remote` that there is, or a new one.

        Args:
            name: whom the certificate must be made out to. With an address in its place a connection that is there
                will do, whoever opened it: nobody else has that address.
            source: which of our own addresses a new one comes from.

        Raises: OSError, TimeoutError.
        """
        if (known := self._known(transport, remote, name)) is not None:
            return known
        if self._is_closed:
            raise ConnectionError("the SIP network is closed")
        key = (transport, remote, name)
        opening = self._opening.get(key)
        if opening is None:
            opening = self._start(self._open(transport, remote, name, source), f"sip-connect {transport}")
            self._opening[key] = opening
            opening.add_done_callback(lambda _: self._opening.pop(key))
        await asyncio.wait((opening,))  # goes on for the others when one of those who wait is cancelled
        if opening.cancelled():
            raise ConnectionError("the SIP network is closed")
        return opening.result()

    def send(self, data: bytes, flow: Flow) -> None:
        """Raises: OSError."""
        connection = self._connections.get(flow.id)
        if connection is None:
            raise ConnectionError("the SIP connection is closed")
        connection.send(data)

    def hold(self, flow: Flow) -> None:
        """A call uses it from now on: idle or not, it stays."""
        if (connection := self._connections.get(flow.id)) is not None:
            connection.holds += 1
            connection.has_served = True

    def release(self, flow: Flow) -> None:
        """Once for each `hold`."""
        if (connection := self._connections.get(flow.id)) is not None and connection.holds:
            connection.holds -= 1

    def drop(self, flow: Flow, reason: str) -> None:
        """Close it at once. What is unsent is lost."""
        if (connection := self._connections.get(flow.id)) is not None:
            connection.drop(reason)

    def sweep(self) -> None:
        """Close what is overdue. To be called about once a second."""
        now = self._clock()
        for connection in list(self._connections.values()):
            if (reason := connection.overdue(now)) is not None:
                connection.drop(reason)

    async def close(self) -> None:
        """Give what is unsent a moment to leave. May be called twice."""
        self._is_closed = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()
        for connection in self._connections.values():
            connection.close("shutdown")
        await self._emptied()
        for connection in self._connections.values():
            connection.drop("shutdown")
        await self._emptied()

    # ---- connections that others open --------------------------------------------------------------------------------

    async def _accept(self, listener: socket.socket, transport: StreamTransport) -> None:
        loop = asyncio.get_running_loop()
        short = False
        while True:
            try:
                accepted, address = await loop.sock_accept(listener)
            except OSError as error:
                if error.errno in _OUT_OF_RESOURCES:
                    if not short:
                        logger.error("no SIP connection can be accepted", reason=error.strerror)
                    short = True
                    await asyncio.sleep(ACCEPT_PAUSE_S)
            else:
                short = False
                try:
                    self._welcome(accepted, transport, (address[0], address[1]))
                except Exception:  # a defect of ours, which must not make the listener deaf
                    logger.exception("SIP connection not taken", transport=transport)
                    accepted.close()
            await asyncio.sleep(0)  # accepting does not wait while there are more

    def _welcome(self, accepted: socket.socket, transport: StreamTransport, remote: Address) -> None:
        if self._inbound[source_of(remote[0])] >= self._limits.connections_per_address:
            _refused("too_many_from_address")
            accepted.close()
        elif not self._gate.allow(remote[0], transport):
            _refused("flood")
            accepted.close()
        elif not self._make_room(for_stranger=not self._gate.is_trunk(remote[0])):
            _refused("too_many")
            accepted.close()
        else:
            connection = self._add(transport, remote, inbound=True)
            establishing = self._start(self._establish(connection, accepted, transport), f"sip-accept {transport}")
            establishing.add_done_callback(partial(self._on_established, connection, accepted))

    async def _establish(self, connection: Connection, accepted: socket.socket, transport: StreamTransport) -> None:
        context = await self._tls.server() if transport == "tls" else None
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: connection,
                accepted,
                ssl=context,
                ssl_handshake_timeout=self._limits.handshake_s if context else None,
                ssl_shutdown_timeout=CLOSE_GRACE_S if context else None,
            )
        except OSError as error:
            _refused("handshake")
            source = source_of(connection.remote[0])
            self._lines.info(
                source, "SIP connection not established", self._clock(), transport=transport, reason=words_for(error)
            )

    def _on_established(self, connection: Connection, accepted: socket.socket, _: asyncio.Task[None]) -> None:
        if connection.flow is None:
            accepted.close()
            self._forget(connection)

    # ---- connections that we open ------------------------------------------------------------------------------------

    def _known(self, transport: StreamTransport, remote: Address, name: str) -> Flow | None:
        for connection in self._connections.values():
            flow = connection.flow
            if flow is None or not connection.usable or (flow.transport, flow.remote) != (transport, remote):
                continue
            if transport == "tcp" or is_address(name) or connection.verified_name == name:
                return flow
        return None

    async def _open(self, transport: StreamTransport, remote: Address, name: str, source: str | None) -> Flow:
        if not self._make_room(for_stranger=False):
            _refused("too_many")
            raise ConnectionError("there are too many SIP connections")
        connection = self._add(transport, remote, inbound=False, verified_name=name)
        try:
            context = await self._tls.client(name) if transport == "tls" else None
            async with asyncio.timeout(self._limits.connect_s):
                await asyncio.get_running_loop().create_connection(
                    lambda: connection,
                    *remote,
                    ssl=context,
                    server_hostname=name if context else None,
                    local_addr=(source, 0) if source else None,
                    ssl_shutdown_timeout=CLOSE_GRACE_S if context else None,
                )
        finally:
            if connection.flow is None:
                self._forget(connection)
        if connection.flow is None:
            raise ConnectionError("the SIP connection was closed at once")
        return connection.flow

    # ---- all of them -------------------------------------------------------------------------------------------------

    def _add(
        self, transport: StreamTransport, remote: Address, *, inbound: bool, verified_name: str | None = None
    ) -> Connection:
        connection = Connection(
            transport,
            next(self._ids),
            remote,
            self._upcalls,
            self._limits,
            self._clock,
            self._turns,
            inbound=inbound,
            verified_name=verified_name,
        )
        self._connections[connection.id] = connection
        self._empty.clear()
        if inbound:
            self._inbound[source_of(remote[0])] += 1
        return connection

    def _forget(self, connection: Connection) -> None:
        if self._connections.pop(connection.id, None) is None:
            return
        if connection.inbound:
            where = source_of(connection.remote[0])
            self._inbound[where] -= 1
            if not self._inbound[where]:
                del self._inbound[where]
        if not self._connections:
            self._empty.set()

    def _on_lost(self, connection: Connection) -> None:
        self._forget(connection)
        metrics.SIP_CONNECTIONS_CLOSED.labels(connection.close_reason).inc()
        if connection.flow is not None:
            self._on_closed(connection.flow)

    def _make_room(self, *, for_stranger: bool) -> bool:
        """For one more connection."""
        everyone = self._connections.values()
        if len(everyone) < min(self._limits.strangers, self._limits.connections):
            return True
        strangers = [connection for connection in everyone if self._is_stranger(connection)]
        if len(everyone) < self._limits.connections and not (for_stranger and len(strangers) >= self._limits.strangers):
            return True
        for candidates in (strangers,) if for_stranger else (strangers, everyone):
            idle = [connection for connection in candidates if connection.usable and not connection.holds]
            if idle:
                min(idle, key=lambda connection: connection.last_heard_s).drop("room")
                return True
        return False

    def _is_stranger(self, connection: Connection) -> bool:
        return connection.inbound and not connection.has_served and not self._gate.is_trunk(connection.remote[0])

    def _start(self, work: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._on_task_done)
        return task

    def _on_task_done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None and not isinstance(error, OSError):
            logger.error("SIP connection task failed", exc_info=error)

    async def _emptied(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_GRACE_S):
                await self._empty.wait()


def _refused(reason: str) -> None:
    metrics.SIP_CONNECTIONS_REFUSED.labels(reason).inc()


def listen_on_stream(place: ListenOn) -> socket.socket:
    """Raises: OSError."""
    bound = socket.socket(socket.AF_INET6 if ":" in place.host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        bound.setblocking(False)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if bound.family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)  # beside one for 0.0.0.0
        bound.bind((place.host, place.port))
        bound.listen(BACKLOG)
    except OSError:
        bound.close()
        raise
    return bound
