"""Messages cut out of a stream."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtc_server.transports.sip.message.framing import KeepAlive, StreamFramer
from rtc_server.transports.sip.message.message import SipParseError, parse
from tests.transports.sip.message.messages import BODY, message

LIMIT_BYTES = 8192
INVITE = message(f"Content-Length: {len(BODY)}", body=BODY)
BYE = message("l: 0", start="BYE sip:a@b SIP/2.0")
FOLDED = message("Content-Length \t:\r\n   3 ", "Subject: x", body=b"\r\n\r")
NO_LENGTH = message(start="SIP/2.0 200 OK")


def feed(framer: StreamFramer, data: bytes) -> list[bytes | KeepAlive]:
    """Everything that is complete then."""
    framer.feed(data)
    return list(iter(framer.next, None))


@given(
    st.lists(st.sampled_from([INVITE, BYE, FOLDED, NO_LENGTH]), max_size=5),
    st.lists(st.integers(1, 700), max_size=30),
)
def test_cuts_do_not_depend_on_how_the_stream_arrives(messages: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(messages)
    framer = StreamFramer(LIMIT_BYTES)
    items: list[bytes | KeepAlive] = []
    at = 0
    for size in [*cuts, len(stream)]:
        items += feed(framer, stream[at : at + size])
        at += size
    assert items == messages
    assert not framer.pending
    for item in messages:
        parse(item)


def test_keep_alives_between_messages_are_told() -> None:
    stream = b"\r\n\r\n" + INVITE + b"\r\n" + BYE + b"\r\n\r\n"
    framer = StreamFramer(LIMIT_BYTES)
    assert feed(framer, stream) == [KeepAlive.PING, INVITE, KeepAlive.PONG, BYE, KeepAlive.PING]
    assert not framer.pending


def test_keep_alive_is_told_as_soon_as_it_can_be() -> None:
    framer = StreamFramer(LIMIT_BYTES)
    assert feed(framer, b"\r") == []
    assert framer.pending
    assert feed(framer, b"\n") == [KeepAlive.PONG]
    assert feed(framer, b"\r\n\r") == []
    assert feed(framer, b"\n") == [KeepAlive.PING]
    assert not framer.pending


def test_what_is_incomplete_is_pending() -> None:
    framer = StreamFramer(LIMIT_BYTES)
    assert feed(framer, INVITE[:-1]) == []
    assert framer.pending
    assert feed(framer, INVITE[-1:] + BYE[:5]) == [INVITE]
    assert framer.pending


@pytest.mark.parametrize("line", ["Content-Length: x", "Content-Length: -1", "Content-Length: 1\r\nl: 2", "l:"])
def test_stream_that_cannot_be_cut_is_refused_and_its_request_answerable(line: str) -> None:
    with pytest.raises(SipParseError) as caught:
        feed(StreamFramer(LIMIT_BYTES), message(line))
    assert caught.value.status == 400
    assert caught.value.partial is not None
    assert caught.value.partial.headers.get("CSeq") == "2 INVITE"


def test_body_over_the_limit_is_refused_before_it_arrives() -> None:
    with pytest.raises(SipParseError) as caught:
        feed(StreamFramer(LIMIT_BYTES), message(f"Content-Length: {LIMIT_BYTES}"))
    assert caught.value.status == 413
    assert caught.value.partial is not None


def test_headers_without_an_end_are_refused_at_the_limit() -> None:
    framer = StreamFramer(LIMIT_BYTES)
    endless = INVITE[:40] + b"\r\nX: y" * LIMIT_BYTES
    assert feed(framer, endless[:LIMIT_BYTES]) == []
    with pytest.raises(SipParseError) as caught:
        feed(framer, endless[LIMIT_BYTES : LIMIT_BYTES + 1])
    assert caught.value.status == 513


def test_garbage_is_not_answerable() -> None:
    with pytest.raises(SipParseError) as caught:
        feed(StreamFramer(LIMIT_BYTES), b"\x16\x03\x01" * LIMIT_BYTES)
    assert caught.value.partial is None


def test_message_before_garbage_is_given_out_first() -> None:
    framer = StreamFramer(LIMIT_BYTES)
    framer.feed(BYE + message("Content-Length: x"))
    assert framer.next() == BYE
    assert framer.pending
    with pytest.raises(SipParseError):
        framer.next()


def test_length_in_a_body_or_a_longer_name_is_none() -> None:
    data = message("X-Content-Length: 9", "Content-Length: 22", body=b"\r\nContent-Length: 900\r\n"[:22])
    assert feed(StreamFramer(LIMIT_BYTES), data + BYE) == [data, BYE]
