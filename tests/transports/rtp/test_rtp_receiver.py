from __future__ import annotations

import json
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtc_server.media import red
from rtc_server.media.audioformat import AudioFormat
from rtc_server.media.frames import FRAME_S
from rtc_server.media.red import Block, MalformedRed
from rtc_server.media.rtp import RtpPacket
from rtc_server.transports.rtp.receiver import TOLD_LOSS, RtpReceiver, numbered
from tests.media.speech import DATA, encoded, speech
from tests.transports.rtp.sinks import Noise, Put, Sink

OPUS, RED, PCMU, NOISE, TELEPHONE_EVENT, SSRC = 111, 63, 0, 13, 126, 77
PLAIN = AudioFormat("opus", OPUS, 48_000)
COPIED = AudioFormat("opus", OPUS, 48_000, red_payload_type=RED)
TELEPHONE = AudioFormat("PCMU", PCMU, 8_000, comfort_noise_payload_type=NOISE)
OPUS_20_MS = bytes([0x78, 0x83, 0x10])
OPUS_60_MS = bytes([0x58, 0x83, 0x10])


class Rig:
    def __init__(self, audio: AudioFormat) -> None:
        self.receiver = RtpReceiver(audio)
        self.sink = Sink()
        self.receiver.jitter_buffer = self.sink  # type: ignore[assignment]

    def receive(self, payload: bytes, kind: int, sequence_number: int = 7, timestamp: int = 9600) -> bool:
        return self.receiver.receive(50.0, RtpPacket(kind, sequence_number, timestamp, SSRC, payload))

    @property
    def counted(self) -> bool:
        return self.receiver.statistics.report(50.0) is not None


def test_audio_reaches_the_jitter_buffer() -> None:
    rig = Rig(PLAIN)
    assert rig.receive(b"audio", OPUS)
    assert rig.sink.puts == [Put(7, 9600, b"audio")] and rig.sink.ssrcs == {SSRC}


@pytest.mark.parametrize("audio", [PLAIN, COPIED, TELEPHONE])
def test_empty_packet_is_counted_and_is_no_audio(audio: AudioFormat) -> None:
    rig = Rig(audio)
    assert not rig.receive(b"", audio.payload_type)
    assert rig.counted and not rig.sink.puts


@pytest.mark.parametrize(
    ("audio", "kind"),
    [(PLAIN, RED), (PLAIN, NOISE), (COPIED, NOISE), (TELEPHONE, RED), (TELEPHONE, OPUS), (COPIED, TELEPHONE_EVENT)],
)
def test_what_was_not_agreed_on_is_nothing(audio: AudioFormat, kind: int) -> None:
    rig = Rig(audio)
    assert not rig.receive(b"\x00\x01\x02\x03", kind)
    assert not rig.counted and not rig.sink.puts and not rig.sink.noises


def test_telephone_events_between_the_audio_are_no_loss() -> None:
    rig = Rig(COPIED)
    for number, kind in ((7, OPUS), (8, TELEPHONE_EVENT), (9, TELEPHONE_EVENT), (10, OPUS)):
        rig.receive(b"\x05\x0a\x00\xa0", kind, number)
    report = rig.receiver.report(1.0)
    assert report is not None and (report.packets_lost, report.highest_sequence) == (0, 10)


def test_later_offer_changes_the_payload_types() -> None:
    rig = Rig(COPIED)
    rig.receiver.agree(replace(PLAIN, payload_type=96))
    assert rig.receive(b"audio", 96)
    assert not rig.receive(b"audio", OPUS) and not rig.receive(b"\x6faudio", RED)


def test_comfort_noise_is_told_to_the_jitter_buffer_and_counts_as_audio() -> None:
    rig = Rig(TELEPHONE)
    assert rig.receive(bytes([64, 1, 2]), NOISE)
    assert rig.sink.noises == [Noise(7, 9600, -64)] and rig.sink.ssrcs == {SSRC} and not rig.sink.puts
    assert not rig.receive(b"", NOISE)


# RED


def test_copies_come_behind_the_primary_with_their_own_numbers() -> None:
    rig = Rig(COPIED)
    payload = red.wrap(OPUS, OPUS_20_MS + b"c", [(960, OPUS_20_MS + b"b"), (1920, OPUS_20_MS + b"a")])
    assert rig.receive(payload, RED)
    assert rig.sink.puts == [
        Put(7, 9600, OPUS_20_MS + b"c"),
        Put(6, 8640, OPUS_20_MS + b"b", True),
        Put(5, 7680, OPUS_20_MS + b"a", True),
    ]


def test_numbers_and_timestamps_of_copies_wrap() -> None:
    rig = Rig(COPIED)
    rig.receive(red.wrap(OPUS, OPUS_20_MS, [(960, OPUS_20_MS), (1920, OPUS_20_MS)]), RED, 1, 960)
    assert [put[:2] for put in rig.sink.puts] == [(1, 960), (0, 0), (65_535, 2**32 - 960)]


