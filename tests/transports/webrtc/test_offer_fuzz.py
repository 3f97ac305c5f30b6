"""Hostile offers: whatever comes is answered or refused, nothing else, and soon."""

from __future__ import annotations

import random
import re
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtc_server.errors import BadOffer
from rtc_server.transports.webrtc import offer as offer_module
from rtc_server.transports.webrtc.negotiation import answer_offer
from rtc_server.transports.webrtc.remotecandidates import MAX_CANDIDATES
from rtc_server.transports.webrtc.sdp import Negotiated
from tests.transports.webrtc import offers
from tests.transports.webrtc.answers import check_answer
from tests.transports.webrtc.offers import LOCAL

FIRST = {name: answer_offer(offers.read(name), LOCAL) for name in ("S01", "S09", "S18", "S23", "S32")}

# ---- offers by grammar -----------------------------------------------------------------------------------------------

numbers = st.sampled_from(["0", "8", "9", "13", "63", "64", "95", "96", "111", "127", "128"])
encodings = st.sampled_from(
    ["opus/48000/2", "opus/48000", "opus/8000", "red/48000/2", "red/8000", "PCMU/8000", "PCMA/8000/1", "PCMA/8000/2"]
    + ["CN/8000", "CN/16000", "telephone-event/8000", "x/1"]
)
parameters = st.sampled_from(["111/111", "0/111", "minptime=10", "maxaveragebitrate=9999999999", ";;=;", "/"])
addresses = st.sampled_from(
    [
        "203.0.113.1",
        "127.0.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "169.254.169.254",
        "::1",
        "2001:db8::1",
        "fe80::1%1",
        "x.local",
    ]
)
attribute_lines = st.one_of(
    st.builds("a=rtpmap:{} {}".format, numbers, encodings),
    st.builds("a=fmtp:{} {}".format, numbers, parameters),
    st.builds(
        "a=candidate:1 {} {} {} {} {} typ host".format,
        st.sampled_from([1, 2]),
        st.sampled_from(["udp", "UDP", "tcp"]),
        st.integers(-1, 2**33),
        addresses,
        st.integers(-1, 70_000),
    ),
    st.builds("a=setup:{}".format, st.sampled_from(["actpass", "active", "passive", "holdconn", ""])),
    st.builds("a=mid:{}".format, st.sampled_from(["0", "1", "2", "audio"])),
    st.builds("a=group:BUNDLE {}".format, st.sampled_from(["0", "0 1", "1 0", "0 0 1 2", ""])),
    st.builds("a=ice-ufrag:{}".format, st.sampled_from(["abcd", "efgh", "ab", "x" * 257, "é"])),
    st.builds("a=ice-pwd:{}".format, st.sampled_from(["a" * 22, "b" * 24, "c"])),
    st.builds("a=fingerprint:{}".format, st.sampled_from(["sha-256 " + ":".join(["AB"] * 32), "sha-1 AB", "sha-256"])),
    st.sampled_from(
        ["a=ice-lite", "a=rtcp-mux", "a=sendrecv", "a=inactive", "a=recvonly", "a=bundle-only", "a=ptime:0"]
    ),
)
section_lines = st.builds(
    "m={} {} {} {}".format,
    st.sampled_from(["audio", "audio", "video"]),
    st.sampled_from([0, 9, 65535, 65536]),
    st.sampled_from(["UDP/TLS/RTP/SAVPF", "RTP/SAVP", "UDP/DTLS/SCTP"]),
    st.lists(numbers, min_size=1, max_size=4).map(" ".join),
)
lines_of_an_offer = st.one_of(attribute_lines, attribute_lines, section_lines)


@st.composite
def edited_offers(draw: st.DrawFn, name: str | None = None) -> str:
    """An offer of the field with some lines taken out, doubled, put elsewhere or written anew."""
    lines = offers.read(name or draw(st.sampled_from(offers.names()))).splitlines()
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(1, len(lines)))
        match draw(st.sampled_from(["insert", "replace", "remove", "repeat"])):
            case "insert":
                lines.insert(at, draw(lines_of_an_offer))
            case "replace":
                lines[at - 1 : at] = [draw(lines_of_an_offer)]
            case "remove":
                del lines[at - 1]
            case _:
                lines.insert(at, lines[draw(st.integers(0, len(lines) - 1))])
        if not lines:
            break
    return "\r\n".join(lines)


def answered(sdp: str, previous: Negotiated | None = None) -> Negotiated | None:
    try:
        return answer_offer(sdp, LOCAL, previous)
    except BadOffer as error:
        assert error.http_status in (400, 422) and error.message
        return None


@given(edited_offers())
def test_edited_offer_is_refused_or_answered_so_that_another_parser_reads_what_was_agreed(sdp: str) -> None:
    agreed = answered(sdp)
    if agreed is not None:
        check_answer(sdp, agreed)
        check_agreement(agreed)


@given(st.sampled_from(sorted(FIRST)), st.data())
def test_edited_later_offer_keeps_what_must_not_change(name: str, data: st.DataObject) -> None:
    sdp, previous = data.draw(edited_offers(name)), FIRST[name]
    agreed = answered(sdp, previous)
    if agreed is not None:
        check_answer(sdp, agreed)
        check_agreement(agreed)
        assert agreed.audio.codec == previous.audio.codec
        assert (agreed.setup, agreed.remote_lite) == (previous.setup, previous.remote_lite)
        assert set(agreed.remote_fingerprints) == set(previous.remote_fingerprints)
        assert agreed.version == previous.version + 1


