from __future__ import annotations

import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from rtc_server.transports.sip.flow import Flow, Transport
from rtc_server.transports.sip.message.headers import Via
from rtc_server.transports.sip.message.message import Request, Response, parse
from rtc_server.transports.sip.network.listenon import ListenOn
from rtc_server.transports.sip.network.target import Target
from rtc_server.transports.sip.network.tls import TlsSettings
from rtc_server.transports.sip.optionsprobe import ask_options
from rtc_server.transports.sip.transaction.derived import response_to
from rtc_server.transports.sip.transaction.matching import way_back
from rtc_server.transports.sip.transaction.timers import Intervals
from tests.transports.sip.network.authority import Authority
from tests.transports.sip.network.listeners import Heard, network, place_of

IPV4, IPV6 = ListenOn("udp", "0.0.0.0", 5060), ListenOn("udp", "::", 5060)
ask = partial(ask_options, listen=[IPV4, IPV6])


def _answers(send: Callable[[bytes, Flow], None], heard: Heard, status: int, *, after: int = 1) -> None:
    """Answer the request that comes for the `after`-th time."""

    def answer(data: bytes, flow: Flow) -> None:
        request = parse(data)
        assert isinstance(request, Request)
        if len(heard.messages) < after:
            return
        back = way_back(request, flow)
        response = response_to(request, status, "tag")
        response.headers.add("Contact", "<sip:trunk@192.0.2.7>")
        response.headers.add("Server", "a trunk")
        send(response.to_bytes(), back)

    heard.on_message = answer


@pytest.mark.parametrize("transport", ["udp", "tcp"])
async def test_an_answer_says_who_is_there_and_how_we_are_seen(transport: Transport) -> None:
    async with network() as (trunk, heard):
        _answers(trunk.send, heard, 200)
        answer = await ask(Target(transport, *place_of(trunk, transport)))
        assert (answer.status, answer.reason, answer.takes_calls) == (200, "OK", True)
        assert (answer.contact, answer.server) == ("<sip:trunk@192.0.2.7>", "a trunk")
        assert answer.remote == place_of(trunk, transport)
        assert answer.seen_as == heard.messages[0][1].remote
        assert 0 < answer.time_ms < 4000
        request = parse(heard.messages[0][0])
        assert isinstance(request, Request) and request.method == "OPTIONS"
        assert Via.parse(request.headers.get("Via") or "").transport == transport.upper()


async def test_tls_is_checked_like_that_of_a_call(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    async with network("tls:127.0.0.1:0", tls=authority.settings("127.0.0.1")) as (trunk, heard):
        _answers(trunk.send, heard, 200)
        target = Target("tls", *place_of(trunk, "tls"))
        assert (await ask(target, tls=TlsSettings(ca=authority.path))).status == 200
        with pytest.raises(OSError):
            await ask(target)
        assert (await ask(target, tls=TlsSettings(insecure=True))).status == 200


async def test_ipv6_is_asked_too() -> None:
    async with network("udp:[::1]:0") as (trunk, heard):
        _answers(trunk.send, heard, 404)
        answer = await ask(Target("udp", *place_of(trunk, "udp")))
        assert (answer.status, answer.takes_calls) == (404, True)
        assert answer.seen_as is not None and answer.seen_as[0] == "::1"


async def test_a_datagram_that_was_lost_is_sent_again() -> None:
    async with network() as (trunk, heard):
        _answers(trunk.send, heard, 503, after=2)
        answer = await ask(Target("udp", *place_of(trunk, "udp")), intervals=Intervals(t1_s=0.01))
        assert (answer.status, answer.takes_calls) == (503, False)


async def test_silence_is_a_timeout() -> None:
    async with network() as (trunk, _):
        with pytest.raises(TimeoutError):
            await ask(Target("udp", *place_of(trunk, "udp")), timeout_s=0.02)


async def test_connection_that_never_comes_about_is_no_silence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute, pytest.raises(ConnectionError, match="no connection within"):
        await ask(Target("tls", "127.0.0.1", mute.getsockname()[1]), timeout_s=0.1)


async def test_provisional_and_foreign_and_malformed_answers_are_not_the_answer() -> None:
    async with network() as (trunk, heard):

        def answer(data: bytes, flow: Flow) -> None:
            request = parse(data)
            assert isinstance(request, Request)
            final = response_to(request, 200, "tag")
            foreign = Response(200, "OK", response_to(request, 200, "tag").headers)
            foreign.headers.set("Via", str(Via("UDP", "127.0.0.1", 5060, {"branch": "z9hG4bKother"})))
            provisional = response_to(request, 100, "tag")
            for message in (b"junk", foreign.to_bytes(), provisional.to_bytes(), final.to_bytes()):
                trunk.send(message, flow)

        heard.on_message = answer
        result = await ask(Target("udp", *place_of(trunk, "udp")))
        assert result.status == 200
        assert result.seen_as is None


async def test_a_port_that_is_closed_is_told_at_once_where_that_can_be_known() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        with pytest.raises(OSError):
            await ask(Target("tcp", *closed.getsockname()))


async def test_a_connection_that_closes_instead_of_answering_is_no_timeout() -> None:
    async with network() as (trunk, heard):
        heard.on_message = lambda data, flow: trunk.streams._connections[flow.id].drop("test")
        with pytest.raises(ConnectionError):
            await ask(Target("tcp", *place_of(trunk, "tcp")))


@pytest.mark.parametrize("listen", [[], [IPV6], [ListenOn("tcp", "0.0.0.0", 5060)]])
async def test_over_udp_nobody_is_asked_whom_the_places_of_the_server_do_not_lead_to(listen: list[ListenOn]) -> None:
    async with network() as (trunk, heard):
        _answers(trunk.send, heard, 200)
        with pytest.raises(OSError, match="no udp place that leads there"):
            await ask(Target("udp", *place_of(trunk, "udp")), listen=listen)
        assert not heard.messages
        assert (await ask(Target("tcp", *place_of(trunk, "tcp")), listen=listen)).status == 200


async def test_the_question_comes_from_the_address_that_calls_come_from() -> None:
    async with network() as (trunk, heard):
        _answers(trunk.send, heard, 200)
        await ask(Target("udp", *place_of(trunk, "udp")), listen=[ListenOn("udp", "127.0.0.1", 5060), IPV6])
        (message,) = heard.messages
        assert message[1].remote[0] == "127.0.0.1" and message[1].remote[1] != 5060
