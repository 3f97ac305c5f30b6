from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtc_server.engine.client import Live
from rtc_server.errors import BadRequest, DigitsPending, NotConnected
from rtc_server.events import Numbered, SessionReady
from rtc_server.media import rtcp
from rtc_server.media.audioformat import AudioFormat
from rtc_server.media.codecs import make_decoder
from rtc_server.media.rtp import RtpPacket
from rtc_server.media.telephoneevent import MAX_QUEUED
from rtc_server.session.leg import Leg
from rtc_server.transports.sip.flow import Address
from tests.transports.sip.media.phones import (
    BELIEVED_S,
    HELD,
    OPUS,
    PCMA,
    PCMU,
    PHONE,
    PHONE_RTCP,
    PLAIN,
    WITH_DIGITS,
    Home,
    Phone,
    level,
)

LOUD = 0.3 / 2**0.5
STRANGER: Address = ("192.0.2.66", 5555)


def test_leg_is_one_of_a_session() -> None:
    leg: Leg = Home().leg
    assert leg.kind == "sip"


def test_nothing_flows_before_the_call_is_answered() -> None:
    home = Home(answered=False)
    assert home.leg.live is Live.NO
    assert not home.pacer._senders
    assert not home.wire.rtp
    home.leg.answer()
    home.leg.answer()
    assert home.leg.live is Live.YES
    assert list(home.pacer._senders.values()) == [home.leg]


def test_audio_flows_both_ways_once_it_is_answered() -> None:
    home = Home()
    Phone(home).say(100)
    assert min(level(frame) for frame in home.frames[3:]) == pytest.approx(LOUD, rel=0.1)
    packets = home.wire.packets
    assert home.wire.destinations == {PHONE}
    assert len(packets) == 100
    assert np.diff([packet.timestamp for packet in packets]).tolist() == [160] * 99
    assert [packet.marker for packet in packets] == [True] + [False] * 99
    decoder = make_decoder(PCMU)
    heard = [decoder.decode(packet.payload) for packet in packets]
    assert level(np.concatenate(heard[20:])) == pytest.approx(LOUD, rel=0.1)


def test_timestamp_told_for_a_frame_is_that_of_its_packet() -> None:
    home = Home()
    timestamp = home.leg.write(home.now, np.zeros(1920, np.float32))
    home.slot()
    assert home.wire.packets[0].timestamp == timestamp


def test_early_media_is_not_heard_late() -> None:
    home = Home(answered=False)
    phone = Phone(home)
    for _ in range(200):
        home.now += 0.02
        home.receive(phone.packet())
    home._frame_due_s = home.now + 0.08
    home.leg.answer()
    phone.say(50)
    assert home.leg.stats().jitter_delay_ms < 60
    assert level(home.frames[-1]) == pytest.approx(LOUD, rel=0.1)


def test_answer_that_comes_with_the_ack_finds_a_leg_that_is_live_and_silent() -> None:
    home = Home(None)
    home.receive(Phone(home).packet())
    home.pass_slots(8)
    assert home.leg.live is Live.YES
    assert not home.leg.expects_audio
    assert home.leg.skip(2) == 2
    assert [level(frame) for frame in home.frames] == [0.0, 0.0]
    assert home.leg.stats().loss == 0.0
    assert not home.wire.rtp
    home.leg.agree(PLAIN)
    Phone(home).say(50)
    assert level(home.frames[-1]) == pytest.approx(LOUD, rel=0.1)
    assert home.wire.destinations == {PHONE}


@pytest.mark.parametrize(
    "held",
    [
        HELD,
        replace(PLAIN, direction="inactive"),
        replace(PLAIN, direction="inactive", remote_rtp=None, remote_rtcp=None),
    ],
)
def test_on_hold_no_audio_is_sent_and_afterwards_it_begins_with_a_marker(held: object) -> None:
    home = Home()
    home.pass_slots(10)
    home.leg.agree(held)  # type: ignore[arg-type]
    home.pass_slots(100)
    assert len(home.wire.rtp) == 10
    home.leg.agree(PLAIN)
    home.pass_slots(10)
    first, *others = home.wire.packets[10:]
    assert first.marker and not any(packet.marker for packet in others)
    assert first.timestamp - home.wire.packets[9].timestamp == 101 * 160
    assert (first.sequence_number - home.wire.packets[9].sequence_number) & 0xFFFF == 1


