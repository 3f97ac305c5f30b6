"""The client's side of ICE for one call: sockets of its own, the controlling role, the least that RFC 8445 allows.

It probes the candidates of the answer in turn, nominates the first that answers, keeps consent fresh (RFC 7675), and
answers the checks of peers that are full agents. It stands in for aiortc's `RTCIceTransport` below `RTCDtlsTransport`;
media bypasses that and goes straight to a callback.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Sequence

from aioice import stun

from rtc_server.bench.stampedsocket import Address, StampedSocket
from rtc_server.errors import IceFailed

OnMedia = Callable[[bytes, float], None]

PROBE_EVERY_S = 0.1
PROBE_STAGGER_S = 0.03
CONSENT_EVERY_S = 2.5
RETIRED_FOR_S = 1.0
"""After a restart the path before still hears for so long what was under way on it."""
MAX_WAITING_DATAGRAMS = 256
_PRIORITY = (126 << 24) | (65535 << 8) | 255  # RFC 8445 5.1.2.1: a host candidate, component 1


class ControllingIce:
    """One call's connectivity. Loop thread only.

    Incoming DTLS waits in a queue of `MAX_WAITING_DATAGRAMS`; more is dropped and DTLS repeats it. `on_media` gets
    SRTP and SRTCP datagrams with their arrival (`stampedsocket`).
    """

    role = "controlled"
    """Read by `RTCDtlsTransport`, which makes the ``controlled`` side the DTLS client. Not the ICE role."""

    def __init__(self, on_media: OnMedia) -> None:
        self._on_media = on_media
        self._loop = asyncio.get_running_loop()
        self._path = _Path(self)
        """In use: media leaves by it."""
        self._next: _Path | None = None
        """Of a restart that is not done."""
        self._retired: set[_Path] = set()
        self._waiting: asyncio.Queue[bytes | None] = asyncio.Queue(MAX_WAITING_DATAGRAMS)
        self._closed = False

    @property
    def ufrag(self) -> str:
        """Ours, as of the latest offer."""
        return (self._next or self._path).ufrag

    @property
    def password(self) -> str:
        return (self._next or self._path).password

    # ---- connectivity ------------------------------------------------------------------------------------------------

    async def connect(self, ufrag: str, password: str, candidates: Sequence[Address], timeout_s: float = 10.0) -> None:
        """Find a candidate that answers, best first. All candidates are of one family. Once.

        Raises: IceFailed when none does within `timeout_s`.
        """
        await self._path.connect(ufrag, password, candidates, timeout_s)

    def begin_restart(self) -> None:
        """New credentials for an offer (RFC 8839 section 4.4.1.1.1). Media goes on as before."""
        if self._next is not None:
            self._next.close()
        self._next = _Path(self)

    async def restart(self, ufrag: str, password: str, candidates: Sequence[Address], timeout_s: float = 10.0) -> None:
        """Find a path anew, from another socket, and move to it once it is nominated; after `begin_restart`.

        Raises: IceFailed when no candidate answers; the path before is then used on.
        """
        fresh, self._next = self._next, None
        assert fresh is not None
        try:
            await fresh.connect(ufrag, password, candidates, timeout_s)
        except BaseException:
            fresh.close()
            raise
        before, self._path = self._path, fresh
        self._retired.add(before)
        self._loop.call_later(RETIRED_FOR_S, self._forget, before)

    def _forget(self, path: _Path) -> None:
        self._retired.discard(path)
        path.close()

    def refresh_consent(self) -> None:
        """One check on the chosen path; to be called every `CONSENT_EVERY_S`, and when the network has changed."""
        self._path.refresh_consent()

    # ---- datagrams ---------------------------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """To the chosen path; dropped when the socket's buffer is full, as a network would."""
        self._path.send(data)

    def on_datagram(self, data: bytes, arrival_s: float) -> None:
        """Whatever a path got that is not STUN."""
        if 127 < data[0] < 192:  # RFC 7983: SRTP and SRTCP
            self._on_media(data, arrival_s)
        else:
            with contextlib.suppress(asyncio.QueueFull):
                self._waiting.put_nowait(data)

    async def _recv(self) -> bytes:
        """For `RTCDtlsTransport`: the next datagram that is neither STUN nor media."""
        data = await self._waiting.get()
        if data is None:
            raise ConnectionError("the socket is closed")
        return data

    async def _send(self, data: bytes) -> None:
        """For `RTCDtlsTransport`."""
        if self._closed:
            raise ConnectionError("the socket is closed")
        self.send(data)

    def next_record_once(self) -> None:
        """Every DTLS record is sent once here."""

    def close(self) -> None:
        """Free the sockets and wake a reader. May be called twice."""
        if self._closed:
            return
        self._closed = True
        for path in (self._path, self._next, *self._retired):
            if path is not None:
                path.close()
        if self._waiting.full():
            self._waiting.get_nowait()
        self._waiting.put_nowait(None)


