from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtc_server.media.frames import FRAME_S, FRAME_SAMPLES, PACKET_S, PACKET_SAMPLES, SAMPLE_RATE, FloatSamples
from rtc_server.media.playout import Playout, PlayoutPacket
from rtc_server.transports.pacer import SlotGrid
from tests.media.speech import long_speech

FIRST_SLOT_S = 0.005


@dataclass
class Conversation:
    playout: Playout = field(default_factory=Playout)
    packets: list[PlayoutPacket] = field(default_factory=list)
    waits_ms: list[tuple[float, float]] = field(default_factory=list)
    """(when a frame was written, how long it waits for its first sample's slot)."""

    @property
    def pcm(self) -> FloatSamples:
        return np.concatenate([packet.pcm for packet in self.packets])

    def wait_ms(self, since: float, until: float = 1e9) -> float:
        return max(wait for at, wait in self.waits_ms if since <= at < until)


def converse(
    frames_at: Iterable[float],
    seconds: float,
    voice: Callable[[int], FloatSamples],
    stalls: tuple[tuple[float, float], ...] = (),
) -> Conversation:
    """Frame k is written at the k-th time; one packet is asked for in each slot, except in `stalls`."""
    talk = Conversation()
    events = [(at, 0) for at in frames_at if at < seconds]
    events += [(FIRST_SLOT_S + k * PACKET_S, 1) for k in range(int(seconds / PACKET_S))]
    number = 0
    for at, is_slot in sorted(events):
        stalled = next((end for start, end in stalls if start <= at < end), None)
        if is_slot:
            if stalled is None:
                talk.packets.append(talk.playout.next_packet(at))
            continue
        now = at if stalled is None else stalled
        timestamp = talk.playout.write(now, voice(number))
        talk.waits_ms.append((now, timestamp / 48 - (now - FIRST_SLOT_S) * 1000))
        number += 1
    return talk


def spoken(number: int) -> FloatSamples:
    voice = long_speech(12.0)
    return np.resize(np.roll(voice, -number * FRAME_SAMPLES), FRAME_SAMPLES)


def tone(number: int) -> FloatSamples:
    at = np.arange(number * FRAME_SAMPLES, (number + 1) * FRAME_SAMPLES) / SAMPLE_RATE
    return (0.3 * np.sin(2 * np.pi * 440 * at)).astype(np.float32)


def noise(number: int) -> FloatSamples:
    return (np.random.default_rng(number).standard_normal(FRAME_SAMPLES) * 0.1).astype(np.float32)


def ramp(number: int) -> FloatSamples:
    return np.arange(number * FRAME_SAMPLES, (number + 1) * FRAME_SAMPLES).astype(np.float32)


def each_tick(seconds: float, step_s: float = 0.05, late: dict[int, float] | None = None) -> list[float]:
    """Frames `step_s` after their ticks; some are late by so many seconds, and those behind them wait."""
    times = [k * FRAME_S + step_s + (late or {}).get(k, 0.0) for k in range(int(seconds / FRAME_S))]
    return [float(at) for at in np.maximum.accumulate(times)]


def test_silence_until_the_agent_begins() -> None:
    playout = Playout()
    packets = [playout.next_packet(5.0 + k * PACKET_S) for k in range(3)]
    assert [packet.timestamp for packet in packets] == [0, 960, 1920]
    assert all(packet.silence and not packet.pcm.any() for packet in packets)
    assert playout.counters.underruns == 0


def test_even_frames_come_out_as_they_went_in() -> None:
    talk = converse(each_tick(4.0), 4.0, ramp)
    heard = talk.pcm
    start = int(np.flatnonzero(heard)[0]) - 1
    np.testing.assert_array_equal(heard[start:], np.arange(heard.size - start))
    assert talk.wait_ms(0.0) <= 20
    assert talk.playout.counters.trimmed_samples == talk.playout.counters.dropped_samples == 0


