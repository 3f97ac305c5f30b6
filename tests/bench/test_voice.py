import numpy as np
import pytest

from rtc_server.bench.signals import PACKET_SAMPLES
from rtc_server.bench.speech import load_speech
from rtc_server.bench.stream import OutgoingStream
from rtc_server.bench.voice import LoopVoice, SpeakingVoice
from rtc_server.media import red, rtcp, rtp
from rtc_server.media.opuspacket import has_fec


def test_a_loop_goes_round_from_where_it_begins() -> None:
    voice = LoopVoice([b"a", b"b", b"c"], offset_packets=2)
    voice.agreed(32_000)
    voice.loss_reported(0.5)
    assert [voice.next_payload() for _ in range(4)] == [b"c", b"a", b"b", b"c"]


def test_speech_lies_where_it_was_said_and_the_room_around_it_is_quiet() -> None:
    voice = SpeakingVoice()
    voice.agreed(40_000)
    for _ in range(10):
        voice.next_payload()
    speech = load_speech().without_pauses(1.0)
    at = voice.say(speech)
    for _ in range(70):
        voice.next_payload()
    clean = voice.clean()
    assert at == 10 * PACKET_SAMPLES and clean.size == 80 * PACKET_SAMPLES
    assert np.abs(clean[:at]).max() < 0.01 and np.abs(clean[at + speech.size + 1000 :]).max() < 0.01
    shifts = [float(speech[1000:20_000] @ clean[at + 1000 + shift : at + 20_000 + shift]) for shift in range(400)]
    assert np.argmax(shifts) < 200  # the encoder's look-ahead


@pytest.mark.parametrize("reported", [None, 0.0, 0.1, 1.0])
def test_speech_has_fec_whatever_is_reported(reported: float | None) -> None:
    voice = SpeakingVoice()
    voice.agreed(40_000)
    for _ in range(0 if reported is None else 40):
        voice.loss_reported(reported or 0.0)
    voice.say(load_speech().without_pauses(2.0))
    assert np.mean([has_fec(voice.next_payload()) for _ in range(100)]) > 0.6


def packets_of(stream: OutgoingStream, count: int) -> list[rtp.RtpPacket]:
    return [rtp.RtpPacket.parse(stream.next_packet()) for _ in range(count)]


def test_a_stream_counts_its_packets_up() -> None:
    stream = OutgoingStream(LoopVoice([b"a", b"b"]))
    stream.agreed(111, None, 32_000)
    first, second = packets_of(stream, 2)
    assert (first.payload, second.payload, first.payload_type) == (b"a", b"b", 111)
    assert second.sequence_number == first.sequence_number + 1 and second.timestamp == first.timestamp + 960
    assert first.ssrc == second.ssrc == stream.ssrc and stream.sent == 2


def test_redundant_packets_carry_the_one_before() -> None:
    stream = OutgoingStream(LoopVoice([b"a", b"b", b"c"]))
    stream.agreed(111, 63, 32_000)
    packets = packets_of(stream, 3)
    assert {packet.payload_type for packet in packets} == {63}
    assert [red.unwrap(packet.payload) for packet in packets] == [
        [(111, 0, b"a")],
        [(111, 0, b"b"), (111, 960, b"a")],
        [(111, 0, b"c"), (111, 960, b"b")],
    ]


def test_the_receivers_report_of_this_stream_is_taken_in() -> None:
    class Heard(LoopVoice):
        losses: list[float] = []

        def loss_reported(self, loss: float) -> None:
            self.losses.append(loss)

    voice = Heard([b"a"])
    stream = OutgoingStream(voice)
    blocks = [rtcp.ReportBlock(ssrc, 64, 12, 100, 0, 0, 0) for ssrc in (stream.ssrc ^ 1, stream.ssrc)]
    stream.reported([rtcp.ReceiverReport(1, tuple(blocks)), rtcp.Bye((1,))])
    assert voice.losses == [0.25] and stream.lost == 12
