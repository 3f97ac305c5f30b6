"""A client that asks STUN and TURN servers questions and relays nothing (RFC 8489, RFC 8656).

Every call may wait for ever: the caller sets the time. An answer that is an error raises `Refused`; what the network
does raises `OSError`.
"""

from __future__ import annotations

import asyncio
import hashlib
import socket
import ssl
import struct
import threading
from typing import Any, Protocol

from aioice import stun

from rtc_server.transports.webrtc.turn import Credential, IceUrl

UNAUTHORIZED = 401
FORBIDDEN = 403
STALE_NONCE = 438

_RESEND_S = 0.5
_UDP_RELAY = 17 << 24  # REQUESTED-TRANSPORT, RFC 8656 section 18.7
_LIFETIME_S = 60
_HEADER = struct.Struct("!HHI12s")
_DISCARD_PORT = 9


class Refused(Exception):
    """The server's answer is an error of this code."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"{code} {reason}".strip())
        self.code = code


class _Wire(Protocol):
    async def exchange(self, request: stun.Message) -> stun.Message:
        """The answer to a request, success or error."""

    def close(self) -> None: ...


class TurnClient:
    """One connection to a server, and the allocation on it."""

    def __init__(self, wire: _Wire) -> None:
        self._wire = wire
        self._username = self._realm = ""
        self._nonce = b""
        self._key: bytes | None = None

    @classmethod
    async def connect(cls, url: IceUrl, tls: ssl.SSLContext | None = None) -> TurnClient:
        """Raises: OSError; of it socket.gaierror for an unknown name, ssl.SSLError for a handshake that fails."""
        address = await _resolve(url)
        if url.transport == "udp":
            return cls(await _UdpWire.open(address))
        context = (tls or ssl.create_default_context()) if url.tls else None
        return cls(await _TcpWire.open(address, context, url.host))

    async def binding(self) -> str:
        """Our own address as the server sees it."""
        answer = await self._request(stun.Method.BINDING)
        return _address(answer, "XOR-MAPPED-ADDRESS")

    async def allocate(self, credential: Credential | None) -> str:
        """The relay's address. Without a credential a sane server refuses. Raises: Refused."""
        wanted = {"LIFETIME": _LIFETIME_S, "REQUESTED-TRANSPORT": _UDP_RELAY}
        try:
            answer = await self._request(stun.Method.ALLOCATE, wanted)
        except Refused as refusal:
            if refusal.code != UNAUTHORIZED or credential is None:
                raise
            self._authenticate(credential)
            answer = await self._request(stun.Method.ALLOCATE, wanted)
        return _address(answer, "XOR-RELAYED-ADDRESS")

    async def permit(self, peer: str) -> None:
        """Ask for the right to send to this address (RFC 8656 section 9). Raises: Refused."""
        await self._request(stun.Method.CREATE_PERMISSION, {"XOR-PEER-ADDRESS": (peer, _DISCARD_PORT)})

    async def release(self) -> None:
        """Give the allocation back. Raises: Refused."""
        await self._request(stun.Method.REFRESH, {"LIFETIME": 0})

    def close(self) -> None:
        self._wire.close()

    def _authenticate(self, credential: Credential) -> None:
        # RFC 8489 section 9.2.2: the key of a long-term credential
        text = f"{credential.username}:{self._realm}:{credential.password}"
        self._username = credential.username
        self._key = hashlib.md5(text.encode(), usedforsecurity=False).digest()

    async def _request(self, method: stun.Method, attributes: dict[str, Any] | None = None) -> stun.Message:
        answer = await self._wire.exchange(self._message(method, attributes or {}))
        if answer.message_class == stun.Class.ERROR:
            self._realm = answer.attributes.get("REALM", self._realm)
            self._nonce = answer.attributes.get("NONCE", self._nonce)
            if answer.error_code == STALE_NONCE:
                answer = await self._wire.exchange(self._message(method, attributes or {}))
        if answer.message_class == stun.Class.ERROR:
            code, reason = answer.attributes.get("ERROR-CODE", (0, "no code"))
            raise Refused(code, reason.strip("\0"))
        return answer

    def _message(self, method: stun.Method, attributes: dict[str, Any]) -> stun.Message:
        request = stun.Message(method, stun.Class.REQUEST, attributes=dict(attributes))
        if self._key is not None:
            request.attributes |= {"USERNAME": self._username, "REALM": self._realm, "NONCE": self._nonce}
            request.add_message_integrity(self._key)
        return request


