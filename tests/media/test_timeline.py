from __future__ import annotations

from rtc_server.media.jitterconfig import JitterConfig
from rtc_server.media.timeline import Arrival, Placed, Timeline

PACKET_S = 0.02
DELAY = 720.0
"""30 ms between a packet's end and its arrival."""


class Stream:
    """Packets of 20 ms that arrive when they should, unless told otherwise."""

    def __init__(self, clock_hz: int = 48_000) -> None:
        self.timeline = Timeline(clock_hz, JitterConfig())
        self._known = False

    def packet(self, k: int, sequence_number: int, timestamp: int, ssrc: int = 1, late_s: float = 0.0) -> Placed:
        now = (k + 1) * PACKET_S + DELAY / 24_000 + late_s
        usual = DELAY if self._known else None
        self._known = True
        end = self.timeline.newest_position + 480
        return self.timeline.place(now, sequence_number & 0xFFFF, timestamp & 0xFFFFFFFF, ssrc, 480, usual, end)


def test_positions_follow_timestamps_over_both_wraps() -> None:
    stream = Stream()
    placed = [stream.packet(k, 65_530 + k, 2**32 - 4800 + 960 * k) for k in range(20)]
    assert placed == [(Arrival.FITS, 480 * k) for k in range(20)]


def test_clock_of_telephony_is_scaled() -> None:
    stream = Stream(clock_hz=8000)
    assert [stream.packet(k, k, 160 * k).position for k in range(3)] == [0, 480, 960]


def test_late_and_repeated_packets_are_told() -> None:
    stream = Stream()
    for k in (0, 1, 3):
        stream.packet(k, k, 960 * k)
    assert stream.packet(3, 2, 1920) == (Arrival.FITS, 960)
    assert stream.packet(3, 3, 2880).arrival is Arrival.DUPLICATE


def test_timestamp_that_goes_back_while_the_sequence_goes_on_moves_the_time_line() -> None:
    stream = Stream()
    for k in range(10):
        stream.packet(k, k, 50_000 + 960 * k)
    assert stream.packet(10, 10, 0) == (Arrival.MOVED, 4800)
    assert stream.packet(11, 11, 960) == (Arrival.FITS, 5280)


def test_new_source_goes_on_where_the_old_one_ended_and_its_stragglers_are_told() -> None:
    stream = Stream()
    for k in range(10):
        stream.packet(k, k, 960 * k)
    assert stream.packet(10, 9000, 77, ssrc=2) == (Arrival.NEW_SOURCE, 4800)
    assert stream.packet(10, 10, 9600, ssrc=1).arrival is Arrival.STRAGGLER
    assert stream.packet(11, 9001, 77 + 960, ssrc=2) == (Arrival.FITS, 5280)
    assert stream.packet(110, 11, 9600, ssrc=1).arrival is Arrival.NEW_SOURCE


def test_packet_far_ahead_of_its_time_moves_the_time_line() -> None:
    stream = Stream()
    for k in range(10):
        stream.packet(k, k, 960 * k)
    assert stream.packet(10, 5010, 9600 + 40 * 48_000) == (Arrival.MOVED, 4800)


def test_one_late_burst_moves_nothing_but_lasting_lateness_does() -> None:
    stream = Stream()
    for k in range(10):
        stream.packet(k, k, 960 * k)
    burst = [stream.packet(10 + k, 10 + k, 960 * (10 + k), late_s=0.5 - k * PACKET_S) for k in range(10)]
    assert {placed.arrival for placed in burst} == {Arrival.FITS}
    assert stream.packet(20, 20, 960 * 20).arrival is Arrival.FITS
    lasting = [stream.packet(21 + k, 21 + k, 960 * (21 + k), late_s=0.5).arrival for k in range(10)]
    assert lasting.count(Arrival.MOVED) == 1


def test_locating_a_packet_moves_and_remembers_nothing() -> None:
    stream = Stream()
    assert stream.timeline.locate(0, 1) is None
    for k in (0, 1, 4):
        stream.packet(k, k, 960 * k)
    assert stream.timeline.locate(960 * 2, 1) == 480 * 2
    assert stream.timeline.locate(960 * 90, 1) == 480 * 90
    assert stream.timeline.locate(2**32 - 960, 1) == -480
    assert stream.timeline.locate(960 * 2, 5) is None
    assert stream.timeline.newest_position == 480 * 4
    assert stream.packet(2, 2, 960 * 2) == (Arrival.FITS, 480 * 2)
