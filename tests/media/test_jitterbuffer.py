from __future__ import annotations

import numpy as np
import pytest

from rtc_server.media.frames import FRAME_S, FRAME_SAMPLES, SAMPLE_RATE
from rtc_server.media.jitterbuffer import JitterBuffer
from rtc_server.media.opus import OpusDecoder
from tests.media.calls import call
from tests.media.decoders import CountingDecoder
from tests.media.network import Network
from tests.media.speech import decoded, encoded, long_speech

PACKET_S = 0.02


def counted(count: int, packet_ms: int = 20, fec: bool = False) -> list[bytes]:
    size = packet_ms * 24
    return [CountingDecoder.payload(k * size, size, fec) for k in range(count)]


def counting_buffer() -> JitterBuffer:
    return JitterBuffer(CountingDecoder)


def test_silence_before_the_first_packet() -> None:
    buffer = JitterBuffer()
    frame = buffer.take(5.0)
    assert frame.shape == (FRAME_SAMPLES,)
    assert not frame.any()
    assert buffer.counters.concealed_samples == 0


@pytest.mark.parametrize("packet_ms", [10, 20, 40, 60])
def test_even_path_gives_every_sample_once_and_in_order(packet_ms: int) -> None:
    heard = call(
        counted(6000 // packet_ms, packet_ms), Network(), packet_ms=packet_ms, buffer=counting_buffer(), phase_s=0.013
    )
    positions = CountingDecoder.positions(heard.pcm)
    assert positions[0] == 0
    assert (np.diff(positions) == 1).all()
    counters = heard.buffer.counters
    assert counters.concealed_samples == counters.lost_samples == counters.late == counters.cut_samples == 0


def test_even_path_gives_what_a_plain_decoder_gives() -> None:
    payloads = encoded(long_speech(4.0))
    heard = call(payloads, Network()).pcm
    clean = decoded(payloads)
    start = int(np.flatnonzero(heard)[0]) - int(np.flatnonzero(clean)[0])
    expected = clean[: heard.size - start]
    np.testing.assert_array_equal(heard[start : start + expected.size], expected)


@pytest.mark.parametrize("phase_ms", range(1, 80, 7))
def test_delay_on_an_even_path_lies_within_one_packet_of_the_target(phase_ms: int) -> None:
    heard = call(counted(300), Network(), buffer=counting_buffer(), phase_s=phase_ms / 1000)
    later = heard.delays_ms[len(heard.delays_ms) // 2 :]
    assert heard.buffer.target_ms == pytest.approx(10)
    assert min(later) >= 10 - 0.1
    assert max(later) < 10 + 20 + 2.1


@pytest.mark.parametrize("packet_ms", [10, 20, 40, 60])
def test_frames_end_where_packets_end(packet_ms: int) -> None:
    heard = call(counted(3000 // packet_ms, packet_ms), Network(), packet_ms=packet_ms, buffer=counting_buffer())
    grid = np.gcd(packet_ms * 24, FRAME_SAMPLES)
    ends = [int(abs(frame[-1])) for frame in heard.frames if frame[-1]]
    assert ends
    assert all(end % grid == 0 for end in ends)


def test_swapped_packets_are_put_in_order() -> None:
    heard = call(counted(500), Network(reorder=0.1), buffer=counting_buffer(), seed=4)
    assert (np.diff(CountingDecoder.positions(heard.pcm)) >= 1).all()
    assert heard.buffer.counters.discarded < 15


def test_duplicates_change_nothing() -> None:
    payloads = counted(300)
    once = call(payloads, Network(), buffer=counting_buffer())
    twice = call(payloads, Network(duplicate=0.3), buffer=counting_buffer(), seed=1)
    np.testing.assert_array_equal(once.pcm, twice.pcm)
    assert twice.buffer.counters.duplicates > 50


def test_lost_packet_is_taken_from_the_next_one_where_that_repeats_it() -> None:
    heard = call(counted(200, fec=True), Network(lost=(100,)), buffer=counting_buffer())
    positions = CountingDecoder.positions(heard.pcm)
    missing = np.setdiff1d(np.arange(positions[0], positions[-1]), positions)
    assert heard.buffer.counters.fec_samples == 480
    assert heard.buffer.counters.lost_samples == 480
    assert missing.size <= 130  # crossfades, where no sample is itself


def test_opus_fec_comes_closer_to_the_truth_than_concealment() -> None:
    pcm = long_speech(3.0)
    errors = []
    for fec in (False, True):
        payloads = encoded(pcm, fec=fec, expected_loss_pct=30)
        lost = tuple(range(60, 140, 5))
        clean, heard = call(payloads, Network()), call(payloads, Network(lost=lost))
        errors.append(float(np.sum((clean.pcm - heard.pcm) ** 2) / np.sum(clean.pcm**2)))
        assert (heard.buffer.counters.fec_samples > 0) == fec
    assert errors[1] < 0.6 * errors[0]


def test_long_concealment_fades_to_the_noise_of_the_room() -> None:
    payloads = encoded(long_speech(3.0))
    heard = call(payloads, Network(lost=tuple(range(70, 140))))
    gap = heard.frames[int(70 * PACKET_S / FRAME_S) + 5 : int(140 * PACKET_S / FRAME_S) - 1]
    assert len(gap) > 5
    assert all(np.abs(frame).max() < 0.01 for frame in gap)
    assert heard.buffer.counters.concealed_samples >= 69 * 480


def test_jitter_raises_the_delay_as_far_as_needed_and_no_further() -> None:
    heard = call(encoded(long_speech(20.0)), Network(jitter_ms=60), seed=2)
    steady = heard.delays_ms[40:]
    assert 55 < np.mean(steady) < 110
    assert max(steady) < 222
    counters = heard.buffer.counters
    assert counters.concealed_samples < 0.03 * counters.frames * FRAME_SAMPLES


def test_new_ssrc_begins_with_a_fresh_decoder_and_old_stragglers_are_ignored() -> None:
    decoder = CountingDecoder()
    buffer = JitterBuffer(lambda: decoder)
    for k in range(20):
        buffer.put(k * PACKET_S, k, k * 960, CountingDecoder.payload(k * 480), ssrc=1)
    for k in range(20, 30):
        buffer.put(k * PACKET_S, k + 4000, k + 77, CountingDecoder.payload(k * 480), ssrc=2)
    buffer.put(0.6, 20, 20 * 960, CountingDecoder.payload(0), ssrc=1)
    assert decoder.resets == 1
    assert buffer.counters.stragglers == 1
    assert buffer.counters.resyncs >= 1


def test_corrupt_payloads_are_concealed_and_counted() -> None:
    payloads = encoded(long_speech(3.0))
    payloads[60] = b"\x03"  # RFC 6716 section 3.2.5: the frame count is missing
    payloads[80] = payloads[80][:1] + b"\xff" * 4  # noise, but decodable
    payloads[100] = bytes([payloads[100][0] & ~3 | 2, 251, 0])  # the first frame is longer than the packet
    heard = call(payloads, Network())
    assert heard.buffer.counters.corrupt == 2
    assert heard.buffer.counters.lost_samples == 2 * 480
    assert max(heard.delays_ms[12:]) == pytest.approx(min(heard.delays_ms[12:]))


def test_packets_may_change_their_size() -> None:
    pcm = long_speech(4.0)
    mixed = encoded(pcm[:48_000], 20) + encoded(pcm[48_000:], 40)
    buffer = JitterBuffer()
    at, frames = 0.0, []
    timestamp, tick = 0, 1
    for k, payload in enumerate(mixed):
        samples = OpusDecoder().duration_samples(payload)
        at += samples / SAMPLE_RATE
        while tick * FRAME_S + 0.01 < at + 0.02:
            frames.append(buffer.take(tick * FRAME_S + 0.01))
            tick += 1
        buffer.put(at + 0.02, k, timestamp, payload, 1)
        timestamp += samples * 2
    assert buffer.counters.lost_samples == 0
    # 40 ms packets need up to 20 ms more, and frames that end at their ends
    assert buffer.counters.concealed_samples <= 0.06 * SAMPLE_RATE


def test_sound_that_nobody_takes_is_bounded_and_the_newest_is_played_first() -> None:
    buffer = counting_buffer()
    for k in range(1500):
        buffer.put((k + 1) * PACKET_S, k & 0xFFFF, k * 960, CountingDecoder.payload(k * 480))
    frame = buffer.take(1500 * PACKET_S + 0.005)
    assert 1500 * 480 - CountingDecoder.positions(frame)[-1] < 60 * 24


def test_frames_that_were_not_taken_for_a_while_are_skipped() -> None:
    buffer = counting_buffer()
    delays = []
    tick = 0
    for k in range(600):
        now = (k + 1) * PACKET_S
        buffer.put(now, k, k * 960, CountingDecoder.payload(k * 480))
        if (k + 1) % 4 == 0:
            tick += 1
            if not 40 <= tick < 80:
                buffer.take(now + 0.005)
                delays.append(buffer.delay_ms)
    assert buffer.counters.skipped_samples == pytest.approx(40 * FRAME_SAMPLES, abs=960)
    assert max(delays[5:]) < 40


def test_scattered_ticks_are_not_taken_for_jitter_of_the_path() -> None:
    rng = np.random.default_rng(5)
    buffer = counting_buffer()
    for k in range(1000):
        now = (k + 1) * PACKET_S
        buffer.put(now, k, k * 960, CountingDecoder.payload(k * 480))
        if (k + 1) % 4 == 0:
            buffer.take(now + 0.014 + rng.uniform(-0.004, 0.004))
    counters = buffer.counters
    assert counters.cut_samples == counters.added_samples == counters.replayed_samples == 0
    assert counters.concealed_samples == 0


def test_muted_sender_costs_no_memory_and_is_heard_again_at_once() -> None:
    buffer = counting_buffer()
    for k in range(100):
        buffer.put((k + 1) * PACKET_S, k, k * 960, CountingDecoder.payload(k * 480))
        if (k + 1) % 4 == 0:
            buffer.take((k + 1) * PACKET_S + 0.005)
    silent = [buffer.take(2.0 + tick * FRAME_S + 0.005) for tick in range(1, 751)]
    assert not np.concatenate(silent[10:]).any() or np.abs(np.concatenate(silent[10:])).max() < 0.02
    heard = []
    for k in range(3100, 3140):
        buffer.put((k + 1) * PACKET_S, k - 3000, k * 960, CountingDecoder.payload(k * 480))
        if (k + 1) % 4 == 0:
            heard.append(buffer.take((k + 1) * PACKET_S + 0.005))
    assert CountingDecoder.positions(np.concatenate(heard[:2])).size > 1000
    assert buffer.counters.lost_samples == 0


def test_skip_goes_on_in_the_present_with_the_delay_as_it_was() -> None:
    payloads, buffer = counted(400), counting_buffer()
    frames, delays_ms, sent = [], [], 0
    for tick in range(95):
        now = 0.015 + tick * FRAME_S
        while sent * PACKET_S + 0.04 <= now:
            buffer.put(sent * PACKET_S + 0.04, sent, sent * 960, payloads[sent])
            sent += 1
        if 50 <= tick < 53:
            continue  # nobody takes: the engine is busy
        if tick == 53:
            buffer.skip(3)
        frames.append(buffer.take(now))
        delays_ms.append(buffer.delay_ms)
    assert delays_ms[51:] == pytest.approx([delays_ms[49]] * len(delays_ms[51:]), abs=2)
    before, after = (int(abs(frames[k][-1])) for k in (49, 50))
    assert after - before == 4 * FRAME_SAMPLES
    assert buffer.counters.skipped_samples == 3 * FRAME_SAMPLES
    assert buffer.counters.concealed_samples == 0


def test_skip_before_the_first_frame_is_harmless() -> None:
    buffer = counting_buffer()
    buffer.skip(5)
    assert not buffer.take(1.0).any()