@given(edited_offers())
def test_what_can_be_answered_can_be_answered_again_with_nothing_new_but_the_version(sdp: str) -> None:
    first = answered(sdp)
    if first is not None:
        once = answer_offer(sdp, LOCAL, first)
        twice = answer_offer(sdp, LOCAL, once)
        versions = (f" {once.version} IN ", f" {twice.version} IN ")
        assert not once.restarts_ice
        assert once.answer_sdp.replace(*versions) == twice.answer_sdp
        assert replace(once, version=3, answer_sdp="") == replace(twice, answer_sdp="")


@given(st.text(max_size=400))
def test_any_text_behind_an_offer_is_refused_or_answered(text: str) -> None:
    answered(offers.read("S23") + text)
    answered(text)


def check_agreement(agreed: Negotiated) -> None:
    audio = agreed.audio
    for number in (audio.payload_type, audio.red_payload_type, audio.comfort_noise_payload_type):
        assert number is None or 0 <= number < 64 or 96 <= number < 128
    assert bool(agreed.remote_candidates) is agreed.remote_lite
    assert len(agreed.remote_candidates) <= MAX_CANDIDATES


# ---- offers with broken bytes ----------------------------------------------------------------------------------------

ODD_PIECES = [
    "\x00",
    "\r",
    "\n",
    "a=",
    "m=",
    ":",
    " ",
    "/",
    "-1",
    "99999999999999999999",
    "é",
    "\ud800",
    "\u2028",
    "0",
    "=",
]


def mutated(rng: random.Random, sdp: str) -> str:
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(sdp) + 1)
        match rng.randrange(5):
            case 0:
                sdp = sdp[:at] + rng.choice(ODD_PIECES) + sdp[at:]
            case 1:
                sdp = sdp[:at] + sdp[at + rng.randint(1, 40) :]
            case 2:
                lines = sdp.split("\r\n")
                lines.insert(rng.randrange(len(lines)), rng.choice(lines))
                sdp = "\r\n".join(lines)
            case 3:
                lines = sdp.split("\r\n")
                del lines[rng.randrange(len(lines))]
                sdp = "\r\n".join(lines)
            case _:
                sdp = sdp[:at] + chr(rng.randrange(256)) + sdp[at + 1 :]
    return sdp


def test_5000_mutated_offers_are_answered_or_refused_and_nothing_else() -> None:
    rng = random.Random(20)
    originals = [offers.read(name) for name in offers.names()]
    outcomes = []
    for index in range(5000):
        agreed = answered(mutated(rng, rng.choice(originals)), FIRST["S01"] if index % 4 == 0 else None)
        outcomes.append(agreed is not None)
        if agreed is not None:
            assert agreed.answer_sdp.isascii()
            assert agreed.answer_sdp.count("m=") >= 1
            assert not re.search(r"[^\r]\n|\r[^\n]|\x00", agreed.answer_sdp)
    assert 1000 < sum(outcomes) < 4000


# ---- offers that make work -------------------------------------------------------------------------------------------


def filled(head: str, line: str) -> str:
    """As many numbered lines as an offer may have."""
    sdp = head
    for number in range(offer_module.MAX_LINES - head.count("\n")):
        longer = sdp + line.format(number % 64) + "\r\n"
        if len(longer) > offer_module.MAX_SDP_BYTES:
            break
        sdp = longer
    return sdp


LITE = offers.read("S23").replace("a=candidate", "a=x")
AUDIO = "m=audio 9 UDP/TLS/RTP/SAVPF "


@pytest.mark.parametrize(
    "sdp",
    [
        filled("v=0\r\n" + AUDIO + "1 " * 300 + "\r\n", "a=fmtp:{} " + ";" * 30),
        filled("v=0\r\n" + (AUDIO + "1 " * 300 + "\r\n") * 16, "a=rtpmap:{} x/1"),
        filled(offers.read("S01"), "a=rtpmap:{} red/48000/2"),
        filled(offers.read("S01"), "a=fmtp:111 " + ";" * 300),
        filled(LITE, "a=candidate:1 1 udp 1{0} 203.0.113.{0} 9 typ host"),
        filled(LITE, "a=candidate:1 1 udp 1 " + ":" * 900 + "{} 9 typ host"),
        filled(offers.read("S01"), "a=group:BUNDLE " + "0 1 " * 200),
        filled(offers.read("S01"), "a=fingerprint:sha-256 " + ":".join(["AB"] * 32)),
        filled("v=0\r\n" + (AUDIO + "0\r\na=mid:{}\r\n") * 1, "a=mid:{}"),
    ],
    ids=["parameters", "sections", "red", "long fmtp", "candidates", "odd hosts", "groups", "fingerprints", "mids"],
)
def test_largest_offers_take_hardly_longer_than_a_common_one(sdp: str) -> None:
    """Work must not grow faster than the text: these are some ten times as long as what a browser sends."""
    assert len(sdp) <= offer_module.MAX_SDP_BYTES + 400
    took_s = min(time_to_answer_s(sdp) for _ in range(3))
    assert took_s < 50 * max(0.0005, min(time_to_answer_s(offers.read("S01")) for _ in range(3)))


def time_to_answer_s(sdp: str) -> float:
    began_s = time.process_time()
    answered(sdp)
    return time.process_time() - began_s
