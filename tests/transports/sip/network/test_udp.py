from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import pytest

from rtc_server.errors import ConfigError
from rtc_server.transports.sip.flow import Flow
from rtc_server.transports.sip.network.network import SipNetwork
from rtc_server.transports.sip.network.target import Target
from tests.transports.sip.network.listeners import Heard, network, options_request, place_of, until


@pytest.fixture
def peer() -> Iterator[socket.socket]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as item:
        item.bind(("127.0.0.1", 0))
        item.settimeout(5)
        yield item


@pytest.fixture
async def opened() -> AsyncIterator[tuple[SipNetwork, Heard]]:
    async with network("udp:0.0.0.0:0") as both:
        yield both


async def test_a_datagram_is_a_message_and_its_flow_leads_back(
    opened: tuple[SipNetwork, Heard], peer: socket.socket
) -> None:
    ours, heard = opened
    address = place_of(ours, "udp")
    peer.sendto(options_request(), address)
    flow = await heard.flow()
    assert heard.messages[0][0] == options_request()
    assert flow == Flow("udp", address, peer.getsockname(), flow.id)
    ours.send(b"answer", flow)
    assert peer.recvfrom(100) == (b"answer", address)


async def test_an_answer_may_go_to_another_port_than_the_request_came_from(
    opened: tuple[SipNetwork, Heard], peer: socket.socket
) -> None:
    ours, heard = opened
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.sendto(options_request(), place_of(ours, "udp"))
        flow = await heard.flow()
    ours.send(b"answer", replace(flow, remote=peer.getsockname()))
    assert peer.recv(100) == b"answer"


async def test_whatever_arrives_the_socket_lives_on(opened: tuple[SipNetwork, Heard], peer: socket.socket) -> None:
    ours, heard = opened
    address = place_of(ours, "udp")
    for junk in (b"", b"\r\n", b"\r\n\r\n", b"\0\0\0\0", b"\x01" + bytes(19)):
        peer.sendto(junk, address)
    for junk in (b"\xff" * 65_507, b"x"):
        peer.sendto(junk, address)
    peer.sendto(options_request(), address)
    await heard.flow(3)
    assert [data for data, _ in heard.messages] == [b"\xff" * 65_507, b"x", options_request()]


async def test_an_exception_over_a_message_does_not_reach_the_socket(
    opened: tuple[SipNetwork, Heard], peer: socket.socket
) -> None:
    ours, heard = opened

    def fail(_data: bytes, _flow: Flow) -> None:
        raise RuntimeError("a defect")

    heard.on_message = fail
    for number in (1, 2):
        peer.sendto(options_request(number), place_of(ours, "udp"))
    await heard.flow(2)


async def test_a_port_that_nobody_listens_on_does_not_end_the_socket(
    opened: tuple[SipNetwork, Heard], peer: socket.socket
) -> None:
    ours, heard = opened
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as gone:
        gone.bind(("127.0.0.1", 0))
        nobody = gone.getsockname()
    flow = await ours.connect(Target("udp", *nobody))
    for _ in range(3):
        ours.send(b"is anybody there", flow)
        await asyncio.sleep(0.001)
    peer.sendto(options_request(), place_of(ours, "udp"))
    assert (await heard.flow()).remote == peer.getsockname()


async def test_what_cannot_leave_is_an_error_at_once(opened: tuple[SipNetwork, Heard]) -> None:
    ours, _ = opened
    flow = await ours.connect(Target("udp", "127.0.0.1", 9))
    with pytest.raises(OSError):
        ours.send(bytes(70_000), flow)
    for port in (0, 65_536):
        with pytest.raises(OSError):
            ours.send(b"x", replace(flow, remote=("127.0.0.1", port)))
    with pytest.raises(OSError):
        ours.send(b"x", replace(flow, id=99))


async def test_large_messages_leave_over_udp(opened: tuple[SipNetwork, Heard], peer: socket.socket) -> None:
    ours, _ = opened
    flow = await ours.connect(Target("udp", *peer.getsockname()))
    ours.send(options_request(body=bytes(4000)), flow)
    assert len(peer.recv(65_535)) > 4000


async def test_a_flow_names_the_address_that_the_peer_sees() -> None:
    async with network("udp:0.0.0.0:0", "udp:[::]:0") as (ours, heard):
        for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
            port = next(place.port for place in ours.listening if (":" in place.host) == (":" in host))
            with socket.socket(family, socket.SOCK_DGRAM) as peer:
                peer.bind((host, 0))
                peer.settimeout(5)
                flow = await ours.connect(Target("udp", host, peer.getsockname()[1]))
                assert (flow.local, ours.contact(flow)) == ((host, port), (host, port))
                ours.send(b"hello", flow)
                assert peer.recvfrom(100)[1][:2] == (host, port)
                peer.sendto(options_request(), (host, port))
                await until(lambda flow=flow: any(known == flow for _, known in heard.messages))  # type: ignore[misc]


async def test_without_a_socket_of_the_family_nothing_is_reached(opened: tuple[SipNetwork, Heard]) -> None:
    with pytest.raises(OSError, match="no udp place that leads there"):
        await opened[0].connect(Target("udp", "::1", 5060))


async def test_a_port_that_is_taken_is_told_by_its_name(opened: tuple[SipNetwork, Heard]) -> None:
    port = opened[0].listening[0].port
    with pytest.raises(ConfigError, match=f"udp:0.0.0.0:{port}"):
        async with network("tcp:127.0.0.1:0", f"udp:0.0.0.0:{port}"):
            pass


async def test_a_closed_network_sends_nothing(peer: socket.socket) -> None:
    async with network("udp:127.0.0.1:0") as (ours, _):
        flow = await ours.connect(Target("udp", *peer.getsockname()))
    await ours.close()
    with pytest.raises(OSError):
        ours.send(b"x", flow)
