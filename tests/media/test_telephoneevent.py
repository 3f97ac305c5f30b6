from __future__ import annotations

from collections.abc import Iterable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtc_server.errors import DigitsPending
from rtc_server.media.telephoneevent import (
    DIGITS,
    ENDS_SENT,
    MAX_DURATION,
    MAX_QUEUED,
    SILENCE_ENDS_S,
    DigitReceiver,
    DigitSender,
    EventPacket,
    TelephoneEvent,
)

Heard = tuple[float, int, TelephoneEvent]
"""When, timestamp, event."""


def press(digit: str, timestamp: int, at_s: float = 0.0, slots: int = 5) -> list[Heard]:
    """A key held for some slots at 8 kHz, as a good sender says it."""
    code = DIGITS.index(digit)
    said = [TelephoneEvent(code, end=False, duration=160 * slot) for slot in range(1, slots)]
    said += [TelephoneEvent(code, end=True, duration=160 * slots)] * ENDS_SENT
    return [(at_s + 0.02 * slot, timestamp, event) for slot, event in enumerate(said)]


def hear(packets: Iterable[Heard], receiver: DigitReceiver | None = None, until_s: float | None = None) -> str:
    """All digits told, polling where nothing comes."""
    receiver = receiver or DigitReceiver()
    now, told = 0.0, []
    for at_s, timestamp, event in packets:
        now = max(now, at_s)
        told += [receiver.poll(now), receiver.receive(now, event.to_bytes(), timestamp)]
    for _ in range(3):
        told.append(receiver.poll(now if until_s is None else until_s))
    return "".join(digit for digit in told if digit is not None)


def send(sender: DigitSender, slots: int, timestamp: int = 1000) -> list[EventPacket | None]:
    return [sender.next((timestamp + 160 * slot) & 0xFFFFFFFF) for slot in range(slots)]


def events(packets: Iterable[EventPacket | None]) -> list[TelephoneEvent]:
    parsed = [TelephoneEvent.parse(packet.payload) for packet in packets if packet is not None]
    return [event for event in parsed if event is not None]


def test_payload_is_that_of_the_standard() -> None:
    assert TelephoneEvent(code=11, end=True, duration=0x0320, volume=10).to_bytes() == bytes([11, 0x8A, 3, 0x20])
    assert TelephoneEvent.parse(bytes([16, 0x3F, 0xFF, 0xFE])) == TelephoneEvent(16, False, 0xFFFE, 63)
    assert TelephoneEvent.parse(bytes([1, 0xC0, 0, 0])) == TelephoneEvent(1, True, 0, 0)  # the reserved bit is set


@given(st.binary(max_size=12))
def test_only_four_bytes_are_an_event(payload: bytes) -> None:
    assert (TelephoneEvent.parse(payload) is not None) == (len(payload) == 4)


# ---- receiving -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("digit", DIGITS)
def test_each_key_is_told_once_when_its_end_is_heard(digit: str) -> None:
    receiver = DigitReceiver()
    said = press(digit, 4711)
    assert hear(said[:4], receiver) == ""
    assert receiver.receive(0.08, said[4][2].to_bytes(), 4711) == digit
    assert hear(said[5:], receiver, until_s=9.0) == ""


def test_the_same_key_twice_is_two_digits() -> None:
    assert hear(press("5", 0) + press("5", 1600, 0.2)) == "55"


@pytest.mark.parametrize("kept", range(7))
def test_one_packet_of_an_event_is_enough(kept: int) -> None:
    assert hear([press("9", 80)[kept]], until_s=1.0) == "9"


def test_a_digit_whose_end_is_lost_is_told_after_a_silence() -> None:
    receiver = DigitReceiver()
    assert hear(press("3", 0)[:3], receiver) == ""
    assert receiver.poll(0.04 + SILENCE_ENDS_S - 0.001) is None
    assert receiver.poll(0.04 + SILENCE_ENDS_S) == "3"
    assert receiver.poll(9.0) is None


def test_its_end_that_comes_after_all_is_a_copy() -> None:
    receiver = DigitReceiver()
    assert hear(press("3", 0)[:3], receiver, until_s=0.5) == "3"
    assert hear(press("3", 0, 0.6), receiver, until_s=2.0) == ""


def test_a_digit_whose_end_is_lost_is_told_when_the_next_begins() -> None:
    receiver = DigitReceiver()
    assert hear(press("1", 0)[:4], receiver) == ""
    assert receiver.receive(0.15, press("2", 1200)[0][2].to_bytes(), 1200) == "1"
    assert receiver.poll(9.0) == "2"


