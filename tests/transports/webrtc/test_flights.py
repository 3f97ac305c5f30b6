from __future__ import annotations

from rtc_server.transports.webrtc.flights import MAX_FLIGHT_DATAGRAMS, REPEAT_AT_S, FlightRepeater
from tests.transports.webrtc.virtualtime import VirtualTime

HELLO = b"\x16server hello"
FINISHED = b"\x14change cipher spec, finished"
APPLICATION = b"\x17data"


class Rig:
    def __init__(self) -> None:
        self.time = VirtualTime()
        self.sent: list[tuple[float, bytes]] = []
        self.flights = FlightRepeater(lambda data: self.sent.append((self.time.now, data)), self.time.call_later)


def test_unanswered_flight_is_repeated_byte_for_byte_four_times() -> None:
    rig = Rig()
    rig.flights.on_sent(HELLO)
    rig.time.advance(10)
    assert [data for _, data in rig.sent] == [HELLO] * 4
    assert [round(at_s, 3) for at_s, _ in rig.sent] == list(REPEAT_AT_S)
    assert rig.flights.repeated == 4


def test_all_datagrams_of_a_flight_are_repeated_in_order() -> None:
    rig = Rig()
    rig.flights.on_sent(HELLO)
    rig.flights.on_sent(b"\x16more")
    rig.time.advance(0.1)
    assert [data for _, data in rig.sent] == [HELLO, b"\x16more"]


def test_answer_of_the_peer_begins_a_new_flight() -> None:
    rig = Rig()
    rig.flights.on_sent(HELLO)
    rig.flights.on_received()
    rig.flights.on_sent(FINISHED)
    rig.time.advance(0.1)
    assert [data for _, data in rig.sent] == [FINISHED]


def test_answer_alone_does_not_stop_the_repetition() -> None:
    """The peer repeats its own flight when ours was lost: that is no proof that ours arrived."""
    rig = Rig()
    rig.flights.on_sent(HELLO)
    rig.flights.on_received()
    rig.time.advance(0.1)
    assert [data for _, data in rig.sent] == [HELLO]


def test_last_flight_is_repeated_until_the_peer_proves_that_it_has_finished() -> None:
    rig = Rig()
    rig.flights.on_sent(FINISHED)
    rig.time.advance(0.07)
    rig.flights.stop()
    rig.time.advance(10)
    assert len(rig.sent) == 1
    rig.flights.on_sent(HELLO)
    rig.time.advance(10)
    assert len(rig.sent) == 1


def test_application_records_are_no_flight() -> None:
    rig = Rig()
    rig.flights.on_sent(APPLICATION)
    rig.time.advance(10)
    assert not rig.sent


def test_what_openssl_repeats_by_itself_replaces_the_flight() -> None:
    rig = Rig()
    rig.flights.on_sent(HELLO)
    rig.time.advance(1.0)
    rig.sent.clear()
    rig.flights.on_sent(b"\x16hello with another record number")
    rig.time.advance(0.1)
    assert [data for _, data in rig.sent] == [b"\x16hello with another record number"]


def test_flight_is_bounded() -> None:
    rig = Rig()
    for _ in range(100):
        rig.flights.on_sent(HELLO)
    rig.time.advance(0.06)
    assert len(rig.sent) == MAX_FLIGHT_DATAGRAMS
