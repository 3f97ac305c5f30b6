from __future__ import annotations

import asyncio

import pytest

from rtc_server.transports.webrtc.dtls import QUEUE_DATAGRAMS, TWICE_AFTER_S, TWICE_MAX_BYTES, DtlsChannel
from tests.transports.webrtc.virtualtime import VirtualTime

HANDSHAKE, APPLICATION, SRTP = b"\x16handshake", b"\x17application", b"\x80srtp"


class Rig:
    def __init__(self) -> None:
        self.time = VirtualTime()
        self.sent: list[bytes] = []
        self.channel = DtlsChannel(self.send, self.time.clock, self.time.call_later)

    def send(self, data: bytes) -> bool:
        self.sent.append(data)
        return True


async def test_role_makes_aiortc_the_dtls_server_or_the_client_as_the_answer_says() -> None:
    channel = Rig().channel
    assert channel.role == "controlling"
    channel.setup = "active"
    assert channel.role == "controlled"


async def test_records_are_read_in_order_and_srtp_goes_past_them() -> None:
    rig = Rig()
    media: list[bytes] = []

    def take(data: bytes) -> bool:
        media.append(data)
        return True

    assert not rig.channel.receive(SRTP)  # before the keys are there
    rig.channel.on_srtp = take
    assert [rig.channel.receive(data) for data in (HANDSHAKE, SRTP, APPLICATION)] == [False, True, False]
    assert media == [SRTP]
    assert [await rig.channel._recv(), await rig.channel._recv()] == [HANDSHAKE, APPLICATION]


@pytest.mark.parametrize("first", [4, 16, 64, 100, 127, 192, 255])
async def test_other_protocols_on_the_port_are_dropped(first: int) -> None:
    rig = Rig()
    rig.channel.receive(bytes([first, 1, 2]))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(rig.channel._recv(), 0.001)


async def test_reader_waits_and_is_woken_by_a_record_or_by_the_end() -> None:
    rig = Rig()
    reader = asyncio.ensure_future(rig.channel._recv())
    await asyncio.sleep(0)
    rig.channel.receive(HANDSHAKE)
    assert await reader == HANDSHAKE
    reader = asyncio.ensure_future(rig.channel._recv())
    await asyncio.sleep(0)
    rig.channel.close()
    with pytest.raises(ConnectionError):
        await reader
    with pytest.raises(ConnectionError):
        await rig.channel._send(HANDSHAKE)


async def test_queue_is_bounded_and_a_flood_is_cut_off() -> None:
    rig = Rig()
    for _ in range(10_000):
        rig.channel.receive(APPLICATION)
    count = 0
    while count <= QUEUE_DATAGRAMS:
        try:
            await asyncio.wait_for(rig.channel._recv(), 0.001)
        except TimeoutError:
            break
        count += 1
    assert count == QUEUE_DATAGRAMS


async def test_small_application_records_are_said_twice() -> None:
    rig = Rig()
    await rig.channel._send(APPLICATION)
    rig.time.advance(TWICE_AFTER_S)
    await rig.channel._send(b"\x17" + bytes(TWICE_MAX_BYTES))
    rig.time.advance(1)
    assert rig.sent == [APPLICATION, APPLICATION, b"\x17" + bytes(TWICE_MAX_BYTES)]


async def test_record_that_must_not_be_copied_is_said_once() -> None:
    rig = Rig()
    rig.channel.next_record_once()
    await rig.channel._send(APPLICATION)
    await rig.channel._send(APPLICATION)
    rig.time.advance(1)
    assert len(rig.sent) == 3


async def test_handshake_flight_is_repeated_until_application_data_or_srtp_comes() -> None:
    for proof in (APPLICATION, SRTP):
        rig = Rig()
        await rig.channel._send(HANDSHAKE)
        rig.time.advance(0.1)
        assert rig.sent == [HANDSHAKE, HANDSHAKE]
        rig.channel.receive(proof)
        rig.time.advance(5)
        assert rig.sent == [HANDSHAKE, HANDSHAKE]


async def test_client_repeats_its_last_flight_until_its_own_handshake_is_done() -> None:
    """A server that is heard to have finished may have lost nothing but its last flight, which ours brings back."""
    rig = Rig()
    rig.channel.setup = "active"
    await rig.channel._send(HANDSHAKE)
    rig.channel.receive(APPLICATION)
    rig.channel.receive(SRTP)
    rig.time.advance(0.1)
    assert rig.sent == [HANDSHAKE, HANDSHAKE]
    rig.channel.handshake_done()
    rig.time.advance(5)
    assert rig.sent == [HANDSHAKE, HANDSHAKE]


async def test_server_goes_on_repeating_when_only_its_own_handshake_is_done() -> None:
    rig = Rig()
    await rig.channel._send(HANDSHAKE)
    rig.channel.handshake_done()
    rig.time.advance(0.1)
    assert rig.sent == [HANDSHAKE, HANDSHAKE]


async def test_nothing_leaves_after_close() -> None:
    rig = Rig()
    await rig.channel._send(HANDSHAKE)
    await rig.channel._send(APPLICATION)
    rig.channel.close()
    rig.time.advance(5)
    assert rig.sent == [HANDSHAKE, APPLICATION]