def test_on_hold_without_direction_nothing_at_all_is_sent() -> None:
    home = Home()
    home.pass_slots(10)
    home.leg.agree(replace(PLAIN, direction="inactive", remote_rtp=None, remote_rtcp=None))
    reports = len(home.wire.rtcp)
    home.pass_slots(500)
    assert (len(home.wire.rtp), len(home.wire.rtcp)) == (10, reports)


def test_music_that_plays_on_hold_is_not_for_the_agent() -> None:
    home = Home()
    phone = Phone(home)
    for _ in range(2):
        home.leg.agree(HELD)
        home.leg.hold(True)
        assert not home.leg.expects_audio
        phone.say(50)
    assert {level(frame) for frame in home.frames} == {0.0}
    home.leg.agree(PLAIN)
    home.leg.hold(False)
    phone.say(20)
    assert level(home.frames[-1]) == pytest.approx(LOUD, rel=0.1)


def test_who_only_ever_talks_is_heard() -> None:
    home = Home(HELD)
    phone = Phone(home)
    for _ in range(2):
        phone.say(50)
        assert home.leg.expects_audio
        assert level(home.frames[-1]) == pytest.approx(LOUD, rel=0.1)
        home.leg.agree(HELD)


def test_resume_on_another_port_is_sent_there() -> None:
    home, other = Home(), ("203.0.113.9", 22_222)
    Phone(home).say(10)
    home.leg.agree(replace(PLAIN, direction="inactive", remote_rtp=None, remote_rtcp=None))
    home.pass_slots(50)
    home.wire.rtp.clear()
    home.leg.agree(replace(PLAIN, remote_rtp=other, remote_rtcp=("203.0.113.9", 22_223)))
    Phone(home, source=other).say(20)
    assert home.wire.destinations == {other}
    assert level(home.frames[-1]) == pytest.approx(LOUD, rel=0.1)


def test_silence_counts_only_while_audio_is_expected() -> None:
    home = Home()
    home.leg.agree(replace(PLAIN, direction="sendonly"))
    assert not home.leg.expects_audio
    home.now += 500
    home.leg.agree(PLAIN)
    assert home.leg.expects_audio
    assert home.leg.last_audio_s == home.now
    home.leg.hold(True)
    home.now += 500
    home.leg.hold(False)
    assert home.leg.expects_audio
    assert home.leg.last_audio_s == home.now


def test_peer_counts_as_alive_while_its_dialog_stands() -> None:
    home = Home()
    home.now += BELIEVED_S - 1
    assert home.leg.last_sign_of_life_s == home.now
    home.leg.keep_alive()
    home.now += 100
    assert home.leg.last_sign_of_life_s == home.now
    home.now += BELIEVED_S
    assert home.leg.last_sign_of_life_s < home.now - 3000


def test_codec_may_change_in_mid_call_in_both_directions() -> None:
    home = Home()
    phone = Phone(home)
    phone.say(50)
    home.leg.agree(replace(PLAIN, audio=PCMA))
    phone.change(PCMA)
    phone.say(50)
    home.leg.agree(replace(PLAIN, audio=OPUS))
    phone.change(OPUS)
    phone.say(50)
    assert min(level(frame) for frame in home.frames[3:]) > 0.7 * LOUD
    packets = home.wire.packets
    assert [packet.payload_type for packet in packets] == [0] * 50 + [8] * 50 + [111] * 50
    assert len({packet.ssrc for packet in packets}) == 1
    assert np.diff(np.unwrap([p.sequence_number for p in packets], period=65_536)).tolist() == [1] * 149
    assert np.diff([packet.timestamp for packet in packets]).tolist() == [160] * 100 + [960] * 49


