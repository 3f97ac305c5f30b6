from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Iterator

import pytest

from rtc_server.errors import CapacityError, ConfigError, NoRtpPort
from rtc_server.transports.sip.flow import Address
from rtc_server.transports.sip.media.latch import Stream
from rtc_server.transports.sip.media.rtpport import (
    BATCH_DATAGRAMS,
    CROWDED_S,
    FORMER_S,
    MAX_DATAGRAM_BYTES,
    MIN_REST_S,
    RtpPort,
    RtpPorts,
    _Reader,
)
from tests.logs import captured_logs

HOST = "127.0.0.1"


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def free_range(pairs: int) -> int:
    """First of so many pairs of ports that nobody uses at present."""
    rng = random.Random()
    while True:
        first = rng.randrange(20_000, 30_000, 2)
        probes = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2 * pairs)]
        try:
            for offset, probe in enumerate(probes):
                probe.bind((HOST, first + offset))
            return first
        except OSError:
            continue
        finally:
            for probe in probes:
                probe.close()


@pytest.fixture
def peer() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as item:
        item.bind((HOST, 0))
        item.setblocking(False)
        yield item


class Heard:
    def __init__(self, port: RtpPort) -> None:
        self.rtp: list[tuple[bytes, Address]] = []
        self.rtcp: list[tuple[bytes, Address]] = []
        self.event = asyncio.Event()
        port.listen(self.on_rtp, self.on_rtcp)

    def on_rtp(self, datagram: bytes, source: Address) -> None:
        self.rtp.append((datagram, source))
        self.event.set()

    def on_rtcp(self, datagram: bytes, source: Address) -> None:
        self.rtcp.append((datagram, source))
        self.event.set()

    async def wait(self) -> None:
        await asyncio.wait_for(self.event.wait(), 5)
        self.event.clear()


def test_pair_is_an_even_port_and_the_odd_one_above() -> None:
    first = free_range(2)
    ports = RtpPorts(first + 1, first + 3)
    port = ports.acquire(HOST)
    assert (port.local.address, port.local.rtp_port, port.local.rtcp_port) == (HOST, first + 2, first + 3)
    port.close()


def test_peers_are_told_the_advertised_address() -> None:
    first = free_range(1)
    port = RtpPorts(first, first + 1).acquire(HOST, "203.0.113.50")
    assert port.local.address == "203.0.113.50"
    port.close()


@pytest.mark.parametrize(("first", "last"), [(4001, 4001), (4001, 4002), (4000, 4000), (4002, 4000), (65_535, 70_000)])
def test_range_without_a_pair_is_a_wrong_setting(first: int, last: int) -> None:
    with pytest.raises(ConfigError, match="no pair"):
        RtpPorts(first, last)


def test_host_that_is_none_of_ours_is_a_wrong_setting() -> None:
    with pytest.raises(ConfigError, match=r"192\.0\.2\.1"):
        RtpPorts(20_000, 20_001).acquire("192.0.2.1")


def test_used_up_range_is_told_as_such() -> None:
    first = free_range(2)
    ports = RtpPorts(first, first + 3)
    held = [ports.acquire(HOST), ports.acquire(HOST)]
    assert ports.in_use == 2
    with pytest.raises(NoRtpPort) as refused:
        ports.acquire(HOST)
    assert isinstance(refused.value, CapacityError)
    assert refused.value.http_status == 503
    assert "2 pairs 2 have a call" in str(refused.value) and "rtp_ports" in refused.value.hint
    assert refused.value.retry_after_s == CapacityError.retry_after_s  # nobody knows when one will end
    for port in held:
        port.close()
    assert ports.in_use == 0


def test_port_rests_for_a_moment_before_it_is_used_again_and_whoever_is_refused_is_told_how_long() -> None:
    first, clock = free_range(1), Clock()
    ports = RtpPorts(first, first + 1, clock=clock)
    port = ports.acquire(HOST)
    port.close()
    port.close()
    for waited_s, retry_after_s in ((0.0, 2), (1.5, 1)):
        clock.now = 100.0 + waited_s
        with pytest.raises(NoRtpPort, match="0 have a call, 1 had one until a moment ago") as refused:
            ports.acquire(HOST)
        assert refused.value.retry_after_s == retry_after_s
    clock.now = 100.0 + MIN_REST_S
    ports.acquire(HOST).close()


def test_pair_that_has_rested_longest_is_used_next() -> None:
    first, clock = free_range(3), Clock()
    ports = RtpPorts(first, first + 5, clock=clock)
    held = [ports.acquire(HOST) for _ in range(3)]
    for port in (held[1], held[0], held[2]):
        port.close()
        clock.now += 10.0
    again = [ports.acquire(HOST) for _ in range(3)]
    assert [port.local for port in again] == [held[1].local, held[0].local, held[2].local]
    for port in again:
        port.close()


