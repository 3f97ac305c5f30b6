"""Answers to offers of real phones: which section, which address, what is refused."""

from __future__ import annotations

import pytest

from rtc_server.transports.sip.negotiation.agreedmedia import AgreedMedia, LocalMedia
from rtc_server.transports.sip.negotiation.offeranswer import MediaNegotiation
from rtc_server.transports.sip.negotiation.sdp import MediaRefused
from tests.transports.sip.negotiation.bodies import LOCAL, body, call, direction, lines, media_lines, read, version

AUDIO = "m=audio 4000 RTP/AVP 0"


def refusal(negotiation: MediaNegotiation, offer: bytes) -> MediaRefused:
    with pytest.raises(MediaRefused) as caught:
        negotiation.answer_offer(offer)
    return caught.value


def agreed(*media: str, address: str = "IN IP4 198.51.100.7", local: LocalMedia = LOCAL) -> AgreedMedia:
    negotiation = call(local=local)
    negotiation.answer_offer(body(*media, address=address))
    assert negotiation.agreed is not None
    return negotiation.agreed


def test_a_phone_is_answered_with_one_codec_and_its_events() -> None:
    negotiation = call()
    answer = negotiation.answer_offer(read("phone_with_pcma_first"))
    assert lines(answer)[2:] == [
        "s=-",
        "c=IN IP4 192.0.2.7",
        "t=0 0",
        "m=audio 40000 RTP/AVP 8 101",
        "a=rtpmap:8 PCMA/8000",
        "a=rtpmap:101 telephone-event/8000",
        "a=fmtp:101 0-15",
        "a=ptime:20",
        "a=sendrecv",
    ]
    media = negotiation.agreed
    assert media is not None
    assert (media.audio.codec, media.audio.payload_type, media.audio.clock_hz) == ("PCMA", 8, 8000)
    assert (media.remote_rtp, media.remote_rtcp) == (("198.51.100.7", 42236), ("198.51.100.7", 42237))
    assert media.expects_audio
    assert media.sends_audio
    assert media.srtp is None


def test_a_private_address_is_told_as_it_is() -> None:
    """Whether packets come from there is for the RTP port to see."""
    negotiation = call()
    negotiation.answer_offer(read("private_address"))
    assert negotiation.agreed is not None
    assert negotiation.agreed.remote_rtp == ("10.9.33.103", 14264)
    assert negotiation.agreed.audio.codec == "G722"


# ---- sections --------------------------------------------------------------------------------------------------------


def test_other_sections_are_answered_with_port_0_in_their_places() -> None:
    answer = call().answer_offer(
        body(
            "m=video 5000 RTP/AVP 31 32",
            "m=audio 4000 RTP/AVP 0",
            "m=audio 4002 RTP/AVP 8",
            "m=message 6000 TCP/MSRP *",
        )
    )
    assert media_lines(answer) == [
        "m=video 0 RTP/AVP 31 32",
        "m=audio 40000 RTP/AVP 0",
        "m=audio 0 RTP/AVP 8",
        "m=message 0 TCP/MSRP *",
    ]


def test_the_first_audio_section_that_is_any_good_is_taken() -> None:
    answer = call().answer_offer(
        body(
            "m=audio 0 RTP/AVP 0",
            "m=audio 4000 RTP/AVP 18",
            "m=audio 4002 UDP/TLS/RTP/SAVP 0",
            "m=audio 4004 RTP/AVP 8",
        )
    )
    assert [line.split()[1] for line in media_lines(answer)] == ["0", "0", "0", "40000"]


def test_feedback_profiles_are_taken_as_they_are() -> None:
    assert media_lines(call().answer_offer(body("m=audio 4000 RTP/AVPF 0"))) == ["m=audio 40000 RTP/AVPF 0"]


