from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from rtc_server.transports.sip.flow import Flow
from rtc_server.transports.sip.network import streams
from rtc_server.transports.sip.network.connection import StreamLimits
from rtc_server.transports.sip.network.gate import OpenGate
from rtc_server.transports.sip.network.resolve import ServerRecord
from rtc_server.transports.sip.network.target import Target
from tests.transports.sip.network.authority import Authority
from tests.transports.sip.network.listeners import (
    Clock,
    network,
    options_request,
    place_of,
    stranger,
    until,
)


async def test_messages_are_cut_out_of_the_stream_wherever_it_is_cut() -> None:
    async with network() as (ours, heard), stranger(place_of(ours, "tcp")) as peer:
        whole = options_request(1, b"body") + b"\r\n" + options_request(2)
        for start in range(0, len(whole), 61):
            peer.say(whole[start : start + 61])
            await asyncio.sleep(0)
        flow = await heard.flow(2)
        assert [data for data, _ in heard.messages] == [options_request(1, b"body"), options_request(2)]
        assert flow == Flow("tcp", place_of(ours, "tcp"), peer.address, flow.id)
        assert flow.reliable


async def test_an_answer_goes_back_by_the_connection_of_its_request() -> None:
    async with network() as (ours, heard), stranger(place_of(ours, "tcp")) as peer:
        heard.on_message = lambda data, flow: ours.send(b"answer", flow)
        peer.say(options_request())
        assert await peer.hear(6) == b"answer"


async def test_a_ping_gets_its_pong_and_a_pong_gets_nothing() -> None:
    async with network() as (ours, heard), stranger(place_of(ours, "tcp")) as peer:
        heard.on_message = lambda data, flow: ours.send(b"answer", flow)
        peer.say(b"\r\n\r\n")
        assert await peer.hear(2) == b"\r\n"
        peer.say(b"\r\n" + options_request())
        assert await peer.hear(6) == b"answer"
        assert len(heard.messages) == 1


async def test_a_stream_that_cannot_be_followed_is_closed_after_its_answer() -> None:
    async with network() as (ours, heard), stranger(place_of(ours, "tcp")) as peer:
        peer.say(options_request())
        flow = await heard.flow()
        peer.say(options_request(2).replace(b"Content-Length: 0", b"Content-Length: 99999999"))
        await until(lambda: len(heard.closed) == 1)
        assert heard.unreadable[0][1] == flow
        assert await peer.is_hung_up_on()


async def test_what_is_sent_about_an_unreadable_message_still_leaves() -> None:
    async with network() as (ours, heard), stranger(place_of(ours, "tcp")) as peer:
        ours._on_unreadable = lambda error, flow: ours.send(b"413", flow)
        peer.say(options_request().replace(b"Content-Length: 0", b"Content-Length: 99999999"))
        assert await peer.hear(3) == b"413"
        assert await peer.is_hung_up_on()


async def test_an_exception_over_a_message_does_not_reach_the_connection() -> None:
    async with network() as (ours, heard), stranger(place_of(ours, "tcp")) as peer:

        def fail(_data: bytes, _flow: Flow) -> None:
            raise RuntimeError("a defect")

        heard.on_message = fail
        peer.say(options_request(1) + options_request(2))
        await heard.flow(2)
        assert not heard.closed


async def test_a_connection_that_is_gone_is_told_once_and_takes_nothing_more() -> None:
    async with network() as (ours, heard):
        async with stranger(place_of(ours, "tcp")) as peer:
            peer.say(options_request())
            flow = await heard.flow()
        await until(lambda: heard.closed == [flow])
        with pytest.raises(OSError):
            ours.send(b"answer", flow)
        ours.hold(flow)
        ours.release(flow)
        assert not len(ours.streams)


async def test_a_request_uses_the_connection_that_its_peer_has_opened() -> None:
    async with network() as (ours, heard), stranger(place_of(ours, "tcp")) as peer:
        peer.say(options_request())
        flow = await heard.flow()
        assert await ours.connect(Target("tcp", *peer.address)) == flow