class _Path:
    """One generation of credentials (RFC 8445 section 9), and the socket that goes with it."""

    def __init__(self, owner: ControllingIce) -> None:
        self.ufrag = secrets.token_hex(4)
        self.password = secrets.token_hex(12)
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._socket: StampedSocket | None = None
        self._remote: Address | None = None
        self._remote_ufrag = ""
        self._remote_password = b""
        self._probes: dict[bytes, Address] = {}
        self._tie_breaker = secrets.randbits(64)
        self._nominated = asyncio.Event()

    async def connect(self, ufrag: str, password: str, candidates: Sequence[Address], timeout_s: float) -> None:
        """Raises: IceFailed."""
        self._open("::" if ":" in candidates[0][0] else "0.0.0.0")
        self._remote_ufrag, self._remote_password = ufrag, password.encode()
        deadline_s = self._loop.time() + timeout_s
        while not self._nominated.is_set():
            for address in candidates:
                self._send_check(address)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._nominated.wait(), PROBE_STAGGER_S)
                    return
            if self._loop.time() > deadline_s:
                raise IceFailed(
                    f"none of {len(candidates)} candidates answered within {timeout_s:g} s",
                    hint="is the server's UDP port reachable from here?",
                )
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._nominated.wait(), PROBE_EVERY_S)

    def refresh_consent(self) -> None:
        if self._remote is not None:
            self._probes.clear()
            self._send_check(self._remote)

    def send(self, data: bytes) -> None:
        if self._remote is not None:
            self._send_to(data, self._remote)

    def close(self) -> None:
        """May be called twice."""
        if self._socket is not None:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None

    def _send_check(self, address: Address) -> None:
        request = stun.Message(message_method=stun.Method.BINDING, message_class=stun.Class.REQUEST)
        request.attributes["USERNAME"] = f"{self._remote_ufrag}:{self.ufrag}"
        request.attributes["PRIORITY"] = _PRIORITY
        request.attributes["ICE-CONTROLLING"] = self._tie_breaker
        request.attributes["USE-CANDIDATE"] = None
        request.add_message_integrity(self._remote_password)
        request.add_fingerprint()
        self._probes[request.transaction_id] = address
        self._send_to(bytes(request), address)

    def _on_stun(self, data: bytes, address: Address) -> None:
        try:
            message = stun.parse_message(data)
        except ValueError:
            return
        if message.message_class == stun.Class.REQUEST:
            if message.check_message_integrity(self.password.encode()):
                self._answer_check(message, address)
        elif message.message_class == stun.Class.RESPONSE:
            probed = self._probes.get(message.transaction_id)
            if probed is not None and self._remote is None and message.check_message_integrity(self._remote_password):
                self._remote = probed
                self._nominated.set()

    def _answer_check(self, request: stun.Message, address: Address) -> None:
        response = stun.Message(
            message_method=stun.Method.BINDING,
            message_class=stun.Class.RESPONSE,
            transaction_id=request.transaction_id,
        )
        response.attributes["XOR-MAPPED-ADDRESS"] = address
        response.add_message_integrity(self.password.encode())
        response.add_fingerprint()
        self._send_to(bytes(response), address)

    def _open(self, host: str) -> None:
        self._socket = StampedSocket(host)
        self._loop.add_reader(self._socket.fileno(), self._readable)

    def _send_to(self, data: bytes, address: Address) -> None:
        if self._socket is not None:
            # What is lost is to be seen in the figures.
            with contextlib.suppress(OSError):
                self._socket.send(data, address)

    def _readable(self) -> None:
        if self._socket is None:
            return
        try:
            data, source, arrival_s = self._socket.receive()
        except OSError:
            return
        if not data:
            return
        if data[0] < 4:  # RFC 7983: STUN
            self._on_stun(data, source)
        else:
            self._owner.on_datagram(data, arrival_s)
