"""Packets that carry copies of the ones before them (RFC 2198): what a copy is used for, and what it must not touch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtc_server.media.frames import FRAME_S, PACKET_S
from rtc_server.media.jitterbuffer import JitterBuffer
from tests.media.calls import SETTLED, Call, call
from tests.media.decoders import CountingDecoder
from tests.media.network import Network


def counted(count: int) -> list[bytes]:
    return [CountingDecoder.payload(k * 480) for k in range(count)]


def buffer_with(packets: range) -> JitterBuffer:
    """A buffer that has these packets of the first 30, and has given out some frames."""
    buffer = JitterBuffer(CountingDecoder)
    for k in range(30):
        if k in packets:
            buffer.put((k + 1) * PACKET_S, k, k * 960, CountingDecoder.payload(k * 480))
        if k % 4 == 3:
            buffer.take((k + 1) * PACKET_S + 0.012)
    return buffer


def test_lost_packet_is_taken_from_its_copy() -> None:
    heard = call(counted(200), Network(lost=(101, 121, 141)), buffer=JitterBuffer(CountingDecoder), copies=1)
    counters = heard.buffer.counters
    assert counters.recovered_packets == 3
    assert counters.lost_samples == counters.concealed_samples == 0
    assert (np.diff(CountingDecoder.positions(heard.pcm)) == 1).all()


@pytest.mark.parametrize("copies", [1, 2])
def test_copies_repair_runs_as_long_as_their_number(copies: int) -> None:
    heard = call(
        counted(400), Network(lost=tuple(range(200, 203))), buffer=JitterBuffer(CountingDecoder), copies=copies
    )
    counters = heard.buffer.counters
    assert counters.recovered_packets == copies
    assert counters.lost_samples == (3 - copies) * 480


@pytest.mark.parametrize("network", [Network(), Network(jitter_ms=40.0), Network(jitter_ms=60.0, shape="iid")])
def test_copies_change_nothing_where_nothing_is_lost(network: Network) -> None:
    payloads = counted(1000)
    without = call(payloads, network, buffer=JitterBuffer(CountingDecoder))
    beside = call(payloads, network, buffer=JitterBuffer(CountingDecoder), copies=2)
    assert beside.targets_ms == without.targets_ms
    assert beside.buffer.counters.packets == without.buffer.counters.packets
    assert beside.buffer.counters.late <= without.buffer.counters.late
    if network == Network():
        np.testing.assert_array_equal(beside.pcm, without.pcm)
        assert beside.buffer.counters == without.buffer.counters


@pytest.mark.parametrize("loss", [0.05, 0.2])
@pytest.mark.parametrize("copies", [1, 2])
def test_repaired_losses_add_no_delay(loss: float, copies: int) -> None:
    for seed, phase_s in enumerate((0.007, 0.033, 0.059)):
        heard = call(
            counted(1500),
            Network(loss=loss),
            buffer=JitterBuffer(CountingDecoder),
            copies=copies,
            seed=seed,
            phase_s=phase_s,
        )
        assert max(heard.delays_ms[SETTLED:]) - min(heard.delays_ms[SETTLED:]) < 0.01
        counters = heard.buffer.counters
        assert counters.recovered_packets > 0.7 * loss * 1500
        assert counters.late == counters.duplicates == counters.discarded == 0


def test_packet_that_comes_after_its_copy_was_used_is_a_duplicate() -> None:
    buffer = buffer_with(range(28))
    buffer.put(0.60, 29, 29 * 960, CountingDecoder.payload(29 * 480))
    buffer.put(0.60, 28, 28 * 960, CountingDecoder.payload(28 * 480), redundant=True)
    assert buffer.counters.recovered_packets == 1
    buffer.put(0.61, 28, 28 * 960, CountingDecoder.payload(28 * 480))
    assert buffer.counters.duplicates == 1
    assert buffer.counters.late == buffer.counters.discarded == 0


def test_packet_that_comes_while_its_copy_waits_takes_its_place() -> None:
    buffer = buffer_with(range(26))
    buffer.put(0.60, 29, 29 * 960, CountingDecoder.payload(29 * 480))
    buffer.put(0.60, 28, 28 * 960, CountingDecoder.payload(28 * 480), redundant=True)
    for k in (28, 26, 27):
        buffer.put(0.605, k, k * 960, CountingDecoder.payload(k * 480))
    assert buffer.counters.recovered_packets == 0
    assert buffer.counters.duplicates == buffer.counters.lost_samples == 0


@pytest.mark.parametrize(
    ("sequence_number", "timestamp", "payload", "ssrc"),
    [
        pytest.param(31, 31 * 960, CountingDecoder.payload(31 * 480), 0, id="of the future"),
        pytest.param(2, 2 * 960, CountingDecoder.payload(2 * 480), 0, id="of the past"),
        pytest.param(28, 2**31, CountingDecoder.payload(28 * 480), 0, id="of another time"),
        pytest.param(28, 28 * 960, CountingDecoder.payload(28 * 480), 9, id="of another source"),
        pytest.param(28, 28 * 960, b"", 0, id="empty"),
        pytest.param(28, 28 * 960, b"?", 0, id="of no codec"),
        pytest.param(28, 28 * 960, b"\0\0\0\0\1\xe0", 0, id="corrupt"),
    ],
)
def test_useless_copies_leave_no_trace(sequence_number: int, timestamp: int, payload: bytes, ssrc: int) -> None:
    heard = []
    for copies in (0, 1):
        buffer = buffer_with(range(28))
        buffer.put(0.60, 29, 29 * 960, CountingDecoder.payload(29 * 480))
        if copies:
            buffer.put(0.60, sequence_number, timestamp, payload, ssrc, redundant=True)
        frames = [buffer.take(0.60 + 0.012 + tick * FRAME_S) for tick in range(3)]
        heard.append((np.concatenate(frames), buffer.counters, buffer.target_ms))
    np.testing.assert_array_equal(heard[0][0], heard[1][0])
    assert heard[0][1:] == heard[1][1:]


def test_copies_before_the_first_packet_and_of_a_replaced_source_are_ignored() -> None:
    buffer = JitterBuffer(CountingDecoder)
    buffer.put(0.0, 5, 5 * 960, CountingDecoder.payload(5 * 480), 1, redundant=True)
    assert not buffer.take(0.08).any()
    for k in range(6, 20):
        buffer.put(k * PACKET_S, k, k * 960, CountingDecoder.payload(k * 480), 1)
    buffer.put(0.4, 800, 777, CountingDecoder.payload(0), 2)
    buffer.put(0.4, 20, 20 * 960, CountingDecoder.payload(20 * 480), 1, redundant=True)
    assert buffer.counters.recovered_packets == 0


def test_a_standstill_is_still_played_late_where_copies_are_sent() -> None:
    payloads = counted(400)
    without = call(payloads, Network(standstills=((4.0, 0.15),)), buffer=JitterBuffer(CountingDecoder))
    beside = call(payloads, Network(standstills=((4.0, 0.15),)), buffer=JitterBuffer(CountingDecoder), copies=2)
    assert without.buffer.counters.replayed_samples > 1000
    np.testing.assert_array_equal(beside.pcm, without.pcm)


COPIES = st.lists(
    st.tuples(st.floats(0, 0.05), st.integers(-6, 6), st.integers(-5000, 5000), st.booleans(), st.integers(1, 2)),
    max_size=80,
)


@settings(max_examples=60, deadline=None)
@given(COPIES)
def test_no_copy_breaks_the_order(copies: list[tuple[float, int, int, bool, int]]) -> None:
    """Copies with any numbers: what is heard is in order, and what the delay is made of stays as it was."""
    running = Call(JitterBuffer(CountingDecoder))
    plain = Call(JitterBuffer(CountingDecoder))
    for k in range(200):
        now = (k + 1) * PACKET_S
        kept = k % 7 not in (3, 4)
        if kept:
            for buffer in (running.buffer, plain.buffer):
                buffer.put(now, k, k * 960, CountingDecoder.payload(k * 480), 1)
        if kept and k < len(copies):
            wait, step, offset, honest, ssrc = copies[k]
            number = max(0, k - abs(step)) if honest else k + step
            timestamp = number * 960 if honest else (k * 960 + offset) & 0xFFFFFFFF
            payload = CountingDecoder.payload(max(0, timestamp // 2))
            running.buffer.put(now + wait / 10, number & 0xFFFF, timestamp, payload, ssrc, redundant=True)
        if k % 4 == 3:
            running.tick(now + 0.012)
            plain.tick(now + 0.012)
    assert (np.diff(CountingDecoder.positions(running.pcm)) >= 1).all()
    assert running.targets_ms == plain.targets_ms
    assert running.buffer.counters.packets == plain.buffer.counters.packets
