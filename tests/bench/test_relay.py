"""The relay between real sockets on loopback, in front of an echo that says by which address it was asked."""

import asyncio
import contextlib
import socket
import sys
from collections.abc import AsyncIterator

import pytest

from rtc_server.bench import relay as relay_module
from rtc_server.bench.impairment import Impairment
from rtc_server.bench.relay import Address, Relay, running_relay

pytestmark = pytest.mark.e2e


class Endpoint(asyncio.DatagramProtocol):
    """A socket that keeps what it gets; with `echoes` it sends everything back."""

    def __init__(self, echoes: bool = False) -> None:
        self.received: asyncio.Queue[tuple[bytes, Address]] = asyncio.Queue()
        self._echoes = echoes

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: Address) -> None:
        self.received.put_nowait((data, addr))
        if self._echoes:
            self.transport.sendto(data, addr)

    @property
    def address(self) -> Address:
        host, port = self.transport.get_extra_info("sockname")[:2]
        return host, port

    async def next(self) -> bytes:
        return (await asyncio.wait_for(self.received.get(), 5))[0]


@contextlib.asynccontextmanager
async def endpoint(echoes: bool = False) -> AsyncIterator[Endpoint]:
    transport, made = await asyncio.get_running_loop().create_datagram_endpoint(
        lambda: Endpoint(echoes), local_addr=("127.0.0.1", 0)
    )
    try:
        yield made
    finally:
        transport.close()


def send(client: Endpoint, relay: Relay, *datagrams: bytes) -> None:
    for data in datagrams:
        client.transport.sendto(data, (relay.host, relay.port))


async def test_every_client_has_an_address_of_its_own_and_gets_its_own_answers() -> None:
    async with (
        endpoint(echoes=True) as server,
        running_relay(server.address) as relay,
        endpoint() as one,
        endpoint() as other,
    ):
        send(one, relay, b"one")
        send(other, relay, b"other")
        assert (await one.next(), await other.next()) == (b"one", b"other")
        addresses = {(await server.received.get())[1] for _ in range(2)}
        assert len(addresses) == 2 and relay.clients == 2
        assert one.address not in addresses and other.address not in addresses


async def test_strangers_reach_no_client() -> None:
    async with endpoint() as server, running_relay(server.address) as relay, endpoint() as client:
        send(client, relay, b"ask")
        _, upstream = await server.received.get()
        async with endpoint() as stranger:
            stranger.transport.sendto(b"forged", upstream)
            await asyncio.sleep(0.05)
        server.transport.sendto(b"answer", upstream)
        assert await client.next() == b"answer"


async def test_each_direction_has_its_own_seeded_loss() -> None:
    async def heard(seed: int) -> tuple[list[bytes], list[bytes]]:
        lossy = Impairment(loss=0.3)
        async with endpoint(echoes=True) as server, endpoint() as client:
            async with running_relay(server.address, lossy, lossy, seed) as relay:
                for number in range(200):
                    send(client, relay, b"%d" % number)
                    if number % 20 == 0:
                        await asyncio.sleep(0.002)
                await asyncio.sleep(0.1)
                assert 0.2 < relay.uplink_loss() < 0.4
            up = [server.received.get_nowait()[0] for _ in range(server.received.qsize())]
            return up, [client.received.get_nowait()[0] for _ in range(client.received.qsize())]

    up, back = await heard(1)
    assert 120 <= len(up) <= 160 and set(back) < set(up)
    assert (await heard(1)) == (up, back)
    assert (await heard(2)) != (up, back)


async def test_a_delay_is_kept_and_a_perfect_network_comes_back() -> None:
    network = Impairment(delay_ms=400)
    async with endpoint() as server, endpoint() as client, running_relay(server.address, network) as relay:
        loop = asyncio.get_running_loop()
        sent_s = loop.time()
        send(client, relay, b"slow")
        await server.next()
        assert loop.time() - sent_s >= 0.4
        send(client, relay, b"slow")
        await asyncio.sleep(0.02)
        relay.impair(Impairment(), Impairment())
        send(client, relay, b"fast")
        assert [await server.next(), await server.next()] == [b"fast", b"slow"]


async def test_a_standstill_lets_go_of_everything_at_its_end_in_order() -> None:
    async with endpoint() as server, endpoint() as client, running_relay(server.address) as relay:
        send(client, relay, b"before")
        assert await server.next() == b"before"
        relay.stand_still(0.5)
        numbers = [b"%d" % number for number in range(20)]
        send(client, relay, *numbers)
        await asyncio.sleep(0.05)
        assert server.received.empty()
        assert [await server.next() for _ in numbers] == numbers


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems have one loopback address")
async def test_rebinding_changes_the_address_and_loses_what_still_goes_to_the_old_one() -> None:
    network = Impairment(delay_ms=30)
    async with endpoint() as server, endpoint() as client, running_relay(server.address, network) as relay:
        send(client, relay, b"before")
        _, before = await server.received.get()
        send(client, relay, b"under way")
        await asyncio.sleep(0.01)
        relay.rebind("127.0.0.2")
        send(client, relay, b"after")
        assert await server.received.get() == (b"under way", before)
        data, after = await server.received.get()
        assert data == b"after" and after[0] == "127.0.0.2" != before[0]
        server.transport.sendto(b"to nobody", before)
        server.transport.sendto(b"to the client", after)
        assert await client.next() == b"to the client"
        relay.rebind()
        send(client, relay, b"again")
        _, again = await server.received.get()
        assert again[0] == "127.0.0.1" and again not in (before, after)


async def test_the_longest_silent_client_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_module, "MAX_CLIENTS", 2)
    async with (
        endpoint(echoes=True) as server,
        running_relay(server.address) as relay,
        contextlib.AsyncExitStack() as stack,
    ):
        clients = [await stack.enter_async_context(endpoint()) for _ in range(3)]
        for client in (clients[0], clients[1], clients[0], clients[2]):
            send(client, relay, b"x")
            assert await client.next() == b"x"
        assert relay.clients == 2
        known = [server.received.get_nowait()[1] for _ in range(4)]
        send(clients[0], relay, b"x")
        assert await clients[0].next() == b"x"
        assert (await server.received.get())[1] == known[0]


async def test_what_finds_no_room_is_lost_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_module, "MAX_UNDER_WAY", 10)
    network = Impairment(delay_ms=400)
    async with endpoint() as server, endpoint() as client, running_relay(server.address, network) as relay:
        send(client, relay, *[b"x"] * 30)
        for _ in range(10):
            await server.next()
        assert relay.overflowed == 20


async def test_a_server_that_is_gone_breaks_nothing() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        nobody = probe.getsockname()
    errors: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context))
    async with running_relay(nobody) as relay, endpoint() as client:
        for _ in range(5):  # each is answered by ICMP
            send(client, relay, b"anybody there?")
            await asyncio.sleep(0.01)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
            server.bind(nobody)
            server.settimeout(5)
            send(client, relay, b"now?")
            data, upstream = await asyncio.to_thread(server.recvfrom, 100)
            server.sendto(b"yes", upstream)
            assert data == b"now?" and await client.next() == b"yes"
    assert not errors


async def test_a_closed_relay_lets_go_of_its_sockets_and_may_be_closed_again() -> None:
    async with endpoint() as server, endpoint() as client:
        async with running_relay(server.address, Impairment(delay_ms=20)) as relay:
            send(client, relay, b"x")
            await asyncio.sleep(0.005)
            relay.rebind()
            relay.close()
        await asyncio.sleep(0.05)
        assert server.received.empty() and relay.clients == 0
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.bind((relay.host, relay.port))
