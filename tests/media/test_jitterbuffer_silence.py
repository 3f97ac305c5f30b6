"""Senders that leave out their pauses: comfort noise (RFC 3389), and how it differs from a loss."""

from __future__ import annotations

import numpy as np
import pytest

from rtc_server.media.frames import FRAME_S, SAMPLE_RATE, FloatSamples
from rtc_server.media.g711 import G711Decoder, G711Encoder
from rtc_server.media.jitterbuffer import MAX_NOISE_DBOV, JitterBuffer
from tests.media.calls import Call
from tests.media.speech import speech

PACKET_S = 0.02
UNITS = 160
SPOKEN = 75
"""Packets of speech before the pause: 1.5 s."""
PAUSE_S = 2.4
LEVEL_DBOV = -50.0
PHASES_S = (0.005, 0.025, 0.045, 0.065)


def pcmu(packets: int) -> list[bytes]:
    encoder, voice = G711Encoder("PCMU"), speech()[SAMPLE_RATE // 2 :]
    return [encoder.encode(voice[k * 480 : (k + 1) * 480]) for k in range(packets)]


def pause(
    phase_s: float = 0.005, updates_s: tuple[float, ...] = (0.0,), dropped: tuple[int, ...] = (), swapped: bool = False
) -> Call:
    """1.5 s of speech, comfort noise at each of `updates_s` of a pause, and speech again."""
    payloads = pcmu(2 * SPOKEN)
    jump = round(PAUSE_S / PACKET_S)
    events: list[tuple[float, int, int, bytes | None]] = []  # sent, sequence number, timestamp, payload
    for k in range(SPOKEN):
        events.append(((k + 1) * PACKET_S, k, k * UNITS, payloads[k]))
    for n, update_s in enumerate(updates_s):
        sent_s = (SPOKEN + 1) * PACKET_S + update_s
        events.append((sent_s, SPOKEN + n, SPOKEN * UNITS + int(update_s * 8000), None))
    for k in range(SPOKEN, 2 * SPOKEN):
        events.append(((k + jump + 1) * PACKET_S, k + len(updates_s), (k + jump) * UNITS, payloads[k]))
    if swapped:
        last, noise = events[SPOKEN - 1], events[SPOKEN]
        events[SPOKEN - 1 : SPOKEN + 1] = [(last[0], *noise[1:]), (last[0], *last[1:])]
    running = Call(JitterBuffer(lambda: G711Decoder("PCMU"), 8000))
    tick = 0
    for at, sequence_number, timestamp, payload in events:
        arrival_s = at + 0.03
        while phase_s + tick * FRAME_S < arrival_s:
            running.tick(phase_s + tick * FRAME_S)
            tick += 1
        if sequence_number in dropped:
            continue
        if payload is None:
            running.buffer.comfort_noise(arrival_s, sequence_number, timestamp, LEVEL_DBOV, 1)
        else:
            running.buffer.put(arrival_s, sequence_number, timestamp, payload, 1)
    return running


def in_the_pause(running: Call) -> FloatSamples:
    begin, end = SPOKEN * PACKET_S + 0.3, SPOKEN * PACKET_S + PAUSE_S - 0.2
    return np.concatenate([f for f, at in zip(running.frames, running.times, strict=True) if begin < at < end])


def level_dbov(sound: FloatSamples) -> float:
    return float(10 * np.log10(np.mean(sound.astype(np.float64) ** 2)))


@pytest.mark.parametrize("phase_s", PHASES_S)
@pytest.mark.parametrize("updates_s", [(0.0,), (0.0, 0.4, 0.8, 1.2, 1.6, 2.0)], ids=["once", "each 400 ms"])
def test_announced_pause_is_noise_of_its_level_and_no_loss(phase_s: float, updates_s: tuple[float, ...]) -> None:
    running = pause(phase_s, updates_s)
    counters = running.buffer.counters
    assert counters.lost_samples == counters.late == counters.resyncs == 0
    assert counters.concealed_samples <= 480
    assert counters.dtx_samples == pytest.approx(PAUSE_S * SAMPLE_RATE, abs=480)
    assert level_dbov(in_the_pause(running)) == pytest.approx(LEVEL_DBOV, abs=0.5)
    assert running.delays_ms[-1] == pytest.approx(running.delays_ms[12], abs=1)
    assert counters.packets == 2 * SPOKEN + len(updates_s)


def test_noise_is_even_and_neither_begins_nor_ends_with_a_click() -> None:
    running = pause(updates_s=(0.0, 0.4, 0.8))
    noise = in_the_pause(running)
    levels = [level_dbov(part) for part in np.array_split(noise, 40)]
    assert max(levels) - min(levels) < 2
    assert np.abs(np.diff(running.pcm)).max() <= np.abs(np.diff(speech())).max() * 1.2


def test_pause_is_silence_of_the_decoder_where_its_noise_was_lost() -> None:
    running = pause(dropped=(SPOKEN,))
    counters = running.buffer.counters
    assert counters.frames == len(running.frames)
    assert level_dbov(in_the_pause(running)) < LEVEL_DBOV
    assert running.delays_ms[-1] == pytest.approx(running.delays_ms[12], abs=1)


def test_noise_waits_for_speech_that_comes_behind_it() -> None:
    running = pause(swapped=True)
    counters = running.buffer.counters
    assert counters.lost_samples == counters.discarded == counters.resyncs == 0
    assert level_dbov(in_the_pause(running)) == pytest.approx(LEVEL_DBOV, abs=0.5)


def test_speech_lost_before_the_pause_is_concealed_and_counted() -> None:
    running = pause(dropped=(SPOKEN - 1,))
    counters = running.buffer.counters
    assert counters.lost_samples == 480
    assert level_dbov(in_the_pause(running)) == pytest.approx(LEVEL_DBOV, abs=0.5)


def test_noise_before_any_speech_is_silence() -> None:
    buffer = JitterBuffer(lambda: G711Decoder("PCMU"), 8000)
    buffer.comfort_noise(0.0, 0, 0, LEVEL_DBOV)
    assert not any(buffer.take(0.01 + tick * FRAME_S).any() for tick in range(50))
    for k, payload in enumerate(pcmu(50)):
        now = 4.0 + (k + 1) * PACKET_S
        buffer.put(now, k + 1, 32_000 + k * UNITS, payload)
        if k % 4 == 3:
            frame = buffer.take(now + 0.012)
    assert np.abs(frame).max() > 0.01
    assert buffer.counters.lost_samples == 0


@pytest.mark.parametrize("dbov", [-127.0, -50.0, 0.0, 20.0])
def test_noise_is_never_louder_than_samples_can_be(dbov: float) -> None:
    buffer = JitterBuffer(lambda: G711Decoder("PCMU"), 8000)
    for k, payload in enumerate(pcmu(20)):
        buffer.put((k + 1) * PACKET_S, k, k * UNITS, payload)
    buffer.take(20 * PACKET_S)
    buffer.comfort_noise(21 * PACKET_S, 20, 20 * UNITS, dbov)
    noise = np.concatenate([buffer.take(20 * PACKET_S + tick * FRAME_S) for tick in range(1, 10)])[1920 * 2 :]
    assert level_dbov(noise) == pytest.approx(min(dbov, MAX_NOISE_DBOV), abs=0.5)
    assert np.abs(noise).max() <= 1


def test_noise_twice_and_of_a_replaced_source_is_counted_and_changes_nothing() -> None:
    buffer = JitterBuffer(lambda: G711Decoder("PCMU"), 8000)
    for k, payload in enumerate(pcmu(20)):
        buffer.put((k + 1) * PACKET_S, k, k * UNITS, payload, ssrc=1 if k < 10 else 2)
    buffer.comfort_noise(0.42, 20, 20 * UNITS, -40.0, ssrc=2)
    buffer.comfort_noise(0.43, 20, 20 * UNITS, -40.0, ssrc=2)
    buffer.comfort_noise(0.43, 9, 9 * UNITS, -10.0, ssrc=1)
    assert buffer.counters.duplicates == 1
    assert buffer.counters.stragglers == 1


def test_what_turns_out_to_be_a_pause_is_taken_back_once_only() -> None:
    """Pauses in a row: what counts as concealed never falls below nothing."""
    rng = np.random.default_rng(5)
    payload = bytes([8, *([0] * 20)])  # Opus, 20 ms
    for _ in range(20):
        buffer, sequence_number, timestamp = JitterBuffer(), 0, 0
        for slot in range(80):
            for _ in range(3 if rng.random() < 0.5 else 1):
                if rng.random() < 0.5:
                    buffer.put(slot * PACKET_S, sequence_number, timestamp, payload)
                    sequence_number += 1
                    timestamp += 960
                else:
                    timestamp += 960 * int(rng.integers(1, 4))
            if slot % 4 == 3:
                buffer.take((slot + 1) * PACKET_S)
            assert buffer.counters.concealed_samples >= 0
