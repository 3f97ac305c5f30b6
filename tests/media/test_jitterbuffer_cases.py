"""Packet streams from the field, at four phases of the tick against the sender."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from rtc_server.media.frames import FRAME_S
from rtc_server.media.jitterbuffer import JitterBuffer
from rtc_server.media.opus import OpusDecoder
from rtc_server.media.red import unwrap
from tests.media.calls import Call
from tests.media.decoders import MulawDecoder
from tests.media.speech import DATA

PATH_S = 0.03
PACKET_S = 0.02
PHASES = (0.005, 0.025, 0.045, 0.065)


def play(name: str, phase_s: float, red_agreed: bool = False) -> Call:
    (path,) = (DATA / "rtp").glob(f"{name}_*.json")
    case: dict[str, Any] = json.loads(path.read_text())
    mulaw = case["codec"].startswith("PCMU")
    buffer = JitterBuffer(MulawDecoder, 8000) if mulaw else JitterBuffer(OpusDecoder, 48_000)
    running = Call(buffer)
    packets = [(t / 1000 + PACKET_S + PATH_S, *rest) for t, *rest in case["packets"]]
    at = tick = 0
    while (now := phase_s + tick * FRAME_S) <= packets[-1][0]:
        while at < len(packets) and packets[at][0] <= now:
            arrival, sequence_number, timestamp, ssrc, payload_type, _marker, payload = packets[at]
            if payload_type != case.get("red_pt"):
                buffer.put(arrival, sequence_number, timestamp, bytes.fromhex(payload), ssrc)
            elif red_agreed:
                for age, block in enumerate(unwrap(bytes.fromhex(payload))):
                    time = timestamp - block.timestamp_offset
                    buffer.put(arrival, sequence_number - age, time, block.payload, ssrc, redundant=age > 0)
            at += 1
        running.tick(now)
        tick += 1
    return running


def begun(call: Call) -> tuple[list[float], list[float]]:
    """(level, delay) of the frames after the first that was heard."""
    levels = [float(np.sqrt(np.mean(frame**2))) for frame in call.frames]
    first = next(k for k, level in enumerate(levels) if level > 0.01) + 1
    return levels[first:], call.delays_ms[first:]


def silent_frames(levels: list[float]) -> int:
    """The longest run of frames in which there is next to nothing."""
    longest = run = 0
    for level in levels:
        run = run + 1 if level < 0.004 else 0
        longest = max(longest, run)
    return longest


def roughness(call: Call) -> float:
    """A click is a step against its surroundings: the greatest second difference once the sound has begun."""
    first = next(k for k, frame in enumerate(call.frames) if np.abs(frame).max() > 0.05) + 1
    return float(np.abs(np.diff(np.concatenate(call.frames[first:]), 2)).max())


def ms(samples: int) -> float:
    return samples / 24


@pytest.mark.parametrize("phase_s", PHASES)
def test_timestamp_that_starts_again_at_zero_leaves_no_gap(phase_s: float) -> None:
    call = play("R01", phase_s)
    counters = call.buffer.counters
    levels, _ = begun(call)
    assert counters.resyncs == 1
    assert ms(counters.concealed_samples) < 60
    assert silent_frames(levels) == 0


@pytest.mark.parametrize("phase_s", PHASES)
def test_new_ssrc_in_mid_call_is_followed_at_once(phase_s: float) -> None:
    call = play("R02", phase_s)
    counters = call.buffer.counters
    levels, _ = begun(call)
    assert counters.resyncs == 1
    assert ms(counters.concealed_samples) <= 100
    assert silent_frames(levels) <= 1
    assert roughness(call) < 0.12


@pytest.mark.parametrize("phase_s", PHASES)
def test_jump_of_sequence_and_timestamp_queues_no_silence(phase_s: float) -> None:
    call = play("R03", phase_s)
    counters = call.buffer.counters
    levels, delays = begun(call)
    assert counters.resyncs == 1
    assert ms(counters.concealed_samples) <= 60
    assert silent_frames(levels) == 0
    assert max(delays) < 100


@pytest.mark.parametrize("phase_s", PHASES)
def test_pause_of_the_sender_passes_in_real_time_and_is_no_loss(phase_s: float) -> None:
    call = play("R04", phase_s)
    counters = call.buffer.counters
    levels, delays = begun(call)
    assert ms(counters.dtx_samples) == pytest.approx(2400, abs=1)
    assert counters.lost_samples == 0
    assert 26 <= silent_frames(levels) <= 30
    assert abs(delays[-1] - delays[0]) <= 20


@pytest.mark.parametrize("phase_s", PHASES)
def test_dtx_packets_give_silence_at_each_tick_and_are_no_loss(phase_s: float) -> None:
    call = play("R06", phase_s)
    counters = call.buffer.counters
    levels, delays = begun(call)
    assert counters.lost_samples == 0
    assert counters.corrupt == 0
    assert ms(counters.concealed_samples) <= 20
    assert silent_frames(levels) >= 46
    assert max(delays) < 100


@pytest.mark.parametrize("phase_s", PHASES)
def test_empty_payloads_are_skipped_and_the_sound_goes_on(phase_s: float) -> None:
    call = play("R07", phase_s)
    counters = call.buffer.counters
    levels, _ = begun(call)
    assert counters.empty > 0
    assert counters.corrupt == 0
    assert ms(counters.concealed_samples) <= 20 * counters.empty
    assert silent_frames(levels) == 0


@pytest.mark.parametrize("phase_s", PHASES)
def test_bursts_of_loss_are_concealed_without_a_click_and_add_no_delay(phase_s: float) -> None:
    call = play("R11", phase_s)
    levels, delays = begun(call)
    assert silent_frames(levels) <= 2
    assert roughness(call) < 0.12
    assert max(delays) < 100
    assert abs(delays[-1] - delays[0]) <= 1


@pytest.mark.parametrize("phase_s", PHASES)
def test_redundant_packets_of_a_type_that_was_not_agreed_are_ignored(phase_s: float) -> None:
    call = play("R17", phase_s)
    assert call.buffer.counters.packets == 0
    assert np.abs(call.pcm).max() == 0


@pytest.mark.parametrize("phase_s", PHASES)
def test_single_losses_are_repaired_from_redundant_packets(phase_s: float) -> None:
    """A copy that comes after its frame's end is late: no more than that packet is concealed."""
    call = play("R17", phase_s, red_agreed=True)
    counters = call.buffer.counters
    levels, delays = begun(call)
    assert counters.recovered_packets == 2
    assert ms(counters.lost_samples) == 20
    assert ms(counters.concealed_samples) <= 40
    assert silent_frames(levels) == 0
    assert max(delays) - min(delays) <= 1


@pytest.mark.parametrize("phase_s", PHASES)
def test_one_lost_packet_costs_twenty_milliseconds_and_no_delay(phase_s: float) -> None:
    call = play("R20", phase_s)
    counters = call.buffer.counters
    levels, delays = begun(call)
    assert ms(counters.concealed_samples) <= 20
    assert counters.discarded == 0
    assert counters.unheard_samples == 0
    assert silent_frames(levels) == 0
    assert max(delays) - min(delays) <= 20
    assert abs(delays[-1] - delays[0]) <= 1
