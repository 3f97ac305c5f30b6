"""Packets in a row are decoded together where the codec lets them, and sound the same."""

from __future__ import annotations

import numpy as np
import pytest

from rtc_server.media.concealment import AudioDecoder
from rtc_server.media.frames import FloatSamples
from rtc_server.media.g711 import G711Decoder, G711Encoder
from rtc_server.media.g722 import G722Decoder, G722Encoder
from rtc_server.media.jitterbuffer import JitterBuffer
from rtc_server.media.jitterconfig import JitterConfig
from rtc_server.media.jittercounters import JitterCounters
from rtc_server.media.reassembly import Packet, Reassembly
from rtc_server.media.timescale import SpeechLevel

PACKET_SAMPLES = 480
SOUND = (0.3 * np.sin(np.arange(40 * PACKET_SAMPLES) * 0.07)).astype(np.float32)


class CountingDecoder(G711Decoder):
    def __init__(self) -> None:
        super().__init__("PCMU")
        self.decoded: list[int] = []

    def decode(self, payload: bytes) -> FloatSamples:
        self.decoded.append(len(payload))
        return super().decode(payload)


def payloads() -> list[bytes]:
    encoder = G711Encoder("PCMU")
    return [encoder.encode(packet) for packet in SOUND.reshape(-1, PACKET_SAMPLES)]


def reassembly(decoder: AudioDecoder) -> Reassembly:
    return Reassembly(decoder, SpeechLevel(), JitterCounters(), JitterConfig())


def packet(number: int, payload: bytes) -> Packet:
    return Packet(number * PACKET_SAMPLES, PACKET_SAMPLES, number, payload)


def test_packets_in_a_row_wait_for_each_other_and_count_as_there() -> None:
    decoder = CountingDecoder()
    subject = reassembly(decoder)
    for number, payload in enumerate(payloads()[:3]):
        subject.put(packet(number, payload))
    assert (decoder.decoded, subject.store.end, subject.end) == ([], 0, 3 * PACKET_SAMPLES)
    subject.fill(3 * PACKET_SAMPLES, None)
    assert (decoder.decoded, subject.store.end, subject.end) == ([480], 3 * PACKET_SAMPLES, 3 * PACKET_SAMPLES)


def test_a_whole_frame_of_packets_is_decoded_at_once() -> None:
    """So nothing piles up while nobody takes frames."""
    decoder = CountingDecoder()
    subject = reassembly(decoder)
    for number, payload in enumerate(payloads()):
        subject.put(packet(number, payload))
    assert decoder.decoded == [640] * 10


def test_a_row_goes_before_what_comes_behind_a_gap() -> None:
    decoder, sent = CountingDecoder(), payloads()
    subject = reassembly(decoder)
    for number in (0, 1, 4, 3, 2):
        subject.put(packet(number, sent[number]))
    assert decoder.decoded == [320, 160, 160, 160] and subject.store.end == 5 * PACKET_SAMPLES


def test_comfort_noise_ends_a_row() -> None:
    decoder = CountingDecoder()
    subject = reassembly(decoder)
    subject.put(packet(0, payloads()[0]))
    subject.put(Packet(PACKET_SAMPLES, 0, 1, b"", noise_level=0.01))
    assert decoder.decoded == [160] and subject.in_silence


@pytest.mark.parametrize("codec", ["PCMU", "PCMA", "G722"])
def test_a_row_sounds_as_its_packets_one_by_one(codec: str) -> None:
    encoder = G722Encoder() if codec == "G722" else G711Encoder("PCMA" if codec == "PCMA" else "PCMU")
    sent = [encoder.encode(packet) for packet in SOUND.reshape(-1, PACKET_SAMPLES)]

    def decoder() -> AudioDecoder:
        return G722Decoder() if codec == "G722" else G711Decoder("PCMA" if codec == "PCMA" else "PCMU")

    alone, together = decoder(), decoder()
    one_by_one = np.concatenate([alone.decode(payload) for payload in sent])
    rows = np.concatenate([together.decode(b"".join(sent[at : at + 4])) for at in range(0, len(sent), 4)])
    np.testing.assert_allclose(rows, one_by_one, atol=1e-6)


def test_frames_are_the_same_whether_packets_wait_or_not() -> None:
    """With a lost packet, one out of order, a copy and a frame that nobody took."""

    def frames(joins_packets: bool) -> list[FloatSamples]:
        decoder = G711Decoder("PCMU")
        decoder.joins_packets = joins_packets
        buffer = JitterBuffer(lambda: decoder, 8000)
        heard: list[FloatSamples] = []
        order = [0, 1, 2, 3, 4, 6, 5, 5, 7, 8, 9, 11, 12, *range(13, 40)]
        sent = payloads()
        for place, number in enumerate(order):
            now = 5.0 + place * 0.02
            buffer.put(now, number, number * 160, sent[number])
            if place % 4 == 3:
                heard.append(buffer.take(now + 0.005))
            if place == 25:
                buffer.skip(1)
        return heard

    for waited, at_once in zip(frames(True), frames(False), strict=True):
        np.testing.assert_allclose(waited, at_once, atol=1e-6)
