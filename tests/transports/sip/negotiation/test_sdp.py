from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtc_server.transports.sip.negotiation import sdp
from rtc_server.transports.sip.negotiation.sdp import (
    MediaRefused,
    MediaSection,
    Origin,
    read_description,
    whole_number,
    write_description,
)
from tests.transports.sip.negotiation import bodies
from tests.transports.sip.negotiation.bodies import body


@pytest.mark.parametrize("name", bodies.names())
def test_descriptions_of_real_phones_are_read(name: str) -> None:
    sections = read_description(bodies.read(name))
    assert sections[0].kind in ("audio", "image")
    assert sections[0].address is not None


def test_a_section_has_its_lines_and_those_of_the_session() -> None:
    (audio, video) = read_description(
        b"v=0\r\no=- 1 1 IN IP6 2001:db8::1\r\ns=-\r\nc=IN IP6 2001:db8::1\r\nt=0 0\r\na=sendonly\r\na=x:session\r\n"
        b"m=audio 4000 RTP/AVP 0 8\r\na=ptime:20\r\na=rtpmap:0 PCMU/8000\r\na=rtpmap:8 PCMA/8000\r\n"
        b"m=video 4002/2 RTP/AVP 31\r\nc=IN IP4 198.51.100.9/127\r\na=recvonly\r\na=x:own\r\n"
    )
    assert (audio.kind, audio.port, audio.profile, audio.formats) == ("audio", 4000, "RTP/AVP", ("0", "8"))
    assert audio.address == "2001:db8::1"
    assert audio.values("rtpmap") == ["0 PCMU/8000", "8 PCMA/8000"]
    assert (audio.value("ptime"), audio.value("x"), audio.value("missing")) == ("20", "session", None)
    assert (audio.direction, video.direction) == ("sendonly", "recvonly")
    assert (video.port, video.address, video.value("x")) == (4002, "198.51.100.9", "own")


def test_a_section_is_sendrecv_where_nothing_is_said() -> None:
    assert read_description(body("m=audio 4000 RTP/AVP 0"))[0].direction == "sendrecv"


@pytest.mark.parametrize(
    "sloppy",
    [
        b"v=0\nc=IN IP4 198.51.100.7\nm=audio 4000 RTP/AVP 0 101\na=ptime:20\na=sendonly",
        b"v=0\rc=IN IP4 198.51.100.7\rm=audio 4000 RTP/AVP 0 101\ra=ptime:20\ra=sendonly\r",
        b"\r\n v = 0 \r\n\r\nc= IN  IP4\t198.51.100.7 \r\nm= AUDIO  4000   RTP/AVP 0  101 \r\n"
        b"a= PTIME : 20\r\na= sendonly \0",
        b"v=0\r\nb=AS:64\r\nno type\r\nc=IN IP4 198.51.100.7\r\nm=audio 4000 RTP/AVP 0 101\r\ni=\xff\r\n"
        b"a=ptime:20\r\na=sendonly\r\n",
    ],
    ids=["LF", "CR", "spaces", "unknown lines"],
)
def test_line_ends_spaces_and_strange_lines_do_not_matter(sloppy: bytes) -> None:
    (section,) = read_description(sloppy)
    assert (section.kind, section.port, section.formats) == ("audio", 4000, ("0", "101"))
    assert (section.address, section.value("ptime"), section.direction) == ("198.51.100.7", "20", "sendonly")


def test_a_refused_section_may_have_no_formats() -> None:
    assert read_description(body("m=video 0 RTP/AVP"))[0].formats == ("0",)


@pytest.mark.parametrize(
    "wrong",
    [
        b"",
        b"\0\0\0",
        b"hello",
        b"v=1\r\nm=audio 4000 RTP/AVP 0\r\n",
        b"m=audio 4000 RTP/AVP 0\r\nv=0\r\n",
        body("m="),
        body("m=audio"),
        body("m=audio 4000"),
        body("m=audio 4000 RTP/AVP"),
        body("m=audio x RTP/AVP 0"),
        body("m=audio 65536 RTP/AVP 0"),
        body("m=audio -1 RTP/AVP 0"),
        body("m=audio \N{ARABIC-INDIC DIGIT FOUR} RTP/AVP 0"),
        body("m=audio 4000 RTP/AVP \N{SNOWMAN}"),
        body("c=", "m=audio 4000 RTP/AVP 0"),
        body("m=audio 4000 RTP/AVP 0", "c=IN IP4"),
        body("m=audio 4000 RTP/AVP 0", "c=IN IP4 /127"),
        body(*["m=audio 4000 RTP/AVP 0"] * (sdp.MAX_SECTIONS + 1)),
        body(*["a=x"] * sdp.MAX_LINES),
        body("a=" + "x" * sdp.MAX_LINE_CHARS),
        body(*["a=" + "x" * 1000] * 17),
    ],
)
def test_what_is_no_description_is_a_bad_request(wrong: bytes) -> None:
    with pytest.raises(MediaRefused) as refusal:
        read_description(wrong)
    assert refusal.value.status == 400


def test_what_is_written_is_by_the_book() -> None:
    section = MediaSection("audio", 4000, "RTP/AVP", ("0", "101"), (("rtpmap", "0 PCMU/8000"), ("sendrecv", None)))
    rejected = MediaSection("video", 4002, "RTP/AVP", ("31",), (("recvonly", None),)).rejected()
    assert write_description(Origin(7, 2, "2001:db8::7"), [section, rejected]) == (
        b"v=0\r\no=- 7 2 IN IP6 2001:db8::7\r\ns=-\r\nc=IN IP6 2001:db8::7\r\nt=0 0\r\n"
        b"m=audio 4000 RTP/AVP 0 101\r\na=rtpmap:0 PCMU/8000\r\na=sendrecv\r\nm=video 0 RTP/AVP 31\r\n"
    )


words = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=20)
names = st.from_regex(r"[a-z0-9-]{1,20}", fullmatch=True)
written_sections = st.builds(
    MediaSection,
    kind=st.sampled_from(["audio", "video", "image"]),
    port=st.integers(0, 65535),
    profile=words,
    formats=st.lists(words, min_size=1, max_size=5).map(tuple),
    attributes=st.lists(st.tuples(names, st.none() | words), max_size=5).map(tuple),
    address=st.just("192.0.2.7"),
)


@given(st.lists(written_sections, max_size=5))
def test_what_is_written_reads_the_same(sections: list[MediaSection]) -> None:
    assert read_description(write_description(Origin(1, 1, "192.0.2.7"), sections)) == tuple(sections)


def test_a_warning_is_fit_for_a_header_whatever_it_tells_of() -> None:
    refusal = MediaRefused(488, 'none of PCMU in "x"\\\r\nEvil: 1 \N{SNOWMAN}' + "y" * 500, 305)
    warning = refusal.warning("192.0.2.7")
    assert warning.startswith('305 192.0.2.7 "none of PCMU in ?x????Evil: 1 ?yyy')
    assert warning.endswith('y"')
    assert len(warning) < 250


@pytest.mark.parametrize(
    ("text", "number"),
    [("20", 20), ("9", None), ("101", None), ("x", None), (None, None), ("²", None), ("9" * 99, None)],
)
def test_a_number_out_of_an_attribute_is_bounded(text: str | None, number: int | None) -> None:
    assert whole_number(text, 10, 100) == number