async def test_requests_to_one_address_share_a_connection() -> None:
    async with network() as (ours, _), network() as (theirs, heard):
        target = Target("tcp", *place_of(theirs, "tcp"))
        flows = await asyncio.gather(*(ours.connect(target) for _ in range(5)))
        assert len(set(flows)) == 1
        assert await ours.connect(target) == flows[0]
        ours.send(options_request(), flows[0])
        back = await heard.flow()
        assert (back.remote, back.local) == (flows[0].local, flows[0].remote)


async def test_a_connection_of_ours_names_the_port_where_we_listen() -> None:
    async with network() as (ours, _), network() as (theirs, _):
        flow = await ours.connect(Target("tcp", *place_of(theirs, "tcp")))
        assert flow.local != place_of(ours, "tcp")
        assert ours.contact(flow) == place_of(ours, "tcp")
        assert ours.sent_by(flow) == "{}:{}".format(*place_of(ours, "tcp"))


async def test_one_who_gives_up_waiting_does_not_spoil_it_for_the_others() -> None:
    async with network() as (ours, _), network() as (theirs, _):
        target = Target("tcp", *place_of(theirs, "tcp"))
        impatient, patient = (asyncio.create_task(ours.connect(target)) for _ in range(2))
        await asyncio.sleep(0)
        impatient.cancel()
        assert (await patient).remote == place_of(theirs, "tcp")
        assert impatient.cancelled()


class Names:
    """Two servers of one name: nobody listens at the first."""

    def __init__(self, *ports: int) -> None:
        self._ports = ports

    async def servers(self, name: str) -> Sequence[ServerRecord]:
        return [ServerRecord(order, 0, "127.0.0.1", port) for order, port in enumerate(self._ports)]

    async def addresses(self, host: str) -> Sequence[str]:
        return [host]


async def test_the_next_address_is_tried_when_one_fails() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        async with network() as (theirs, _):
            names = Names(closed.getsockname()[1], place_of(theirs, "tcp")[1])
            async with network(resolver=names) as (ours, _):
                flow = await ours.connect(Target("tcp", "sip.example.com"))
                assert flow.remote == place_of(theirs, "tcp")


async def test_nobody_there_is_an_error() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        async with network() as (ours, _):
            with pytest.raises(OSError):
                await ours.connect(Target("tcp", *closed.getsockname()))
            assert not len(ours.streams)


async def test_a_peer_that_never_takes_the_connection_costs_a_timeout() -> None:
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        with socket.socket() as first, socket.socket() as second:
            for waiting in (first, second):
                waiting.setblocking(False)
                waiting.connect_ex(full.getsockname())
            async with network(limits=StreamLimits(connect_s=0.02)) as (ours, _):
                with pytest.raises(TimeoutError):
                    await ours.connect(Target("tcp", *full.getsockname()))
                assert not len(ours.streams)


async def test_ipv6_works_alike() -> None:
    async with network("tcp:[::1]:0") as (theirs, heard), network("tcp:[::]:0", "tcp:0.0.0.0:0") as (ours, _):
        flow = await ours.connect(Target("tcp", *place_of(theirs, "tcp")))
        ours.send(options_request(), flow)
        assert (await heard.flow()).remote == flow.local
        assert ours.sent_by(flow) == f"[::1]:{ours.listening[0].port}"


# ---- limits ----------------------------------------------------------------------------------------------------------


async def test_a_message_that_takes_for_ever_is_not_waited_for() -> None:
    clock = Clock()
    async with network(clock=clock) as (ours, heard), stranger(place_of(ours, "tcp")) as peer:
        peer.say(options_request())
        flow = await heard.flow()
        connection = ours.streams._connections[flow.id]
        for step in range(11):
            peer.say(b"X-Slow: 1\r\n" if step else b"OPTIONS sip:a SIP/2.0\r\n")
            await until(lambda: connection._partial_since_s is not None)
            ours.streams.sweep()
            assert connection.usable
            clock.now_s += 1.0
        ours.streams.sweep()
        assert await peer.is_hung_up_on()
        assert heard.ended["slow_message"] == 1