def test_both_payload_types_are_taken_at_any_time() -> None:
    rig = Rig(COPIED)
    assert rig.receive(OPUS_20_MS, OPUS) and rig.receive(red.wrap(OPUS, OPUS_20_MS), RED)
    assert rig.sink.puts == [Put(7, 9600, OPUS_20_MS)] * 2


def test_copy_counts_though_the_primary_is_empty_or_of_another_kind() -> None:
    rig = Rig(COPIED)
    assert rig.receive(red.wrap(OPUS, b"", [(960, OPUS_20_MS)]), RED)
    other_kind = bytes([0x80 | OPUS, 0x0F, 0x00, 0x03, NOISE]) + OPUS_20_MS + b"\x40"
    assert rig.receive(other_kind, RED)
    assert rig.sink.puts == [Put(6, 8640, OPUS_20_MS, True)] * 2


def test_red_inside_red_and_other_kinds_are_not_looked_into() -> None:
    rig = Rig(COPIED)
    inner = red.wrap(OPUS, OPUS_20_MS)
    nested = bytes([0x80 | RED, 0x0F, 0x00, len(inner), RED]) + inner + inner
    assert not rig.receive(nested, RED)
    assert not rig.sink.puts


def test_malformed_copies_are_refused_though_the_packet_counts() -> None:
    rig = Rig(COPIED)
    with pytest.raises(MalformedRed):
        rig.receive(b"\xef\x0f\x00\x06\x6fshort", RED)
    assert rig.counted and not rig.sink.puts


@pytest.mark.parametrize(
    ("copies", "steps"),
    [
        ([(960, OPUS_20_MS)], [1]),
        ([(960, OPUS_20_MS), (1920, OPUS_20_MS), (2880, OPUS_20_MS)], [1, 2, 3]),
        ([(1920, OPUS_20_MS)], [2]),
        ([(2880, OPUS_60_MS), (5760, OPUS_60_MS)], [1, 2]),
        ([(960, OPUS_20_MS), (3840, OPUS_60_MS)], [1, 2]),  # packets became shorter
        ([(500, OPUS_20_MS)], []),
        ([(960, OPUS_60_MS)], []),
        ([(960, OPUS_20_MS), (2400, OPUS_20_MS), (3360, OPUS_20_MS)], [1]),
        ([(960, OPUS_20_MS), (960, OPUS_20_MS)], [1]),
        ([(0, OPUS_20_MS)], []),
        ([(960, b"\x03")], []),  # no Opus
    ],
)
def test_number_of_a_copy_follows_from_whole_durations_or_is_not_guessed(
    copies: list[tuple[int, bytes]], steps: list[int]
) -> None:
    blocks = [Block(OPUS, offset, payload) for offset, payload in copies]
    assert [step for step, _ in numbered(blocks, 48_000)] == steps