def test_one_packet_that_ends_two_digits_tells_both_in_turn() -> None:
    receiver = DigitReceiver()
    hear(press("1", 0)[:4], receiver)
    assert receiver.receive(0.15, press("2", 1200)[-1][2].to_bytes(), 1200) == "1"
    assert receiver.poll(0.15) == "2"


def test_late_packets_of_the_digit_before_are_no_digit() -> None:
    first, second = press("1", 0), press("2", 1600, 0.2)
    assert hear(first[:4] + second[:2] + first[4:] + second[2:]) == "12"


def test_what_comes_late_from_before_the_running_digit_does_not_end_it() -> None:
    first, second = press("1", 0), press("2", 1600)
    assert hear(second[:2] + first + second[2:]) == "2"


def test_timestamps_wrap() -> None:
    assert hear(press("7", 0xFFFFFF00) + press("8", 0x200, 0.2)) == "78"


def test_a_stream_that_starts_anew_with_earlier_timestamps_is_heard() -> None:
    assert hear(press("7", 0x70000000) + press("8", 5, 0.5)) == "78"


def long_press(lost: frozenset[int] = frozenset()) -> list[Heard]:
    """20 s at 8 kHz: three segments, of which only the last one has an end."""
    packets, start, code = [], 500, DIGITS.index("#")
    for slot in range(1, 1001):
        duration = 160 * slot
        segment, lasted = divmod(duration, MAX_DURATION)
        event = TelephoneEvent(code, end=slot == 1000, duration=lasted)
        packets.append((0.02 * slot, start + segment * MAX_DURATION, event))
    return [packet for index, packet in enumerate(packets) if index not in lost]


@pytest.mark.parametrize("lost", [(), range(405, 412), range(409), range(600, 620), range(990, 1000)])
def test_an_event_in_segments_is_one_digit(lost: Iterable[int]) -> None:
    assert hear(long_press(frozenset(lost)), until_s=99.0) == "#"


def test_segments_behind_an_end_that_was_assumed_are_no_digit() -> None:
    assert hear(long_press(frozenset(range(380, 405)))) == "#"  # half a second is lost


@pytest.mark.parametrize("code", [16, 17, 32, 255])
def test_flash_and_other_events_are_no_digit(code: int) -> None:
    assert hear([(0.0, 5, TelephoneEvent(code, end=True, duration=800))], until_s=9.0) == ""


@pytest.mark.parametrize("payload", [b"", b"\x01", b"\x01\x8a\x03", b"\x01\x8a\x03\x20\x00", bytes(400)])
def test_malformed_payloads_are_ignored_and_the_digit_goes_on(payload: bytes) -> None:
    receiver = DigitReceiver()
    hear(press("4", 9)[:3], receiver)
    assert receiver.receive(0.05, payload, 9) is None
    assert hear(press("4", 9)[3:], receiver) == "4"


def test_another_code_under_the_same_timestamp_is_ignored() -> None:
    mixed = press("4", 9)
    mixed[2:2] = press("6", 9)
    assert hear(mixed, until_s=9.0) == "4"