@pytest.mark.parametrize(
    ("offer", "status", "code"),
    [
        (b"", 400, 399),
        (body("m=video 5000 RTP/AVP 31"), 488, 304),
        (body(), 488, 304),
        (body("m=audio 0 RTP/AVP 0"), 488, 304),
        (read("fax_2_t38"), 488, 304),
        (body("m=audio 4000 UDP/TLS/RTP/SAVPF 0"), 488, 302),
        (body("m=audio 4000 TCP/RTP/AVP 0"), 488, 302),
        (read("codec_change_3_g729"), 488, 305),
        (read("dtls_srtp_with_ice"), 488, 306),
        (body(AUDIO, address="IN IP6 2001:db8::1"), 488, 301),
        (body(AUDIO, address="IN IP4 224.2.0.1/127"), 488, 330),
        (body(AUDIO, address="IN IP4 255.255.255.255"), 488, 330),
        (body(AUDIO, address="IN IP6 fe80::1%eth0"), 488, 330),
        (body(AUDIO, address="IN IP4 300.1.2.3"), 400, 399),
        (body(AUDIO, address="IN IP4 1.2.3"), 400, 399),
        (body(AUDIO, address="IN IP6 2001:::1"), 400, 399),
        (b"v=0\r\nm=audio 4000 RTP/AVP 0\r\n", 400, 399),
    ],
)
def test_what_cannot_be_taken_is_refused_with_the_reason(offer: bytes, status: int, code: int) -> None:
    negotiation = call()
    refused = refusal(negotiation, offer)
    assert (refused.status, refused.warning_code) == (status, code)
    assert refused.warning("192.0.2.7").startswith(f'{code} 192.0.2.7 "')
    assert negotiation.agreed is None


@pytest.mark.parametrize(
    ("media", "text"),
    [
        (["m=audio 0 RTP/AVP 0"], "the audio has port 0, which means that there is none"),
        (["m=video 4002 RTP/AVP 96", "m=audio 0 RTP/AVP 0"], "the audio has port 0, which means that there is none"),
        (["m=video 4002 RTP/AVP 96"], "only audio is taken, and this offers video RTP/AVP"),
        (
            ["m=audio 4000 RTP/AVP 96 97"],
            "none of opus, G722, PCMU, PCMA in payload types without a=rtpmap: 96 97",
        ),
        (
            ["m=audio 4000 RTP/AVP 18 97"],
            "none of opus, G722, PCMU, PCMA in g729/8000, payload types without a=rtpmap: 97",
        ),
    ],
)
def test_a_refusal_says_what_is_missing(media: list[str], text: str) -> None:
    assert str(refusal(call(), body(*media))) == text


def test_a_refusal_says_what_was_offered() -> None:
    assert str(refusal(call(), read("codec_change_3_g729"))) == (
        "none of opus, G722, PCMU, PCMA in g729/8000, telephone-event/8000"
    )


# ---- addresses -------------------------------------------------------------------------------------------------------


def test_the_address_of_the_section_comes_before_that_of_the_session() -> None:
    assert agreed(AUDIO, "c=IN IP4 203.0.113.9").remote_rtp == ("203.0.113.9", 4000)


def test_ipv6_is_spoken_with_ipv6() -> None:
    negotiation = call(local=LocalMedia("2001:db8::7", 40_000, 40_001))
    answer = negotiation.answer_offer(body(AUDIO, address="IN IP6 2001:DB8:0::1"))
    assert negotiation.agreed is not None
    assert negotiation.agreed.remote_rtp == ("2001:db8::1", 4000)
    assert "c=IN IP6 2001:db8::7" in lines(answer)


def test_ipv4_in_the_clothes_of_ipv6_is_ipv4() -> None:
    assert agreed(AUDIO, address="IN IP6 ::ffff:198.51.100.7").remote_rtp == ("198.51.100.7", 4000)


def test_a_host_name_is_not_resolved() -> None:
    media = agreed(AUDIO, address="IN IP4 media.example.net")
    assert (media.remote_rtp, media.remote_rtcp, media.direction) == (None, None, "sendrecv")


@pytest.mark.parametrize(
    ("line", "rtcp"),
    [
        ("a=rtcp:4007", ("198.51.100.7", 4007)),
        ("a=rtcp:4007 IN IP4 203.0.113.9", ("203.0.113.9", 4007)),
        ("a=rtcp:4007 IN IP4 224.0.0.1", ("198.51.100.7", 4001)),
        ("a=rtcp:0", ("198.51.100.7", 4001)),
        ("a=rtcp:x", ("198.51.100.7", 4001)),
        ("a=rtcp-mux", ("198.51.100.7", 4000)),
    ],
)
def test_rtcp_goes_where_the_section_says_else_one_port_above(line: str, rtcp: tuple[str, int]) -> None:
    assert agreed(AUDIO, line).remote_rtcp == rtcp


def test_there_is_no_port_above_the_last() -> None:
    assert agreed("m=audio 65535 RTP/AVP 0").remote_rtcp is None


def test_one_port_for_rtp_and_rtcp_is_answered_where_it_is_offered() -> None:
    negotiation = call()
    assert "a=rtcp-mux" in lines(negotiation.answer_offer(body(AUDIO, "a=rtcp-mux")))
    assert negotiation.agreed is not None
    assert negotiation.agreed.rtcp_mux
    assert "a=rtcp-mux" not in lines(negotiation.answer_offer(body(AUDIO)))