def test_call_is_told_what_the_one_before_heard_on_its_ports_unless_that_is_long_ago() -> None:
    first, clock = free_range(1), Clock()
    ports, stream = RtpPorts(first, first + 1, clock=clock), Stream(("192.0.2.66", 5555), 7)
    port = ports.acquire(HOST)
    assert port.former is None
    port.close(stream)
    clock.now += MIN_REST_S
    port = ports.acquire(HOST)
    assert port.former == (stream, 100.0 + FORMER_S)
    port.close(stream)
    clock.now += FORMER_S
    port = ports.acquire(HOST)
    assert port.former is None
    port.close()


def test_port_that_another_program_holds_is_warned_of_once_and_tried_again() -> None:
    first, clock = free_range(1), Clock()
    ports = RtpPorts(first, first + 1, clock=clock)
    with captured_logs() as logs, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind((HOST, first))
        for _ in range(3):
            with pytest.raises(NoRtpPort, match="1 are in use by other programs") as refused:
                ports.acquire(HOST)
            assert refused.value.retry_after_s == MIN_REST_S
            clock.now += MIN_REST_S
    ports.acquire(HOST).close()
    assert [entry["event"] for entry in logs] == ["rtp port is taken"]


def test_port_that_another_program_holds_is_passed_over_and_leaves_nothing_bound(peer: socket.socket) -> None:
    first = free_range(2)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind((HOST, first + 1))
        ports = RtpPorts(first, first + 3)
        port = ports.acquire(HOST)
        assert port.local.rtp_port == first + 2
        with pytest.raises(NoRtpPort):
            ports.acquire(HOST)
        port.close()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as again:
        again.bind((HOST, first))


def test_ports_are_used_in_an_order_that_is_not_that_of_their_numbers() -> None:
    orders = [[unused.port for unused in RtpPorts(10_000, 10_200)._unused] for _ in range(2)]
    assert orders[0] != orders[1]


async def test_datagrams_come_and_go_on_both_ports(peer: socket.socket) -> None:
    first = free_range(1)
    port = RtpPorts(first, first + 1).acquire(HOST)
    heard, address = Heard(port), peer.getsockname()
    peer.sendto(b"rtp", (HOST, first))
    await heard.wait()
    peer.sendto(b"rtcp", (HOST, first + 1))
    await heard.wait()
    assert (heard.rtp, heard.rtcp) == ([(b"rtp", address)], [(b"rtcp", address)])
    loop = asyncio.get_running_loop()
    for send, source in ((port.send_rtp, first), (port.send_rtcp, first + 1)):
        assert send(b"back", address)
        assert await asyncio.wait_for(loop.sock_recvfrom(peer, 100), 5) == (b"back", (HOST, source))
    port.close()
    assert not port.send_rtp(b"late", address)


async def test_closed_port_of_the_peer_and_addresses_without_a_way_do_not_end_it(peer: socket.socket) -> None:
    first = free_range(1)
    port = RtpPorts(first, first + 1).acquire(HOST)
    heard = Heard(port)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as gone:
        gone.bind((HOST, 0))
        address = gone.getsockname()
    for destination in (address, address, ("2001:db8::1", 4000), ("127.0.0.1", 0)):
        port.send_rtp(b"anybody?", destination)
        await asyncio.sleep(0)
    peer.sendto(b"still here", (HOST, first))
    await heard.wait()
    assert heard.rtp == [(b"still here", peer.getsockname())]
    port.close()


async def test_datagram_that_is_longer_than_any_packet_is_dropped(peer: socket.socket) -> None:
    first = free_range(1)
    port = RtpPorts(first, first + 1).acquire(HOST)
    heard = Heard(port)
    for size in (MAX_DATAGRAM_BYTES + 1, 60_000, MAX_DATAGRAM_BYTES):
        peer.sendto(bytes(size), (HOST, first))
    await heard.wait()
    assert [len(datagram) for datagram, _ in heard.rtp] == [MAX_DATAGRAM_BYTES]
    port.close()


async def test_port_may_be_closed_by_what_it_has_just_received(peer: socket.socket) -> None:
    first = free_range(1)
    port = RtpPorts(first, first + 1).acquire(HOST)
    closed = asyncio.Event()

    def close(datagram: bytes, source: Address) -> None:
        port.close()
        closed.set()

    port.listen(close, close)
    peer.sendto(b"one", (HOST, first))
    peer.sendto(b"two", (HOST, first))
    await asyncio.wait_for(closed.wait(), 5)


def test_crowded_datagrams_are_read_in_batches_and_those_of_a_phone_one_by_one(peer: socket.socket) -> None:
    reader = _Reader(peer, lambda datagram, source: None)
    assert [reader.batch(now) for now in (1.0, 1.02, 1.04)] == [1, 1, 1]
    assert reader.batch(1.04 + CROWDED_S / 2) == BATCH_DATAGRAMS


async def test_all_of_a_flood_is_read(peer: socket.socket) -> None:
    first = free_range(1)
    port = RtpPorts(first, first + 1).acquire(HOST)
    heard = Heard(port)
    for _ in range(2 * BATCH_DATAGRAMS):
        peer.sendto(b"rtp", (HOST, first))
    while len(heard.rtp) < 2 * BATCH_DATAGRAMS:
        await heard.wait()
    port.close()
