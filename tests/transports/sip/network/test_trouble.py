"""What the log says of connections that did not come about: why, in words, and never a line for each of a flood."""

from __future__ import annotations

import asyncio
import socket
import ssl
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rtc_server.transports.sip.flow import Address
from rtc_server.transports.sip.network.connection import StreamLimits
from rtc_server.transports.sip.network.streams import LINES_OF_EACH
from rtc_server.transports.sip.network.trouble import words_for
from tests.logs import captured_logs
from tests.transports.sip.network.authority import Authority
from tests.transports.sip.network.listeners import WAIT_S, Clock, network, place_of, stranger, until

TLS = "tls:127.0.0.1:0"
NOT_UP = "SIP connection not established"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def distrusting() -> ssl.SSLContext:
    return ssl.create_default_context()


def only_old() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_ciphers("DEFAULT:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1
    return context


def fail_with_an_alert(address: Address, context: ssl.SSLContext) -> None:
    """As most programs do; a stream of asyncio hangs up without one."""
    with (
        socket.create_connection(address, timeout=WAIT_S) as connection,
        pytest.raises(ssl.SSLError),
        context.wrap_socket(connection, server_hostname="127.0.0.1"),
    ):
        pass


async def test_address_that_takes_no_connection_is_not_in_the_words(unused_tcp_port: int) -> None:
    with pytest.raises(OSError) as refused:
        await asyncio.open_connection("127.0.0.1", unused_tcp_port)
    assert "127.0.0.1" in str(refused.value)
    assert words_for(refused.value) == "Connection refused"


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1 is deprecated")
@pytest.mark.parametrize(
    ("context", "words"),
    [(distrusting, "does not trust our certificate"), (only_old, "no version of TLS in common")],
)
async def test_log_says_in_words_what_is_wrong_between_two_ends_of_tls(
    authority: Authority, context: Any, words: str
) -> None:
    with captured_logs() as logs:
        async with network(TLS, tls=authority.settings("127.0.0.1")) as (ours, heard):
            await asyncio.to_thread(fail_with_an_alert, place_of(ours, "tls"), context())
            await until(lambda: heard.refused["handshake"] == 1)
    (line,) = [entry for entry in logs if entry["event"] == NOT_UP]
    assert words in line["reason"] and line["transport"] == "tls"
    assert "127.0.0.1" not in str(line)


async def test_client_without_the_certificate_that_is_asked_for_is_told_of(authority: Authority) -> None:
    settings = replace(authority.settings("127.0.0.1"), verify_clients=True)
    trusting = authority.trusting()
    trusting.maximum_version = ssl.TLSVersion.TLSv1_2  # where the refusal comes within the handshake
    with captured_logs() as logs:
        async with network(TLS, tls=settings) as (ours, heard):
            with pytest.raises(OSError):
                async with stranger(place_of(ours, "tls"), ssl=trusting, server_hostname="127.0.0.1"):
                    pass
            await until(lambda: heard.refused["handshake"] == 1)
    assert ["tls_verify_clients" in entry["reason"] for entry in logs if entry["event"] == NOT_UP] == [True]


async def test_plain_sip_on_the_port_of_tls_is_told_as_such_and_a_flood_of_it_in_few_lines(
    authority: Authority,
) -> None:
    clock = Clock()
    with captured_logs() as logs:
        async with network(TLS, tls=authority.settings("127.0.0.1"), clock=clock) as (ours, heard):

            async def knock(count: int) -> None:
                before = heard.refused["handshake"]
                for number in range(count):
                    async with stranger(place_of(ours, "tls")) as plain:
                        plain.say(b"OPTIONS sip:a SIP/2.0\r\n\r\n")
                        assert await plain.is_hung_up_on()
                    await until(lambda number=number: heard.refused["handshake"] == before + number + 1)

            await knock(LINES_OF_EACH + 20)
            lines = [entry for entry in logs if entry["event"] == NOT_UP]
            assert [entry["reason"] for entry in lines] == ["what came is no TLS"] * LINES_OF_EACH
            clock.now_s += 60.0
            await knock(1)
    assert [entry["left_out"] for entry in logs if "left_out" in entry] == [20]


async def test_streams_that_cannot_be_read_get_few_lines_too() -> None:
    with captured_logs() as logs:
        async with network("tcp:127.0.0.1:0", clock=Clock()) as (ours, heard):
            for number in range(LINES_OF_EACH + 5):
                async with stranger(place_of(ours, "tcp")) as babbling:
                    babbling.say(b"INVITE sip:a SIP/2.0\r\nContent-Length: x\r\n\r\n")
                    await until(lambda number=number: len(heard.unreadable) == number + 1)
    assert [entry["event"] for entry in logs].count("SIP stream cannot be read") == LINES_OF_EACH


async def test_handshake_that_takes_too_long_is_told_as_such(authority: Authority) -> None:
    limits = StreamLimits(handshake_s=0.02)
    with captured_logs() as logs:
        async with network(TLS, tls=authority.settings("127.0.0.1"), limits=limits) as (ours, heard):
            async with stranger(place_of(ours, "tls")) as silent:
                assert await silent.is_hung_up_on()
            await until(lambda: heard.refused["handshake"] == 1)
    assert [entry["reason"] for entry in logs if entry["event"] == NOT_UP] == ["the other end did not answer in time"]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ConnectionRefusedError(111, "Connection refused"), "Connection refused"),
        (
            ConnectionResetError(),
            "the other end closed the connection before it was up; with TLS often since it distrusts our certificate",
        ),
        (OSError("the name has no address"), "the name has no address"),
        (OSError(), "OSError"),
        (ssl.SSLError(), "TLS: no reason given"),
    ],
)
def test_words_are_there_for_every_error(error: OSError, words: str) -> None:
    assert words_for(error) == words
