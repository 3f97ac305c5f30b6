import pytest
from aiortc import RTCCertificate
from aiortc.sdp import SessionDescription

from rtc_server.bench.sdp import first_origin, make_offer, next_origin, read_answer
from rtc_server.errors import PeerError

ANSWER = """v=0
o=- 1 2 IN IP4 127.0.0.1
s=-
t=0 0
a=ice-lite
a=group:BUNDLE 0 1
m=audio 9 UDP/TLS/RTP/SAVPF 96
c=IN IP4 0.0.0.0
a=mid:0
a=ice-ufrag:abcd
a=ice-pwd:0123456789012345678901
a=fingerprint:sha-256 00:11
a=setup:passive
a=candidate:1 1 udp 2130706431 192.0.2.1 9000 typ host
a=candidate:2 1 udp 2130706430 2001:db8::1 9000 typ host
a=candidate:3 1 udp 2130706429 x.local 9000 typ host
a=candidate:4 1 tcp 2130706428 192.0.2.1 9000 typ host tcptype passive
a=rtcp-mux
a=rtpmap:96 opus/48000/2
m=application 9 UDP/DTLS/SCTP webrtc-datachannel
c=IN IP4 0.0.0.0
a=mid:1
a=sctp-port:5001
""".replace("\n", "\r\n")


def test_an_offer_has_an_opus_section_and_a_data_channel_when_asked() -> None:
    certificate = RTCCertificate.generateCertificate()
    both = SessionDescription.parse(make_offer(certificate, "abcd", "p" * 22, events=True))
    assert [media.kind for media in both.media] == ["audio", "application"]
    assert both.media[0].ice.usernameFragment == "abcd"
    assert both.media[0].dtls is not None and both.media[0].dtls.role == "auto"
    alone = SessionDescription.parse(make_offer(certificate, "abcd", "p" * 22, events=False))
    assert [media.kind for media in alone.media] == ["audio"]


def test_an_answer_gives_what_a_call_needs() -> None:
    remote = read_answer(ANSWER)
    assert (remote.ufrag, remote.payload_type, remote.sctp_port) == ("abcd", 96, 5001)
    assert remote.candidates == (("192.0.2.1", 9000),)
    assert not remote.takes_client_role
    assert read_answer(ANSWER.replace("setup:passive", "setup:active")).takes_client_role


def test_ipv6_is_used_where_there_is_nothing_else() -> None:
    answer = "".join(line for line in ANSWER.splitlines(keepends=True) if "192.0.2.1" not in line)
    assert read_answer(answer).candidates == (("2001:db8::1", 9000),)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("m=audio 9", "m=audio 0", "no audio"),
        ("opus/48000/2", "PCMU/8000", "Opus"),
        ("a=candidate", "a=nocandidate", "candidate"),
        ("a=ice-ufrag", "a=x", "credentials"),
        ("m=audio 9 UDP", "m=audio nine UDP", "SDP"),
    ],
)
def test_an_answer_that_carries_no_call_says_why(old: str, new: str, reason: str) -> None:
    with pytest.raises(PeerError, match=reason):
        read_answer(ANSWER.replace(old, new))


def test_redundant_audio_is_offered_around_opus_when_asked() -> None:
    certificate = RTCCertificate.generateCertificate()
    offer = make_offer(certificate, "abcd", "p" * 22, events=False, red=True)
    assert "m=audio 9 UDP/TLS/RTP/SAVPF 111 63\r\n" in offer
    assert "a=rtpmap:63 red/48000/2\r\na=fmtp:63 111/111\r\n" in offer
    assert "red" not in make_offer(certificate, "abcd", "p" * 22, events=False)


def test_redundant_audio_and_bitrate_are_read_from_the_answer() -> None:
    answer = ANSWER.replace("SAVPF 96", "SAVPF 63 96").replace(
        "a=rtpmap:96", "a=rtpmap:63 red/48000/2\r\na=fmtp:63 96/96\r\na=fmtp:96 maxaveragebitrate=40000\r\na=rtpmap:96"
    )
    remote = read_answer(answer)
    assert (remote.payload_type, remote.red_payload_type, remote.bitrate_bps) == (96, 63, 40_000)
    plain = read_answer(ANSWER)
    assert (plain.red_payload_type, plain.bitrate_bps) == (None, 32_000)
    assert read_answer(answer.replace("=40000", "=lots")).bitrate_bps == 32_000
    assert read_answer(answer.replace("=40000", "=1")).bitrate_bps == 6000


def test_a_later_offer_keeps_its_session_and_counts_up() -> None:
    certificate = RTCCertificate.generateCertificate()
    first = first_origin()
    origins = [
        next(
            line for line in make_offer(certificate, "abcd", "p" * 22, True, origin=one).splitlines() if line[0] == "o"
        )
        for one in (first, next_origin(first))
    ]
    (session, version), (later_session, later_version) = (line.split()[1:3] for line in origins)
    assert session == later_session and int(later_version) == int(version) + 1
