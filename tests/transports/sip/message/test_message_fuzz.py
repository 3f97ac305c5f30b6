"""Whatever arrives: `parse` raises nothing but SipParseError, and what it reads can be written and read again."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtc_server.transports.sip.message import authparams
from rtc_server.transports.sip.message.framing import StreamFramer
from rtc_server.transports.sip.message.grammar import parse_params, split_list
from rtc_server.transports.sip.message.headers import (
    CSeq,
    NameAddr,
    RAck,
    Reason,
    SessionExpires,
    SipUri,
    Via,
    delta_seconds,
)
from rtc_server.transports.sip.message.message import Request, SipParseError, parse
from tests.transports.sip.message.messages import BODY, message
from tests.transports.sip.message.test_torture import WIDE

PARSERS: list[Callable[[str], object]] = [
    *(CSeq.parse, NameAddr.parse, RAck.parse, Reason.parse, SessionExpires.parse, SipUri.parse, Via.parse),
    *(authparams.parse, delta_seconds, parse_params, split_list),
]
SEEDS = [
    WIDE,
    message("Content-Type: application/sdp", f"Content-Length: {len(BODY)}", body=BODY),
    message(start="SIP/2.0 401 Unauthorized").replace(b"Contact", b'WWW-Authenticate: Digest realm="a"\r\nContact'),
]
PIECES = [b"\r\n", b"\r", b"\n", b" ", b"\t", b":", b";", b",", b'"', b"\\", b"<", b">", b"=", b"@", b"\x00", b"\xff"]


@st.composite
def spoilt(draw: st.DrawFn) -> bytes:
    """A message with some places cut out, doubled or written over."""
    data = draw(st.sampled_from(SEEDS))
    for _ in range(draw(st.integers(1, 6))):
        start = draw(st.integers(0, len(data)))
        end = min(len(data), start + draw(st.integers(0, 12)))
        new = draw(st.sampled_from([*PIECES, data[start:end] * 2, b""]) | st.binary(max_size=4))
        data = data[:start] + new + data[end:]
    return data


@given(st.binary(max_size=200) | spoilt())
def test_whatever_arrives_is_read_or_refused(data: bytes) -> None:
    try:
        read = parse(data)
    except SipParseError as error:
        if error.partial is not None:
            error.partial.to_bytes()
        return
    again = parse(read.to_bytes())
    assert isinstance(again, Request) == isinstance(read, Request)
    assert again.body == read.body
    assert [item for item in again.headers.items() if item[0] != "Content-Length"] == [
        item for item in read.headers.items() if item[0] != "Content-Length"
    ]
    for _, value in read.headers.items():
        for parser in PARSERS:
            try:
                parser(value)
            except ValueError:
                continue


@given(spoilt(), st.lists(st.integers(1, 60), max_size=20))
def test_whatever_streams_in_is_cut_or_refused(data: bytes, cuts: list[int]) -> None:
    framer = StreamFramer(65535)
    at = 0
    try:
        for size in [*cuts, len(data)]:
            framer.feed(data[at : at + size])
            at += size
    except SipParseError:
        pass


@given(st.text(max_size=80) | st.text('":;,<>=\\ \t@?%[]a1*', max_size=80))
def test_whatever_a_header_holds_is_read_or_refused(value: str) -> None:
    for parser in PARSERS:
        try:
            read = parser(value)
        except ValueError:
            continue
        if isinstance(read, CSeq | NameAddr | RAck | Reason | SessionExpires | SipUri | Via):
            assert type(read).parse(str(read)) == read


@pytest.mark.parametrize("parser", PARSERS)
def test_time_does_not_explode_with_length(parser: Callable[[str], object]) -> None:
    """Each would take much longer where a pattern tries every way to read white space, quotes or escapes."""
    started_s = time.process_time()
    for piece in (" ", "\t", '"', '\\"', '"\\', ",", ";", "a", "a.", "<", "=", ":", "1", "%", "a ", ";a", ' "', "a,"):
        for head in ("", '"', "<sip:", ";a=", "Digest a=", "SIP/2.0/UDP ", "sip:", "SIP "):
            for tail in ("", "\x00"):
                try:
                    parser((head + piece * 8192)[:8192] + tail)
                except ValueError:
                    continue
    assert time.process_time() - started_s < 2.0