@given(
    st.text(DIGITS, min_size=1, max_size=6),
    st.integers(0, 0xFFFFFFFF),
    st.sampled_from([8000, 16_000, 48_000]),
    st.randoms(use_true_random=False),
)
def test_what_is_sent_is_heard_through_loss_copies_and_disorder(
    digits: str, start: int, clock_hz: int, random: Random
) -> None:
    sender, shuffled = DigitSender(clock_hz), []
    sender.queue(digits)
    for slot in range(10 * len(digits)):
        packet = sender.next((start + slot * clock_hz // 50) & 0xFFFFFFFF)
        if packet is not None:
            copies = random.choice([1, 1, 2]) if packet.marker else random.choice([0, 1, 1, 2])
            for _ in range(copies):
                shuffled.append((slot * 0.02 + random.uniform(0, 0.05), packet))
    shuffled.sort(key=lambda arrival: arrival[0])
    receiver, heard = DigitReceiver(), []
    for now, packet in shuffled:
        heard += [receiver.poll(now), receiver.receive(now, packet.payload, packet.timestamp)]
    heard += [receiver.poll(9.0), receiver.poll(9.0)]
    assert "".join(digit for digit in heard if digit) == digits


@given(st.lists(st.tuples(st.binary(max_size=6), st.integers(0, 0xFFFFFFFF), st.floats(0, 1)), max_size=60))
def test_any_packets_tell_at_most_a_digit_each(packets: list[tuple[bytes, int, float]]) -> None:
    receiver, now, told = DigitReceiver(), 0.0, 0
    for payload, timestamp, later_s in packets:
        now += later_s
        told += receiver.receive(now, payload, timestamp) is not None
        told += receiver.poll(now) is not None
    told += sum(receiver.poll(now + 9) is not None for _ in range(3))
    assert told <= len(packets)


# ---- sending ---------------------------------------------------------------------------------------------------------


def test_a_digit_grows_for_100_ms_and_its_end_is_said_three_times() -> None:
    sender = DigitSender(8000)
    sender.queue("5")
    sent = send(sender, 10)
    assert [(event.code, event.end, event.duration) for event in events(sent)] == [
        (5, False, 160),
        (5, False, 320),
        (5, False, 480),
        (5, False, 640),
        (5, True, 800),
        (5, True, 800),
        (5, True, 800),
    ]
    packets = [packet for packet in sent[:7] if packet is not None]
    assert {packet.timestamp for packet in packets} == {1000}
    assert [packet.marker for packet in packets] == [True] + 6 * [False]
    assert sent[7:] == [None] * 3


@pytest.mark.parametrize(("clock_hz", "unit"), [(8000, 160), (16_000, 320), (48_000, 960)])
def test_durations_count_the_clock_of_the_events(clock_hz: int, unit: int) -> None:
    sender = DigitSender(clock_hz)
    sender.queue("0")
    assert [event.duration for event in events(send(sender, 7))] == [unit * slots for slots in (1, 2, 3, 4, 5, 5, 5)]


def test_digits_are_100_ms_apart_and_audio_goes_on_between_them() -> None:
    sender = DigitSender(8000)
    sender.queue("12")
    sent = send(sender, 22)
    assert [slot for slot, packet in enumerate(sent) if packet is None] == [7, 8, 9, 17, 18, 19, 20, 21]
    starts = [packet.timestamp for packet in sent if packet is not None and packet.marker]
    assert starts == [1000, 1000 + 1600]


def test_length_and_pause_are_as_asked_for() -> None:
    sender = DigitSender(8000, digit_ms=240, pause_ms=60)
    sender.queue("12")
    sent = send(sender, 32)
    assert events(sent[:12])[-1] == TelephoneEvent(1, True, 12 * 160)
    assert [slot for slot, packet in enumerate(sent) if packet is not None and packet.marker] == [0, 15]


def test_active_until_the_last_end_is_sent() -> None:
    sender = DigitSender(8000)
    assert not sender.active
    sender.queue("12")
    active = []
    for slot in range(25):
        active.append(sender.active)
        sender.next(slot * 160)
    assert active == [True] * 17 + [False] * 8
    sender.queue("3")
    assert sender.active and sender.next(9000) == EventPacket(TelephoneEvent(3, False, 160).to_bytes(), 9000, True)


def test_a_digit_queued_while_another_is_sent_waits_for_it_and_its_pause() -> None:
    sender = DigitSender(8000)
    sender.queue("1")
    send(sender, 9)
    sender.queue("2")
    assert send(sender, 1) == [None]
    assert events(send(sender, 1)) == [TelephoneEvent(2, False, 160)]


def test_small_letters_are_keys_too() -> None:
    sender = DigitSender(8000)
    sender.queue("*#aD")
    codes = [event.code for event in events(send(sender, 40))]
    assert [codes[at] for at in range(0, 28, 7)] == [10, 11, 12, 15]


@pytest.mark.parametrize("digits", ["1e", "5 5", "+49", "1,2", "\u0661", "\u00df"])
def test_what_is_no_key_is_refused_as_a_whole(digits: str) -> None:
    sender = DigitSender(8000)
    with pytest.raises(ValueError, match="no key of a phone"):
        sender.queue(digits)
    assert not sender.active


def test_queue_has_a_bound() -> None:
    sender = DigitSender(8000)
    sender.queue("1" * MAX_QUEUED)
    with pytest.raises(DigitsPending, match=str(MAX_QUEUED)):
        sender.queue("2")
    send(sender, 1)
    sender.queue("2")


def test_a_digit_longer_than_a_segment_is_refused() -> None:
    DigitSender(48_000, digit_ms=1360)
    with pytest.raises(ValueError, match="too long at 48000 Hz"):
        DigitSender(48_000, digit_ms=1380)