class _UdpWire(asyncio.DatagramProtocol):
    """Repeats a request until it is answered (RFC 8489 section 6.2.1, at a steady pace)."""

    def __init__(self) -> None:
        self._transport: asyncio.DatagramTransport
        self._waiting: tuple[bytes, asyncio.Future[stun.Message]] | None = None

    @classmethod
    async def open(cls, address: tuple[str, int]) -> _UdpWire:
        loop = asyncio.get_running_loop()
        wire = cls()
        wire._transport, _ = await loop.create_datagram_endpoint(lambda: wire, remote_addr=address)
        return wire

    async def exchange(self, request: stun.Message) -> stun.Message:
        answer: asyncio.Future[stun.Message] = asyncio.get_running_loop().create_future()
        self._waiting = (request.transaction_id, answer)
        while not answer.done():
            self._transport.sendto(bytes(request))
            await asyncio.wait([answer], timeout=_RESEND_S)
        return answer.result()

    def close(self) -> None:
        self._transport.abort()

    def datagram_received(self, data: bytes, addr: object) -> None:
        try:
            message = stun.parse_message(data)
        except ValueError:
            return
        if self._waiting is not None and self._waiting[0] == message.transaction_id and not self._waiting[1].done():
            self._waiting[1].set_result(message)

    def error_received(self, exc: Exception) -> None:
        if self._waiting is not None and not self._waiting[1].done():
            self._waiting[1].set_exception(exc)


class _TcpWire:
    """STUN messages one after the other (RFC 8489 section 6.2.2)."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, address: tuple[str, int], tls: ssl.SSLContext | None, name: str) -> _TcpWire:
        host, port = address
        return cls(*await asyncio.open_connection(host, port, ssl=tls, server_hostname=name if tls else None))

    async def exchange(self, request: stun.Message) -> stun.Message:
        self._writer.write(bytes(request))
        try:
            while (answer := await self._read()).transaction_id != request.transaction_id:
                pass
        except (asyncio.IncompleteReadError, ValueError):
            raise ConnectionError("what listens here is no TURN server") from None
        return answer

    async def _read(self) -> stun.Message:
        header = await self._reader.readexactly(_HEADER.size)
        _, length, cookie, _ = _HEADER.unpack(header)
        if cookie != stun.COOKIE:
            raise ValueError("no STUN message")
        return stun.parse_message(header + await self._reader.readexactly(length))

    def close(self) -> None:
        self._writer.transport.abort()


def _address(answer: stun.Message, attribute: str) -> str:
    found = answer.attributes.get(attribute)
    if found is None:
        raise ConnectionError(f"an answer without {attribute}")
    return str(found[0])


async def _resolve(url: IceUrl) -> tuple[str, int]:
    """In a thread that nobody waits for: one of the event loop's own would hold up its end while a resolver hangs."""
    loop = asyncio.get_running_loop()
    found: asyncio.Future[tuple[str, int]] = loop.create_future()
    kind = socket.SOCK_DGRAM if url.transport == "udp" else socket.SOCK_STREAM

    def look_up() -> None:
        try:
            address = socket.getaddrinfo(url.host, url.port, type=kind)[0][4]
        except (OSError, UnicodeError) as error:
            failure = error if isinstance(error, OSError) else socket.gaierror(socket.EAI_NONAME, "no such name")
            tell(lambda: found.set_exception(failure))
        else:
            tell(lambda: found.set_result((str(address[0]), int(address[1]))))

    def tell(result: Any) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(lambda: None if found.done() else result())

    threading.Thread(target=look_up, name="turn-resolve", daemon=True).start()
    return await found