def test_reports_go_to_the_port_of_rtcp_and_those_of_the_peer_tell_the_round_trip() -> None:
    home = Home()
    Phone(home).say(100)
    assert {destination for _, destination in home.wire.rtcp} == {PHONE_RTCP}
    report = next(item for item in home.wire.reports if isinstance(item, rtcp.SenderReport))
    assert report.reports[0].ssrc == 77
    sent_s = home.now
    last = [item for item in home.wire.reports if isinstance(item, rtcp.SenderReport)][-1]
    block = rtcp.ReportBlock(last.ssrc, 64, 9, 9, 0, last.ntp >> 16 & 0xFFFFFFFF, 0)
    home.now = sent_s + 0.1
    home.receive_rtcp(rtcp.ReceiverReport(77, (block,)))
    round_trip_ms = home.leg.stats().round_trip_ms
    assert round_trip_ms is not None and 90 < round_trip_ms < 1200


def test_rtcp_shares_the_port_where_that_was_agreed_on() -> None:
    home = Home(replace(PLAIN, remote_rtcp=PHONE, rtcp_mux=True))
    Phone(home).say(100)
    assert not home.wire.rtcp
    reports = [data for data, _ in home.wire.rtp if data[1] in (200, 201)]
    assert len(reports) >= 2
    home.receive(rtcp.serialize([rtcp.Bye((77,))]))
    assert home.leg.live is Live.YES


def test_events_of_the_session_reach_the_application() -> None:
    home = Home()
    assert home.leg.has_events and home.leg.event_room > 0
    event = Numbered(1, SessionReady())
    home.leg.send_event(event)
    assert home.events == [event]


def test_flush_drops_what_was_not_sent_yet() -> None:
    home = Home()
    home.pass_slots(8)
    home.leg.write(home.now, np.full(1920, 0.1, np.float32))
    flushed = home.leg.flush(home.now)
    assert flushed.dropped_ms > 60
    assert home.leg.played_ms() < flushed.played_ms + 1


def test_figures_name_loss_and_concealment() -> None:
    home = Home()
    phone = Phone(home)
    phone.say(50)
    for _ in range(10):
        phone.packet()
        home.slot()
    phone.say(100)
    stats = home.leg.stats()
    assert stats.concealed_ms >= 150
    assert stats.lateness_ms == 0.0


async def test_close_says_goodbye_frees_everything_and_tells_the_call_once() -> None:
    home = Home()
    Phone(home).say(10)
    await home.leg.close("hangup")
    await home.leg.close("again")
    home.leg.fail("again")
    assert isinstance(home.wire.reports[-1], rtcp.Bye)
    assert home.wire.closed == 1
    assert not home.pacer._senders
    assert (home.closed, home.handler.closed) == (["hangup"], [])
    assert home.leg.live is Live.NO
    ended_s = home.now
    home.now += 60
    assert home.leg.last_sign_of_life_s == ended_s
    home.leg.answer()
    assert not home.pacer._senders


async def test_leg_that_was_never_answered_closes_without_a_packet() -> None:
    for agreed in (PLAIN, None):
        home = Home(agreed, answered=False)
        await home.leg.close("cancelled")
        assert not home.wire.rtp and not home.wire.rtcp
        assert home.wire.closed == 1


def test_defect_while_sending_ends_the_call_and_is_told_to_the_session() -> None:
    home = Home()
    home.leg.fail("internal_error")
    home.leg.fail("internal_error")
    assert (home.closed, home.handler.closed) == (["internal_error"], ["internal_error"])
    assert home.wire.closed == 1


def test_defect_while_receiving_ends_this_call_only(monkeypatch: pytest.MonkeyPatch) -> None:
    home, neighbour = Home(), Home()

    def defect(*arguments: object) -> bool:
        raise RuntimeError("a defect")

    monkeypatch.setattr(home.leg._rtp, "receive", defect)
    home.receive(Phone(home).packet())
    assert home.closed == ["internal_error"]
    Phone(neighbour).say(10)
    assert not neighbour.closed


def test_flood_of_a_third_host_costs_the_caller_nothing() -> None:
    home = Home()
    phone = Phone(home)
    phone.say(20)
    strange = Phone(home, source=STRANGER, ssrc=5)
    sprayed = [strange.packet() for _ in range(40)]
    for _ in range(50):
        for data in sprayed:
            home.receive(data, STRANGER)
        phone.say(1)
    assert home.leg._rtp.jitter_buffer.counters.packets == 70
    assert home.leg.stats().concealed_ms == 0