async def test_an_idle_connection_is_closed_unless_a_call_holds_it() -> None:
    clock = Clock()
    async with network(clock=clock, limits=StreamLimits(idle_s=100)) as (ours, heard):
        async with stranger(place_of(ours, "tcp")) as peer:
            peer.say(options_request())
            flow = await heard.flow()
            ours.hold(flow)
            ours.hold(flow)
            ours.release(flow)
            clock.now_s += 101
            ours.streams.sweep()
            ours.send(b"still here", flow)
            assert await peer.hear(10) == b"still here"
            ours.release(flow)
            ours.streams.sweep()
            assert await peer.is_hung_up_on()
        await until(lambda: heard.closed == [flow])


async def test_a_keep_alive_shows_that_a_connection_is_wanted() -> None:
    clock = Clock()
    async with (
        network(clock=clock, limits=StreamLimits(idle_s=100)) as (ours, heard),
        stranger(place_of(ours, "tcp")) as peer,
    ):
        peer.say(options_request())
        flow = await heard.flow()
        clock.now_s += 90
        peer.say(b"\r\n\r\n")
        await peer.hear(2)
        clock.now_s += 90
        ours.streams.sweep()
        ours.send(b"still here", flow)
        assert await peer.hear(10) == b"still here"


async def test_who_connects_and_says_nothing_has_to_go_early() -> None:
    clock = Clock()
    async with network(clock=clock) as (ours, _), stranger(place_of(ours, "tcp")) as peer:
        await until(lambda: len(ours.streams) == 1)
        peer.say(b"\r\n\r\n")
        await peer.hear(2)
        clock.now_s += 31
        ours.streams.sweep()
        assert await peer.is_hung_up_on()


async def test_one_address_gets_so_many_connections_and_others_theirs() -> None:
    limits = StreamLimits(connections_per_address=2)
    async with network("tcp:0.0.0.0:0", limits=limits) as (ours, heard):
        address = place_of(ours, "tcp")
        async with stranger(address) as first, stranger(address):
            await until(lambda: len(ours.streams) == 2)
            async with stranger(address) as third:
                assert await third.is_hung_up_on()
            async with stranger(address, local_addr=("127.0.0.2", 0)):
                await until(lambda: len(ours.streams) == 3)
            await until(lambda: len(ours.streams) == 2)
            first.leave()
            await until(lambda: len(ours.streams) == 1)
            async with stranger(address):
                await until(lambda: len(ours.streams) == 2)
        assert heard.refused["too_many_from_address"] == 1


async def test_the_longest_idle_connection_makes_room_for_a_new_one() -> None:
    clock = Clock()
    async with network(clock=clock, limits=StreamLimits(connections=3)) as (ours, heard):
        address = place_of(ours, "tcp")
        async with stranger(address) as held, stranger(address) as idle, stranger(address) as busy:
            for number, peer in enumerate((held, idle, busy), 1):
                peer.say(options_request(number))
                await heard.flow(number)
                clock.now_s += 1
            ours.hold(heard.messages[0][1])
            async with stranger(address) as newcomer:
                assert await idle.is_hung_up_on()
                newcomer.say(options_request(4))
                await heard.flow(4)
                assert heard.closed == [heard.messages[1][1]]
                for _, flow in heard.messages[2:]:
                    ours.hold(flow)
                async with stranger(address) as too_many:
                    assert await too_many.is_hung_up_on()
        assert heard.refused["too_many"] == 1


class OneTrunk(OpenGate):
    """At 127.0.0.9."""

    def is_trunk(self, host: str) -> bool:
        return host == "127.0.0.9"


@pytest.mark.parametrize("transport", ["tcp", "tls"])
async def test_strangers_do_not_push_out_trunks_nor_who_has_had_a_call(transport: str, tmp_path: Path) -> None:
    clock, authority = Clock(), Authority(tmp_path)
    options = {"ssl": authority.trusting(), "server_hostname": "127.0.0.1"} if transport == "tls" else {}
    tls = authority.settings("127.0.0.1")
    limits = StreamLimits(connections=6, strangers=3)
    async with network(f"{transport}:127.0.0.1:0", clock=clock, limits=limits, gate=OneTrunk(), tls=tls) as (
        ours,
        heard,
    ):
        address = place_of(ours, transport)
        async with contextlib.AsyncExitStack() as stack:

            async def speak(host: str) -> Flow:
                peer = await stack.enter_async_context(stranger(address, local_addr=(host, 0), **options))
                spoken = len(heard.messages)
                peer.say(options_request())
                clock.now_s += 1
                return await heard.flow(spoken + 1)

            trunk, caller = await speak("127.0.0.9"), await speak("127.0.0.2")
            ours.hold(caller)
            ours.release(caller)
            strangers = [await speak(f"127.0.0.{3 + number}") for number in range(5)]
            await until(lambda: heard.closed == strangers[:2])
            others = [await speak("127.0.0.9") for _ in range(4)]
            await until(lambda: heard.closed == strangers)
            await speak("127.0.0.9")
            await until(lambda: heard.closed == [*strangers, trunk])
            for flow in (caller, *others):
                ours.send(b"still here", flow)