def test_write_tells_when_its_first_sample_will_be_sent() -> None:
    playout = Playout()
    assert playout.write(0.0, ramp(1)) == 0
    assert playout.write(0.0, ramp(2)) == 3840
    sent = [playout.next_packet(1.0 + k * PACKET_S) for k in range(6)]
    assert sent[4].timestamp == 3840
    assert sent[4].pcm[0] == ramp(2)[0]
    assert playout.write(1.101, ramp(3)) == 2 * 3840


def test_frame_that_its_slot_waits_for_is_told_that_slot() -> None:
    playout = Playout()
    playout.write(1.0, ramp(1))
    for k in range(4):
        playout.next_packet(1.0 + 0.02 * k)
    assert playout.write(1.094, ramp(2)) == 3840
    assert playout.next_packet(1.08).timestamp == 3840


@pytest.mark.parametrize("late_s", [0.02, 0.06, 0.2])
def test_delay_returns_to_its_minimum_after_an_underrun(late_s: float) -> None:
    talk = converse(each_tick(12.0, late={50: late_s}), 12.0, spoken)
    counters = talk.playout.counters
    before = talk.wait_ms(1.0, 3.9)
    assert counters.underruns == 1
    assert talk.wait_ms(4.05 + late_s, 5.0) > before + 15  # the queue is deeper at first
    assert talk.wait_ms(4.05 + late_s + 2.0) <= before + 10
    assert counters.trimmed_samples <= counters.silence_samples
    assert counters.dropped_samples == 0


@pytest.mark.parametrize("voice", [tone, noise], ids=["tone", "noise"])
@pytest.mark.parametrize("late_s", [0.02, 0.06, 0.2])
def test_delay_of_one_packet_stays_in_a_sound_that_never_pauses(
    voice: Callable[[int], FloatSamples], late_s: float
) -> None:
    talk = converse(each_tick(12.0, late={50: late_s}), 12.0, voice)
    assert talk.wait_ms(4.05 + late_s, 5.0) > talk.wait_ms(1.0, 3.9) + 15
    assert talk.wait_ms(4.05 + late_s + 2.0) <= talk.wait_ms(1.0, 3.9) + 20


def test_engine_that_is_late_now_and_then_makes_one_gap_in_a_sound_that_never_pauses() -> None:
    talk = converse(each_tick(60.0, late=dict.fromkeys(range(40, 700, 13), 0.02)), 60.0, tone)
    counters = talk.playout.counters
    assert counters.underruns == 1
    assert counters.trimmed_samples == 0
    assert talk.wait_ms(10.0) == pytest.approx(talk.wait_ms(1.0, 3.0) + 20)


@pytest.mark.parametrize("voice", [spoken, tone, noise], ids=["speech", "tone", "noise"])
@pytest.mark.parametrize("at_s", [8.0, 11.0])
def test_delay_is_back_two_seconds_after_the_engine_stood_still_for_one(
    voice: Callable[[int], FloatSamples], at_s: float
) -> None:
    """It then makes up for what it owes in a burst: all of that at once is more than the bound."""
    stalled = [at if not at_s <= at < at_s + 1.0 else at_s + 1.0 for at in each_tick(16.0)]
    talk = converse(stalled, 16.0, voice)
    counters = talk.playout.counters
    before = talk.wait_ms(1.0, at_s)
    assert talk.wait_ms(at_s + 1.0) > before + 200
    assert talk.wait_ms(at_s + 3.0) <= before + 20
    assert counters.underruns == 1
    assert counters.trimmed_samples + counters.dropped_samples <= counters.silence_samples


@pytest.mark.parametrize("at_s", [8.0, 11.0])
def test_frames_that_a_stalled_engine_never_makes_leave_no_delay(at_s: float) -> None:
    talk = converse([at for at in each_tick(14.0) if not at_s <= at < at_s + 1.0], 14.0, spoken)
    assert talk.wait_ms(at_s + 1.0) <= talk.wait_ms(1.0, at_s) + 20
    assert talk.playout.counters.trimmed_samples == talk.playout.counters.dropped_samples == 0


def test_delay_does_not_ratchet_up_with_repeated_underruns() -> None:
    late = dict.fromkeys(range(40, 700, 60), 0.09)
    talk = converse(each_tick(60.0, late=late), 60.0, tone)
    assert talk.playout.counters.underruns >= 10
    assert talk.wait_ms(58.0) <= talk.wait_ms(1.0, 3.0) + 20