def heard(packets: list[tuple[int, int, bytes]], lost: set[int]) -> tuple[np.ndarray, RtpReceiver]:
    """What the engine gets of a call whose packets come at their own times; `lost` are indices."""
    receiver = RtpReceiver(COPIED)
    frames = []
    arriving = iter([packet for index, packet in enumerate(packets) if index not in lost])
    following = next(arriving, None)
    for tick in range(packets[-1][1] // 3840 + 2):
        now = tick * FRAME_S + 0.015
        while following is not None and following[1] / 48_000 + 0.02 <= now:
            number, timestamp, payload = following
            receiver.receive(timestamp / 48_000 + 0.02, RtpPacket(RED, number, timestamp, SSRC, payload))
            following = next(arriving, None)
        frames.append(receiver.jitter_buffer.take(now))
    return np.concatenate(frames), receiver


def with_copies(payloads: list[tuple[int, bytes]], copies: int = 1) -> list[tuple[int, int, bytes]]:
    """(sequence number, timestamp, RED payload) of a sender that repeats whatever it sent last, across pauses too."""
    packets = []
    for index, (timestamp, payload) in enumerate(payloads):
        earlier = payloads[max(0, index - copies) : index][::-1]
        packets.append((index, timestamp, red.wrap(OPUS, payload, [(timestamp - at, old) for at, old in earlier])))
    return packets


def test_single_losses_are_repaired_and_still_reported() -> None:
    payloads = [(960 * k, payload) for k, payload in enumerate(encoded(speech(), expected_loss_pct=0))]
    lost = set(range(10, len(payloads) - 2, 7))
    _, alone = heard(with_copies(payloads, copies=0), lost)
    _, receiver = heard(with_copies(payloads), lost)
    invented = receiver.jitter_buffer.counters.concealed_samples
    assert invented < 0.35 * alone.jitter_buffer.counters.concealed_samples
    report = receiver.report(0.0)
    assert report is not None and report.packets_lost == len(lost)


def test_wrong_guess_at_a_number_does_no_harm() -> None:
    """A sender with pauses repeats what it sent before them: 200 ms look like ten packets, and were one."""
    spoken = encoded(speech(), expected_loss_pct=0)
    payloads, timestamp = [], 0
    for k, payload in enumerate(spoken):
        timestamp += 960 if k % 25 else 9600
        payloads.append((timestamp, payload))
    packets = with_copies(payloads)
    assert any(
        step == 10 and index + 1 < len(packets)
        for index, (_, _, wrapped) in enumerate(packets)
        for step, _ in numbered(red.unwrap(wrapped)[1:], 48_000)
    )
    alone, through_primaries = heard([(n, at, red.wrap(OPUS, red.unwrap(p)[0].payload)) for n, at, p in packets], set())
    with_guesses, receiver = heard(packets, set())
    assert np.array_equal(alone, with_guesses)
    before, after = through_primaries.jitter_buffer.counters, receiver.jitter_buffer.counters
    assert (after.late, after.resyncs, after.lost_samples) == (before.late, before.resyncs, before.lost_samples)
    rng = random.Random(4)
    lost = {k for k in range(len(packets)) if rng.random() < 0.1}
    _, lossy = heard(packets, lost)
    assert lossy.jitter_buffer.counters.resyncs == 0


# Streams from the field


def field(name: str, audio: AudioFormat, phase_s: float) -> RtpReceiver:
    """A recorded stream to its end, 30 ms under way, at one phase of the tick against the sender."""
    (path,) = (DATA / "rtp").glob(f"{name}_*.json")
    packets = json.loads(path.read_text())["packets"]
    receiver = RtpReceiver(audio)
    following = 0
    for tick in range(int(packets[-1][0] / 80) + 2):
        now = phase_s + tick * FRAME_S
        while following < len(packets) and packets[following][0] / 1000 + 0.05 <= now:
            sent_ms, number, timestamp, ssrc, kind, marker, payload = packets[following]
            packet = RtpPacket(kind, number, timestamp, ssrc, bytes.fromhex(payload), bool(marker))
            receiver.receive(sent_ms / 1000 + 0.05, packet)
            following += 1
        receiver.jitter_buffer.take(now)
    return receiver


@pytest.mark.parametrize("phase_s", [0.005, 0.025, 0.045, 0.065])
def test_red_of_the_field_has_its_single_losses_repaired(phase_s: float) -> None:
    """Three packets are lost; a copy that comes behind its frame's end is too late."""
    counters = field("R17", COPIED, phase_s).jitter_buffer.counters
    assert counters.resyncs == counters.corrupt == 0
    assert counters.concealed_samples <= 40 * 24


@pytest.mark.parametrize("phase_s", [0.005, 0.025, 0.045, 0.065])
def test_silence_that_g711_leaves_out_is_no_loss(phase_s: float) -> None:
    counters = field("R04", TELEPHONE, phase_s).jitter_buffer.counters
    assert counters.lost_samples == 0
    assert counters.dtx_samples == pytest.approx(2400 * 24, abs=3 * 1920)


# Reports


@pytest.mark.parametrize(("audio", "told"), [(PLAIN, TOLD_LOSS), (COPIED, 0.0), (TELEPHONE, 0.0)])
def test_only_a_peer_with_nothing_but_opus_is_told_of_some_loss_at_least(audio: AudioFormat, told: float) -> None:
    rig = Rig(audio)
    for number in range(100):
        rig.receive(OPUS_20_MS, audio.payload_type, number, number * 960)
    report = rig.receiver.report(50.0)
    assert report is not None
    assert report.loss == pytest.approx(told, abs=1 / 256)
    assert rig.receiver.statistics.loss == 0.0


def test_true_loss_above_the_floor_is_told_as_it_is() -> None:
    rig = Rig(PLAIN)
    for number in range(0, 200, 2):
        rig.receive(OPUS_20_MS, OPUS, number, number * 960)
    report = rig.receiver.report(50.0)
    assert report is not None and report.loss == pytest.approx(0.5, abs=0.01)
    assert rig.receiver.statistics.loss == pytest.approx(0.5, abs=0.01)


def test_nothing_is_reported_before_the_first_packet() -> None:
    assert Rig(PLAIN).receiver.report(50.0) is None


# Anything


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from([PLAIN, COPIED, TELEPHONE]),
    st.lists(
        st.tuples(
            st.sampled_from([OPUS, RED, NOISE, PCMU, TELEPHONE_EVENT]),
            st.integers(0, 65_535),
            st.integers(0, 2**32 - 1),
            st.one_of(st.binary(max_size=40), st.binary(max_size=40).map(lambda tail: b"\xef\x0f\x00\x03\x6f" + tail)),
        ),
        max_size=20,
    ),
)
def test_any_packets_are_taken_or_refused(audio: AudioFormat, packets: list[tuple[int, int, int, bytes]]) -> None:
    receiver = RtpReceiver(audio)
    for step, (kind, number, timestamp, payload) in enumerate(packets):
        try:
            receiver.receive(step * 0.02, RtpPacket(kind, number, timestamp, SSRC, payload))
        except MalformedRed:
            assert kind == RED
    assert receiver.jitter_buffer.take(1.0).shape == (1920,)