async def test_a_peer_that_does_not_read_loses_its_connection() -> None:
    async with (
        network(limits=StreamLimits(unsent_bytes=100_000)) as (ours, heard),
        stranger(place_of(ours, "tcp"), limit=1024) as peer,
    ):
        peer.say(options_request())
        flow = await heard.flow()
        with pytest.raises(OSError):
            for _ in range(10_000):
                ours.send(bytes(60_000), flow)
        await until(lambda: heard.closed == [flow])
        assert heard.ended["peer_does_not_read"] == 1


async def test_a_peer_that_leaves_little_unread_for_long_loses_its_connection_too() -> None:
    clock = Clock()
    async with (
        network(clock=clock, limits=StreamLimits(unsent_bytes=100_000_000)) as (ours, heard),
        stranger(place_of(ours, "tcp"), limit=1024) as peer,
    ):
        peer.say(options_request())
        flow = await heard.flow()
        connection = ours.streams._connections[flow.id]
        while connection._unsent_since_s is None:
            ours.send(bytes(1_000_000), flow)
        ours.hold(flow)
        clock.now_s += 31
        ours.streams.sweep()
        await until(lambda: heard.closed == [flow])


async def test_a_connection_that_is_closing_does_not_wait_for_its_peer_for_ever() -> None:
    clock = Clock()
    limits = StreamLimits(unsent_bytes=100_000_000)
    async with (
        network(clock=clock, limits=limits) as (ours, heard),
        stranger(place_of(ours, "tcp"), limit=1024) as peer,
    ):
        ours._on_unreadable = lambda error, flow: ours.send(bytes(20_000_000), flow)
        peer.say(options_request().replace(b"Content-Length: 0", b"Content-Length: x"))
        await until(lambda: not any(one.usable for one in ours.streams._connections.values() if one.flow))
        assert not heard.closed
        clock.now_s += 31
        ours.streams.sweep()
        await until(lambda: len(heard.closed) == 1)


async def test_a_listener_without_descriptors_rests_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "ACCEPT_PAUSE_S", 0.01)
    async with network() as (ours, heard):
        loop = asyncio.get_running_loop()
        accept, failures = loop.sock_accept, []

        async def no_descriptors(listener: socket.socket) -> tuple[socket.socket, object]:
            if len(failures) < 3:
                failures.append(loop.time())
                raise OSError(errno.EMFILE, "Too many open files")
            return await accept(listener)

        monkeypatch.setattr(loop, "sock_accept", no_descriptors)
        async with stranger(place_of(ours, "tcp")):  # taken by the call that was under way
            await until(lambda: len(failures) == 3)
        async with stranger(place_of(ours, "tcp")) as peer:
            peer.say(options_request())
            await heard.flow()
        assert failures[2] - failures[0] >= 0.02


async def test_closing_ends_every_connection_and_task() -> None:
    async with network() as (ours, heard), stranger(place_of(ours, "tcp")) as peer:
        peer.say(options_request())
        flow = await heard.flow()
        ours.send(b"goodbye", flow)
        await ours.close()
        assert await peer.hear(7) == b"goodbye"
        assert await peer.is_hung_up_on()
        assert heard.closed == [flow]
        assert not ours.streams._tasks
        with pytest.raises(OSError):
            await ours.connect(Target("tcp", "127.0.0.1", 9))
        with pytest.raises(OSError):
            ours.send(b"more", replace(flow, id=5))