def test_flood_of_the_peer_is_cut_to_its_limit() -> None:
    home = Home()
    phone = Phone(home)
    for _ in range(3000):
        home.receive(phone.packet())
    assert home.leg._rtp.jitter_buffer.counters.packets <= 501


def test_empty_and_cut_off_datagrams_change_nothing() -> None:
    home = Home()
    good = Phone(home).packet()
    for length in range(len(good)):
        home.receive(good[:length])
        home.leg._receive_rtcp(good[:length], PHONE_RTCP)
    home.slot()
    assert not home.closed


@settings(max_examples=60)
@given(st.lists(st.tuples(st.booleans(), st.sampled_from([PHONE, PHONE_RTCP, STRANGER]), st.binary(max_size=80))))
def test_whatever_comes_the_call_goes_on(datagrams: list[tuple[bool, Address, bytes]]) -> None:
    home = Home()
    for on_rtcp, source, data in datagrams:
        receive = home.leg._receive_rtcp if on_rtcp else home.leg._receive_rtp
        receive(data, source)
        receive(b"\x80\x00" + data, source)
        receive(b"\x80\xc8" + data, source)
        receive(b"\x80\x65" + data, source)
    home.pass_slots(8)
    assert not home.closed
    assert home.leg.live is Live.YES


def test_digits_need_an_agreement() -> None:
    with pytest.raises(NotConnected, match="no media") as early:
        Home(None).leg.send_digits("1")
    with pytest.raises(BadRequest, match="telephone events") as refused:
        Home(replace(PLAIN, telephone_event=None)).leg.send_digits("1")
    with pytest.raises(BadRequest, match="no key") as wrong:
        Home(WITH_DIGITS).leg.send_digits("1x")
    assert early.value.hint and "telephone-event" in refused.value.hint and "0-9" in wrong.value.hint


def test_digits_wait_up_to_a_bound_and_may_be_sent_again_later() -> None:
    home = Home(WITH_DIGITS)
    home.leg.send_digits("1" * MAX_QUEUED)
    with pytest.raises(DigitsPending) as pending:
        home.leg.send_digits("2")
    assert pending.value.hint
    home.pass_slots(20)
    home.leg.send_digits("2")


def test_comfort_noise_stands_for_silence_and_is_no_loss() -> None:
    home = Home()
    phone = Phone(home)
    phone.say(50)
    noise = RtpPacket(13, phone.sequence_number & 0xFFFF, phone.timestamp & 0xFFFFFFFF, 77, bytes([40])).serialize()
    phone.sequence_number += 1
    home.receive(noise)
    phone.pause(100)
    phone.say(50)
    assert home.leg.stats().concealed_ms == 0
    assert home.leg._rtp.jitter_buffer.counters.lost_samples == 0
    assert 0.001 < level(home.frames[25]) < 0.1


@pytest.mark.parametrize("ptime_ms", [10, 20])
def test_packets_are_as_long_as_the_peer_wants_them(ptime_ms: int) -> None:
    home = Home(replace(PLAIN, ptime_ms=ptime_ms))
    home.pass_slots(20)
    assert {len(packet.payload) for packet in home.wire.packets} == {8 * ptime_ms}
    assert len(home.wire.rtp) == 400 // ptime_ms


def test_peers_packets_may_have_any_length() -> None:
    home = Home(replace(PLAIN, audio=AudioFormat("PCMU", 0, 8000)))
    phone = Phone(home)
    joined = b""
    for _ in range(30):
        joined = b"".join(RtpPacket.parse(phone.packet()).payload for _ in range(2))
        phone.timestamp -= 160
        packet = RtpPacket(0, phone.sequence_number & 0xFFFF, (phone.timestamp - 160) & 0xFFFFFFFF, 77, joined)
        phone.timestamp += 160
        phone.sequence_number -= 1
        home.receive(packet.serialize())
        home.pass_slots(2)
    assert level(home.frames[-1]) == pytest.approx(LOUD, rel=0.1)
