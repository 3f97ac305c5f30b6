"""Who is listened to: what others say costs next to nothing."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterator

import pytest

from rtc_server.transports.sip.flow import Flow, Transport
from rtc_server.transports.sip.network.target import Target
from tests.transports.sip.network.listeners import network, options_request, place_of, stranger, until


class Gate:
    """Listens to each host so many times over each transport; 127.0.0.9 is a trunk."""

    def __init__(self, times: int) -> None:
        self._times = times
        self.asked: Counter[tuple[Transport, str]] = Counter()

    def is_trunk(self, host: str) -> bool:
        return host == "127.0.0.9"

    def allow(self, host: str, transport: Transport) -> bool:
        self.asked[transport, host] += 1
        return self.is_trunk(host) or self.asked[transport, host] <= self._times


def sender(host: str) -> socket.socket:
    item = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    item.bind((host, 0))
    return item


@pytest.fixture
def peers() -> Iterator[dict[str, socket.socket]]:
    sockets = {host: sender(host) for host in ("127.0.0.2", "127.0.0.3", "127.0.0.9")}
    yield sockets
    for item in sockets.values():
        item.close()


async def test_datagrams_beyond_what_is_listened_to_are_dropped(peers: dict[str, socket.socket]) -> None:
    gate = Gate(2)
    async with network("udp:127.0.0.1:0", gate=gate) as (ours, heard):
        for number in range(5):
            for peer in peers.values():
                peer.sendto(options_request(number), place_of(ours, "udp"))
        await until(lambda: sum(gate.asked.values()) == 15)
        hosts = Counter(flow.remote[0] for _, flow in heard.messages)
        assert hosts == {"127.0.0.2": 2, "127.0.0.3": 2, "127.0.0.9": 5}


async def test_keep_alives_do_not_count(peers: dict[str, socket.socket]) -> None:
    gate = Gate(1)
    async with network("udp:127.0.0.1:0", gate=gate) as (ours, heard):
        for data in (b"\r\n\r\n", b"\0\0\0\0", b"\x01" + bytes(19), options_request()):
            peers["127.0.0.2"].sendto(data, place_of(ours, "udp"))
        await heard.flow()
        assert gate.asked["udp", "127.0.0.2"] == 1


async def test_the_other_end_of_a_call_is_always_listened_to(peers: dict[str, socket.socket]) -> None:
    gate = Gate(1)
    async with network("udp:127.0.0.1:0", gate=gate) as (ours, heard):
        peer, address = peers["127.0.0.2"], place_of(ours, "udp")
        peer.sendto(options_request(), address)
        flow = await heard.flow()
        ours.hold(flow)
        ours.hold(Flow("udp", flow.local, ("127.0.0.2", 6060), flow.id))
        for number in range(5):
            peer.sendto(options_request(number), address)
        await heard.flow(6)
        ours.release(flow)
        peer.sendto(options_request(), address)
        await heard.flow(7)
        ours.release(flow)
        peer.sendto(options_request(), address)
        await until(lambda: gate.asked["udp", "127.0.0.2"] == 2)
        assert len(heard.messages) == 7


async def test_datagrams_in_the_name_of_the_other_end_of_a_call_over_a_connection_are_a_strangers(
    peers: dict[str, socket.socket],
) -> None:
    gate = Gate(2)
    async with network(gate=gate) as (ours, heard):
        async with stranger(place_of(ours, "tcp"), local_addr=("127.0.0.2", 0)) as peer:
            peer.say(options_request(1))
            ours.hold(await heard.flow())
            for number in range(5):
                peers["127.0.0.2"].sendto(options_request(number), place_of(ours, "udp"))
            await until(lambda: gate.asked["udp", "127.0.0.2"] == 5)
            peer.say(options_request(2) + options_request(3) + options_request(4))
            await heard.flow(6)
        counts = Counter(flow.transport for _, flow in heard.messages)
        assert counts == {"udp": 2, "tcp": 4}


@pytest.mark.parametrize("calls", [False, True])
async def test_a_connection_on_which_too_much_is_said_is_closed_unless_it_is_a_calls(calls: bool) -> None:
    async with network("tcp:127.0.0.1:0", gate=Gate(2)) as (ours, heard), stranger(place_of(ours, "tcp")) as peer:
        peer.say(options_request(1))
        flow = await heard.flow()
        if calls:
            ours.hold(flow)
        peer.say(options_request(2) + options_request(3) + options_request(4))
        if calls:
            await heard.flow(4)
            assert not heard.closed
        else:
            assert await peer.is_hung_up_on()
            assert len(heard.messages) == 1
            assert heard.ended["flood"] == 1


async def test_connections_count_too() -> None:
    async with network("tcp:127.0.0.1:0", gate=Gate(2)) as (ours, heard):
        address = place_of(ours, "tcp")
        async with stranger(address), stranger(address):
            await until(lambda: len(ours.streams) == 2)
            async with stranger(address) as third:
                assert await third.is_hung_up_on()
            async with stranger(address, local_addr=("127.0.0.9", 0)):
                await until(lambda: len(ours.streams) == 3)
        assert heard.refused["flood"] == 1


async def test_the_other_end_of_a_call_may_connect_anew() -> None:
    async with network("tcp:127.0.0.1:0", gate=Gate(2)) as (ours, heard):
        address = place_of(ours, "tcp")
        async with stranger(address) as peer:
            peer.say(options_request(1))
            ours.hold(await heard.flow())
            async with stranger(address) as again:
                again.say(options_request(2))
                await heard.flow(2)
        assert not heard.refused["flood"]


async def test_whom_we_have_called_is_listened_to() -> None:
    async with (
        network("tcp:127.0.0.1:0", gate=Gate(0)) as (ours, heard),
        network("tcp:127.0.0.1:0") as (theirs, they_heard),
    ):
        flow = await ours.connect(Target("tcp", *place_of(theirs, "tcp")))
        ours.send(options_request(1), flow)
        theirs.send(options_request(2), await they_heard.flow())
        await heard.flow()
        assert not heard.closed