def test_jitter_of_the_engine_within_the_slot_is_left_alone() -> None:
    rng = np.random.default_rng(3)
    times = [k * FRAME_S + 0.053 + rng.uniform(-0.004, 0.004) for k in range(375)]
    talk = converse(times, 30.0, tone)
    counters = talk.playout.counters
    assert counters.underruns == counters.trimmed_samples == 0


def test_underrun_is_silence_that_neither_begins_nor_ends_with_a_click() -> None:
    talk = converse(each_tick(4.0, late={20: 0.05}), 4.0, tone)
    assert talk.playout.counters.underruns == 1
    assert sum(packet.silence for packet in talk.packets[10:]) >= 1
    steps = np.abs(np.diff(talk.pcm[PACKET_SAMPLES * 20 :]))
    assert steps.max() < 0.05  # a 440 Hz tone of 0.3 has steps of 0.035


def test_trimming_is_a_crossfade() -> None:
    talk = converse(each_tick(8.0, late={20: 0.05}), 8.0, tone)
    assert talk.playout.counters.trimmed_samples > 0
    assert np.abs(np.diff(talk.pcm[PACKET_SAMPLES * 20 :])).max() < 0.05


def test_bursts_of_frames_leave_evenly_paced_with_continuous_timestamps() -> None:
    times = [0.05 + 0.24 * (k // 3) for k in range(120)]
    talk = converse(times, 9.6, ramp)
    assert (np.diff([packet.timestamp for packet in talk.packets]) == 960).all()
    heard = talk.pcm[int(np.flatnonzero(talk.pcm)[0]) :]
    np.testing.assert_array_equal(heard, np.arange(1, heard.size + 1))
    assert talk.playout.counters.underruns == 0


@pytest.mark.parametrize("seconds", [1.0, 5.0])
def test_stalled_caller_jumps_over_missed_slots_without_a_burst(seconds: float) -> None:
    talk = converse(each_tick(14.0), 14.0, tone, stalls=((4.0, 4.0 + seconds),))
    steps = np.diff([packet.timestamp for packet in talk.packets])
    assert np.count_nonzero(steps != 960) == 1
    assert steps.max() == 960 * round(seconds / PACKET_S) + 960
    assert talk.wait_ms(4.0 + seconds + 2.0) <= talk.wait_ms(1.0, 3.9) + 10


def test_rtp_clock_stays_with_the_wall_clock_when_each_wake_up_is_a_little_late() -> None:
    """A pacer hands over the slot's own time, however late it wakes up; 1 ms a slot for a minute moves nothing."""
    playout, grid, now = Playout(), SlotGrid(100.0), 100.0
    for _ in range(3000):
        slot_s = grid.take(now)
        if slot_s is not None:
            packet = playout.next_packet(slot_s)
            assert slot_s - 100.0 - packet.timestamp / 48_000 == pytest.approx(0, abs=1e-6)
            assert now - slot_s < PACKET_S + 1e-6
        now += 0.021


def test_backlog_is_bounded_and_the_oldest_goes() -> None:
    playout = Playout()
    playout.next_packet(0.0)
    for number in range(20):
        playout.write(0.01, ramp(number))
        assert playout.queued_samples <= 0.4 * SAMPLE_RATE
    assert playout.counters.dropped_samples == 15 * FRAME_SAMPLES
    heard = np.concatenate([playout.next_packet(0.02 + k * PACKET_S).pcm for k in range(20)])
    assert heard[-1] == ramp(19)[-1]


def test_frames_queued_before_the_first_slot_do_not_stay_as_delay() -> None:
    playout = Playout()
    for number in range(3):
        playout.write(number * FRAME_S, tone(number))
    waits = []
    for slot in range(400):
        now = 0.25 + slot * PACKET_S
        playout.next_packet(now)
        if slot % 4 == 3:
            waits.append(playout.write(now + 0.01, tone(3 + slot // 4)) / 48_000 - (now + 0.01 - 0.25))
    assert waits[0] > 0.15
    assert waits[-1] < 0.035


@pytest.mark.parametrize("fade_ms", [None, 5, 0])
def test_flush_fades_what_is_playing_and_drops_the_rest(fade_ms: int | None) -> None:
    playout = Playout()
    for number in range(4):
        playout.write(0.0, np.full(FRAME_SAMPLES, 0.5, np.float32) if number else tone(0))
    for slot in range(5):
        playout.next_packet(slot * PACKET_S)
    played, dropped = playout.flush(0.1, fade_ms)
    fade = (20 if fade_ms is None else fade_ms) * 24
    assert (played, dropped) == (5 * 480 + fade, 4 * FRAME_SAMPLES - 5 * 480 - fade)
    rest = np.concatenate([playout.next_packet(0.1 + k * PACKET_S).pcm for k in range(4)])
    assert np.count_nonzero(rest) in (fade, max(0, fade - 1))
    assert (np.diff(rest) <= 0).all()
    assert playout.played_samples == played
    assert playout.counters.underruns == 0
    assert playout.flush(0.2) == (played, 0)


def test_frames_after_a_flush_play_as_usual() -> None:
    playout = Playout()
    playout.write(0.0, tone(0))
    playout.next_packet(0.0)
    playout.flush(0.01)
    timestamp = playout.write(0.02, tone(1))
    packets = [playout.next_packet(0.02 + k * PACKET_S) for k in range(6)]
    heard = np.concatenate([packet.pcm for packet in packets if packet.timestamp >= timestamp])
    np.testing.assert_array_equal(heard[120:FRAME_SAMPLES], tone(1)[120:])


STEPS = st.lists(
    st.tuples(st.sampled_from(["write", "write", "packet", "packet", "packet", "flush"]), st.floats(0, 0.2)),
    max_size=120,
)


@settings(max_examples=80, deadline=None)
@given(STEPS, st.integers(1, 4000))
def test_every_sample_is_accounted_for(steps: list[tuple[str, float]], size: int) -> None:
    """Any order, any pace: timestamps go up by whole slots, the queue stays within its bound, no sample is lost."""
    playout = Playout()
    now, written, last, number = 50.0, 0, -960, 0
    for action, wait in steps:
        now += wait
        if action == "write":
            pcm = np.resize(noise(number), size)
            assert playout.write(now, pcm) > last
            written += size
            number += 1
        elif action == "flush":
            playout.flush(now)
        else:
            packet = playout.next_packet(now)
            assert packet.timestamp > last
            assert packet.timestamp % 960 == 0
            assert packet.pcm.shape == (PACKET_SAMPLES,)
            assert np.isfinite(packet.pcm).all()
            last = packet.timestamp
        counters = playout.counters
        assert playout.queued_samples <= 0.4 * SAMPLE_RATE
        gone = playout.played_samples + counters.dropped_samples + counters.trimmed_samples
        assert gone + playout.queued_samples == written


def test_surplus_is_judged_by_where_the_slots_are_now() -> None:
    """A pacer moves its grid by up to half a slot; frames that come just in time are no surplus, wherever it went."""
    playout, now, frame = Playout(), 100.0, tone(1)

    for tick in range(200):
        shift_s = min(tick, 100) * 0.00009  # 9 ms in all
        write_s = now + tick * 0.080 + shift_s + 0.001
        playout.write(write_s, frame)
        for k in range(4):
            slot_s = now + tick * 0.080 + shift_s + 0.008 + k * 0.020
            playout.next_packet(slot_s)
    assert playout.counters.trimmed_samples == 0
    assert playout.counters.underruns == 0


@pytest.mark.parametrize("shift_s", [-0.030, -0.009, 0.009, 0.030])
def test_missed_slots_are_counted_right_wherever_the_pacer_has_moved_its_grid(shift_s: float) -> None:
    playout = Playout()
    for slot in range(100):
        playout.next_packet(100.0 + slot * PACKET_S + shift_s * min(slot, 50) / 50)
    after_stall = playout.next_packet(100.0 + 105 * PACKET_S + shift_s)
    assert after_stall.timestamp == 105 * 960
    assert playout.counters.missed_slots == 5
