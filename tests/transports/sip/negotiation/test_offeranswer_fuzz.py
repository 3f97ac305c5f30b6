"""Hostile descriptions: whatever comes is taken or refused, nothing else, and soon."""

from __future__ import annotations

import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtc_server.transports.sip.negotiation import sdp
from rtc_server.transports.sip.negotiation.agreedmedia import SrtpPolicy
from rtc_server.transports.sip.negotiation.codecs import choose_codec
from rtc_server.transports.sip.negotiation.offeranswer import MediaNegotiation
from rtc_server.transports.sip.negotiation.sdp import MediaRefused, read_description
from tests.transports.sip.negotiation import bodies
from tests.transports.sip.negotiation.bodies import ALL_CODECS, CRYPTO, KEY, body, call, crlf_lines

policies = st.sampled_from(["never", "accept", "require"])

media_lines = st.builds(
    "m={} {} {} {}".format,
    st.sampled_from(["audio"] * 4 + ["video", "image"]),
    st.sampled_from([0, 9, 4000, 65535]),
    st.sampled_from(["RTP/AVP", "RTP/SAVP", "RTP/SAVPF", "UDP/TLS/RTP/SAVPF", "udptl"]),
    st.lists(st.sampled_from(["0", "8", "9", "13", "72", "96", "97", "101", "128", "t38"]), min_size=1).map(" ".join),
)
encodings = ["opus/48000/2", "opus/8000", "PCMU/8000", "G722/16000", "CN/8000", "telephone-event/8000", "x/1"]
attribute_lines = st.sampled_from(
    [f"a=rtpmap:{number} {encoding}" for number in (0, 96, 97, 101) for encoding in encodings]
    + ["a=sendonly", "a=recvonly", "a=inactive", "a=rtcp-mux", "a=rtcp:4007", "a=rtcp:1 IN IP4 x", "a=maxptime:10"]
    + ["a=fmtp:96 maxaveragebitrate=9", "a=fmtp:96", "a=crypto", "a=", "c=IN IP4 0.0.0.0", "c=IN IP4 h", "c=IN IP6 ::1"]
    + [CRYPTO, f"a=crypto:9 AEAD_AES_128_GCM inline:{KEY}", "a=crypto:1 AES_CM_128_HMAC_SHA1_32 inline:===="]
)
descriptions = st.lists(media_lines | attribute_lines, max_size=12).map(lambda found: body(*found))


def check(negotiation: MediaNegotiation, offer: bytes, answer: bytes, srtp: SrtpPolicy) -> None:
    """What holds for every answer there is."""
    media = negotiation.agreed
    assert media is not None
    crlf_lines(answer)
    offered, answered = read_description(offer), read_description(answer)
    assert [(x.kind, x.profile) for x in answered] == [(x.kind, x.profile) for x in offered]
    live = [index for index, section in enumerate(answered) if section.port]
    if not live:
        assert (media.direction, media.remote_rtp, media.remote_rtcp) == ("inactive", None, None)
        return
    (index,) = live
    section = answered[index]
    assert set(section.formats) <= {str(int(text)) for text in offered[index].formats if text.isdigit()}
    assert choose_codec(section, ALL_CODECS, rtcp_mux=media.rtcp_mux).audio.payload_type == media.audio.payload_type
    assert (media.srtp is not None) == ("SAVP" in section.profile) == bool(section.values("crypto"))
    assert (media.srtp is None or srtp != "never") and (media.srtp is not None or srtp != "require")
    assert media.remote_rtp is None or media.remote_rtp[0] not in ("0.0.0.0", "::")


@given(st.lists(descriptions, min_size=1, max_size=4), policies)
def test_any_offers_one_after_the_other_are_answered_by_the_book_or_refused(
    offers: list[bytes], srtp: SrtpPolicy
) -> None:
    negotiation = call(srtp=srtp)
    for offer in offers:
        before = negotiation.agreed
        try:
            answer = negotiation.answer_offer(offer)
        except MediaRefused as refusal:
            assert refusal.status in (400, 488)
            assert negotiation.agreed is before
        else:
            check(negotiation, offer, answer, srtp)


@given(st.lists(descriptions, min_size=1, max_size=4), policies)
def test_any_answers_are_taken_or_refused(answers: list[bytes], srtp: SrtpPolicy) -> None:
    negotiation = call(srtp=srtp)
    for answer in answers:
        crlf_lines(negotiation.make_offer())
        before = negotiation.agreed
        try:
            media = negotiation.take_answer(answer)
        except MediaRefused as refusal:
            assert refusal.status in (400, 488)
            assert negotiation.agreed is before
        else:
            assert (media.srtp is not None) >= (srtp == "require")


@given(st.integers(0, 10_000))
def test_descriptions_of_real_phones_with_damage_are_answered_or_refused(seed: int) -> None:
    chance = random.Random(seed)
    offer = bytearray(bodies.read(chance.choice(bodies.names())))
    for _ in range(chance.randrange(1, 8)):
        at = chance.randrange(len(offer))
        offer[at : at + chance.randrange(3)] = chance.randbytes(chance.randrange(3))
    negotiation = call()
    try:
        crlf_lines(negotiation.answer_offer(bytes(offer)))
    except MediaRefused as refusal:
        refusal.warning("192.0.2.7").encode("ascii")


@given(st.binary(max_size=200))
def test_any_bytes_behind_a_version_are_answered_or_refused(junk: bytes) -> None:
    with pytest.raises(MediaRefused):
        call().answer_offer(junk)
    with pytest.raises(MediaRefused):
        call().answer_offer(b"v=0\r\n" + junk)


@pytest.mark.parametrize(
    "line",
    [
        "a=rtpmap:0 " + " " * 900 + "x",
        "a=crypto:1 X inline:x" + " x" * 400,
        "a=rtcp:" + " 1" * 400,
        "a=fmtp:96 " + ";" * 900,
    ],
)
def test_the_largest_description_takes_no_time(line: str) -> None:
    count = (sdp.MAX_SDP_BYTES - 500) // (len(line) + 2)
    offer = body("m=audio 4000 RTP/SAVP 96", "a=rtpmap:96 opus/48000/2", CRYPTO, *[line] * count)
    began = time.process_time()
    call().answer_offer(offer)
    assert time.process_time() - began < 0.1