def test_our_rtcp_port_is_told_where_it_is_not_the_next_one() -> None:
    local = LocalMedia("192.0.2.7", 40_000, 40_010)
    assert "a=rtcp:40010" in lines(call(local=local).answer_offer(body(AUDIO)))
    assert "a=rtcp:40010" not in lines(call(local=local).answer_offer(body(AUDIO, "a=rtcp-mux")))


# ---- directions and times --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offered", "answered"),
    [("sendrecv", "sendrecv"), ("sendonly", "recvonly"), ("recvonly", "sendonly"), ("inactive", "inactive")],
)
def test_a_direction_is_answered_by_its_mirror(offered: str, answered: str) -> None:
    negotiation = call()
    assert direction(negotiation.answer_offer(body(AUDIO, f"a={offered}"))) == answered
    assert negotiation.agreed is not None
    assert negotiation.agreed.direction == answered


@pytest.mark.parametrize(
    ("line", "ptime_ms"),
    [("a=ptime:60", 20), ("a=maxptime:140", 20), ("a=maxptime:20", 20), ("a=maxptime:10", 10), ("a=maxptime:0", 20)],
)
def test_packets_are_as_long_as_the_other_end_can_take(line: str, ptime_ms: int) -> None:
    assert agreed(AUDIO, line).ptime_ms == ptime_ms


# ---- later offers ----------------------------------------------------------------------------------------------------


def test_a_refreshing_offer_gets_the_same_answer_byte_for_byte() -> None:
    negotiation = call()
    first = negotiation.answer_offer(read("hold_1_invite"))
    before = negotiation.agreed
    assert negotiation.answer_offer(read("hold_1_invite")) == first
    assert negotiation.agreed == before


def test_what_changes_has_a_higher_version_and_the_same_session() -> None:
    negotiation = call()
    answers = [negotiation.answer_offer(read(name)) for name in ("codec_change_1_pcma", "codec_change_2_pcmu")]
    assert [version(answer) for answer in answers] == [1, 2]
    assert lines(answers[0])[1].split()[1] == lines(answers[1])[1].split()[1]


def test_a_codec_that_is_taken_out_of_the_offer_is_changed() -> None:
    negotiation = call()
    negotiation.answer_offer(read("codec_change_1_pcma"))
    answer = negotiation.answer_offer(read("codec_change_2_pcmu"))
    assert media_lines(answer) == ["m=audio 40000 RTP/AVP 0 101"]
    assert negotiation.agreed is not None
    assert negotiation.agreed.audio.codec == "PCMU"


def test_a_codec_in_use_stays_while_it_is_offered() -> None:
    negotiation = call()
    negotiation.answer_offer(body("m=audio 4000 RTP/AVP 8"))
    negotiation.answer_offer(body("m=audio 4000 RTP/AVP 0 8"))
    assert negotiation.agreed is not None
    assert negotiation.agreed.audio.codec == "PCMA"


@pytest.mark.parametrize(
    ("names", "refused"),
    [(("codec_change_1_pcma", "codec_change_2_pcmu"), "codec_change_3_g729"), (("fax_1_audio",), "fax_2_t38")],
)
def test_a_refused_offer_changes_nothing(names: tuple[str, ...], refused: str) -> None:
    negotiation = call()
    answers = [negotiation.answer_offer(read(name)) for name in names]
    before = negotiation.agreed
    assert refusal(negotiation, read(refused)).status == 488
    assert negotiation.agreed == before
    assert negotiation.answer_offer(read(names[-1])) == answers[-1]


def test_fax_beside_audio_that_is_taken_away_is_refused() -> None:
    negotiation = call()
    negotiation.answer_offer(body(AUDIO))
    offer = body("m=audio 0 RTP/AVP 0", "m=image 5000 udptl t38")
    assert refusal(negotiation, offer).status == 488


def test_the_audio_section_in_use_is_kept_among_several() -> None:
    negotiation = call()
    negotiation.answer_offer(body("m=audio 0 RTP/AVP 0", "m=audio 4002 RTP/AVP 0"))
    answer = negotiation.answer_offer(body("m=audio 4000 RTP/AVP 0", "m=audio 4002 RTP/AVP 0"))
    assert media_lines(answer) == ["m=audio 0 RTP/AVP 0", "m=audio 40000 RTP/AVP 0"]
