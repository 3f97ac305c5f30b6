"""The controlling side of ICE against a peer of a few lines, over loopback sockets."""

import asyncio
import socket
import time
from collections.abc import Iterator

import pytest
from aioice import stun

from rtc_server.bench.ice import ControllingIce
from rtc_server.bench.stampedsocket import Address
from rtc_server.errors import IceFailed

pytestmark = pytest.mark.e2e

PASSWORD = "p" * 22


class Peer(asyncio.DatagramProtocol):
    """Answers checks, as an ICE-lite server does, with integrity by `password`."""

    def __init__(self, password: str = PASSWORD) -> None:
        self.checks: list[stun.Message] = []
        self.received: asyncio.Queue[bytes] = asyncio.Queue()
        self.caller: Address = ("", 0)
        self._password = password.encode()

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: Address) -> None:
        self.caller = addr
        if data[0] > 3:
            self.received.put_nowait(data)
            return
        message = stun.parse_message(data)
        if message.message_class != stun.Class.REQUEST:
            self.received.put_nowait(data)
            return
        self.checks.append(message)
        response = stun.Message(stun.Method.BINDING, stun.Class.RESPONSE, message.transaction_id)
        response.attributes["XOR-MAPPED-ADDRESS"] = addr
        response.add_message_integrity(self._password)
        self.transport.sendto(bytes(response), addr)

    def use(self, password: str) -> None:
        self._password = password.encode()

    @property
    def address(self) -> Address:
        host, port = self.transport.get_extra_info("sockname")[:2]
        return host, port


async def start(peer: Peer) -> Peer:
    await asyncio.get_running_loop().create_datagram_endpoint(lambda: peer, local_addr=("127.0.0.1", 0))
    return peer


@pytest.fixture
def silent_address() -> Iterator[Address]:
    """Somebody who hears and never answers."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        yield sock.getsockname()


async def test_the_first_candidate_that_answers_is_nominated(silent_address: Address) -> None:
    peer = await start(Peer())
    ice = ControllingIce(lambda data, arrival_s: None)
    await ice.connect("them", PASSWORD, [silent_address, peer.address], timeout_s=5)
    check = peer.checks[0]
    assert check.attributes["USERNAME"] == f"them:{ice.ufrag}"
    assert "USE-CANDIDATE" in check.attributes and "ICE-CONTROLLING" in check.attributes
    assert check.check_message_integrity(PASSWORD.encode())
    ice.send(b"\x16dtls")
    assert await peer.received.get() == b"\x16dtls"
    ice.close()
    ice.close()
    peer.transport.close()


async def test_answers_without_the_password_connect_nothing() -> None:
    peer = await start(Peer("q" * 22))
    ice = ControllingIce(lambda data, arrival_s: None)
    with pytest.raises(IceFailed, match="none of 1 candidates answered"):
        await ice.connect("them", PASSWORD, [peer.address], timeout_s=0.2)
    ice.close()
    peer.transport.close()


async def test_datagrams_go_by_their_first_byte_and_media_carries_its_arrival() -> None:
    media: list[tuple[bytes, float]] = []
    peer = await start(Peer())
    ice = ControllingIce(lambda data, arrival_s: media.append((data, arrival_s)))
    await ice.connect("them", PASSWORD, [peer.address], timeout_s=5)
    sent_s = time.monotonic()
    for datagram in (b"", b"\x03broken", b"\x80rtp", b"\x16dtls"):
        peer.transport.sendto(datagram, peer.caller)
    assert await ice._recv() == b"\x16dtls"
    ((data, arrival_s),) = media
    assert data == b"\x80rtp"
    assert sent_s - 0.001 <= arrival_s <= time.monotonic()
    ice.close()
    with pytest.raises(ConnectionError):
        await ice._recv()
    with pytest.raises(ConnectionError):
        await ice._send(b"\x16")
    peer.transport.close()


async def test_checks_of_a_full_agent_are_answered_if_they_know_the_password() -> None:
    peer = await start(Peer())
    ice = ControllingIce(lambda data, arrival_s: None)
    await ice.connect("them", PASSWORD, [peer.address], timeout_s=5)
    answered = []
    for password in ("wrong" * 5, ice.password):
        request = stun.Message(stun.Method.BINDING, stun.Class.REQUEST)
        request.attributes["USERNAME"] = f"{ice.ufrag}:them"
        request.add_message_integrity(password.encode())
        peer.transport.sendto(bytes(request), peer.caller)
        answered.append(request.transaction_id)
    response = stun.parse_message(await peer.received.get())
    assert response.check_message_integrity(ice.password.encode())
    assert response.transaction_id == answered[1]
    assert response.attributes["XOR-MAPPED-ADDRESS"] == peer.address
    ice.close()
    peer.transport.close()


async def test_a_restart_moves_to_another_socket_once_it_is_nominated_and_hears_the_old_one_out() -> None:
    media: list[bytes] = []
    peer, fresh_password = await start(Peer()), "r" * 22
    ice = ControllingIce(lambda data, arrival_s: media.append(data))
    await ice.connect("them", PASSWORD, [peer.address], timeout_s=5)
    before, first_ufrag = peer.caller, ice.ufrag
    ice.begin_restart()
    assert ice.ufrag != first_ufrag and len(ice.password) >= 22
    ice.send(b"\x80meanwhile")
    assert await peer.received.get() == b"\x80meanwhile" and peer.caller == before
    peer.use(fresh_password)
    await ice.restart("them2", fresh_password, [peer.address], timeout_s=5)
    assert peer.checks[-1].attributes["USERNAME"] == f"them2:{ice.ufrag}"
    ice.send(b"\x80after")
    assert await peer.received.get() == b"\x80after" and peer.caller != before
    peer.transport.sendto(b"\x80under way", before)
    peer.transport.sendto(b"\x80new", peer.caller)
    while len(media) < 2:
        await asyncio.sleep(0.01)
    assert set(media) == {b"\x80under way", b"\x80new"}
    ice.close()
    peer.transport.close()


async def test_a_restart_that_nobody_answers_leaves_the_call_as_it_was(silent_address: Address) -> None:
    peer = await start(Peer())
    ice = ControllingIce(lambda data, arrival_s: None)
    await ice.connect("them", PASSWORD, [peer.address], timeout_s=5)
    before = peer.caller
    ice.begin_restart()
    with pytest.raises(IceFailed):
        await ice.restart("them2", "r" * 22, [silent_address], timeout_s=0.2)
    ice.send(b"\x80on")
    assert await peer.received.get() == b"\x80on" and peer.caller == before
    ice.close()
    peer.transport.close()
