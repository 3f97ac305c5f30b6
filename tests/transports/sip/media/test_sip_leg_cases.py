"""What phones and their networks do to a call, as it was met in the field."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rtc_server.media.audioformat import AudioFormat
from rtc_server.media.rtp import RtpPacket
from rtc_server.session.liveness import LivenessRules, Verdict
from rtc_server.transports.sip.flow import Address
from rtc_server.transports.sip.negotiation.agreedmedia import AgreedMedia, LocalMedia, MediaPolicy
from rtc_server.transports.sip.negotiation.offeranswer import MediaNegotiation
from tests.logs import captured_logs
from tests.transports.sip.media.phones import PHONE, PLAIN, Home, Phone, level

DATA = Path(__file__).parents[3] / "data"
LOUD = 0.3 / 2**0.5
NAT: Address = ("198.51.100.7", 40_123)
STRANGER: Address = ("192.0.2.66", 5555)


def recorded(name: str) -> list[tuple[float, bytes]]:
    """(seconds, packet) of a stream."""
    (path,) = (DATA / "rtp").glob(f"{name}_*.json")
    fields: list[list[Any]] = json.loads(path.read_text())["packets"]
    return [
        (at_ms / 1000, RtpPacket(kind, number, timestamp, ssrc, bytes.fromhex(payload), bool(marker)).serialize())
        for at_ms, number, timestamp, ssrc, kind, marker, payload in fields
    ]


def play(home: Home, packets: list[tuple[float, bytes]], source: Address = PHONE) -> None:
    start_s, waiting = home.now, list(packets)
    while waiting:
        while waiting and start_s + waiting[0][0] <= home.now + 1e-6:
            home.receive(waiting.pop(0)[1], source)
        home.slot()


def agreed_from(name: str, codecs: tuple[Any, ...]) -> AgreedMedia:
    return answered(name, codecs)[0]


def answered(name: str, codecs: tuple[Any, ...]) -> tuple[AgreedMedia, str]:
    """What is agreed on, and the description that says so."""
    negotiation = MediaNegotiation(LocalMedia("203.0.113.50", 30_000, 30_001), MediaPolicy(codecs=codecs))
    answer = negotiation.answer_offer((DATA / "sip" / name).read_bytes())
    assert negotiation.agreed is not None
    return negotiation.agreed, answer.decode()


def test_another_source_after_a_transfer_is_heard_from_the_same_address() -> None:
    home = Home(replace(PLAIN, audio=AudioFormat("opus", 111, 48_000)))
    packets = recorded("R02")
    assert len({RtpPacket.parse(data).ssrc for _, data in packets}) == 2
    play(home, packets)
    counters = home.leg._rtp.jitter_buffer.counters
    assert counters.packets == len(packets)
    assert counters.resyncs == 1
    assert counters.corrupt == counters.stragglers == 0
    assert home.leg.stats().concealed_ms <= 40
    assert len(home.frames) == pytest.approx(packets[-1][0] / 0.08, abs=3)


def test_silence_that_a_phone_leaves_out_is_as_long_as_it_was_and_no_loss() -> None:
    home = Home()
    play(home, recorded("R04"))
    counters = home.leg._rtp.jitter_buffer.counters
    quiet = [level(frame) < 0.01 for frame in home.frames[2:]]
    assert 28 <= sum(quiet) <= 31
    assert counters.lost_samples == counters.cut_samples == counters.added_samples == 0
    assert home.leg.stats().jitter_delay_ms < 60


@pytest.mark.parametrize("codec", ["G722", "PCMA", "PCMU"])
def test_phone_with_a_private_address_is_answered_where_its_packets_come_from(codec: str) -> None:
    agreed = agreed_from("private_address.sdp", (codec,))
    home = Home(agreed, peer_host=NAT[0])
    home.pass_slots(10)
    assert not home.wire.rtp and not home.wire.rtcp
    phone, strange = Phone(home, agreed.audio, NAT), Phone(home, agreed.audio, STRANGER, ssrc=666)
    phone.say(3)
    for _ in range(50):
        home.receive(strange.packet(), STRANGER)
        phone.say(1)
    assert home.wire.destinations == {NAT}
    assert len(home.wire.rtp) == 51
    assert home.leg._rtp.jitter_buffer.counters.packets == 53
    assert level(home.frames[-1]) == pytest.approx(LOUD, rel=0.15)


def test_stranger_who_sprays_at_a_silent_caller_hears_nothing_and_is_not_heard() -> None:
    home = Home(peer_host=PHONE[0])
    Phone(home, source=STRANGER).say(50)
    assert home.wire.destinations == {PHONE}
    assert len(home.wire.rtp) == 50
    assert home.leg._rtp.jitter_buffer.counters.packets == 0


def test_log_tells_when_audio_comes_from_elsewhere_and_never_from_where() -> None:
    with captured_logs() as logs:
        home = Home(agreed_from("private_address.sdp", ("PCMU",)), peer_host=NAT[0])
        phone = Phone(home, source=NAT)
        phone.say(10)
        plain = Home(peer_host=PHONE[0])
        Phone(plain).say(10)
    (told,) = [entry for entry in logs if "audio comes from" in entry["event"]]
    assert (told["leg"], told["host_named_by"]) == (home.leg.id, "signalling")
    assert NAT[0] not in str(logs) and str(NAT[1]) not in str(logs)


def test_log_of_sources_has_a_bound_whatever_the_other_end_negotiates() -> None:
    home = Home(None)
    with captured_logs() as logs:
        for n in range(100):
            home.leg.agree(replace(PLAIN, remote_rtp=(PHONE[0], 30_000 + 2 * n)), PHONE[0])
            Phone(home, source=(PHONE[0], 50_000 + n)).say(3)
    assert 1 <= len([entry for entry in logs if "audio comes from" in entry["event"]]) <= 10


def test_phone_with_a_private_address_is_found_without_its_signalling_too() -> None:
    agreed = agreed_from("private_address.sdp", ("PCMU",))
    home = Home(agreed)
    Phone(home, agreed.audio, NAT).say(20)
    assert home.wire.rtp[-1][1] == NAT


def test_caller_who_sends_nothing_for_two_minutes_stays_and_comes_back_without_delay() -> None:
    home, rules = Home(), LivenessRules(setup_s=30)
    phone = Phone(home)
    phone.say(500)
    delay_ms = home.leg.stats().jitter_delay_ms
    frames = len(home.frames)
    for _ in range(120):
        phone.pause(50)
        leg = home.leg
        assert rules.judge(home.now, leg.last_audio_s, leg.last_sign_of_life_s, leg.expects_audio) is Verdict.LIVE
    assert len(home.frames) - frames == 1500
    assert len(home.wire.rtp) == 6500
    phone.say(250)
    assert home.leg.stats().jitter_delay_ms < delay_ms + 25
    assert min(level(frame) for frame in home.frames[-50:]) > 0.9 * LOUD


def test_held_caller_is_never_silent_for_too_long() -> None:
    home, rules = Home(), LivenessRules(setup_s=30)
    home.leg.agree(agreed_from("hold_2_zero_address.sdp", ("PCMU", "PCMA")))
    for _ in range(60):
        home.now += 30
        leg = home.leg
        assert rules.judge(home.now, leg.last_audio_s, leg.last_sign_of_life_s, leg.expects_audio) is Verdict.LIVE
    assert not any(destination[0] == "0.0.0.0" for _, destination in home.wire.rtp)


def test_silence_before_the_answer_is_no_caller_who_is_silent_for_too_long() -> None:
    """Early media is what a trunk sends while it rings, or does not, and a call of ours may ring for ten minutes."""
    home, rules = Home(answered=False), LivenessRules(setup_s=30)
    for _ in range(20):
        home.now += 30
        leg = home.leg
        assert rules.judge(home.now, leg.last_audio_s, leg.last_sign_of_life_s, leg.expects_audio) is Verdict.LIVE
    home.leg.answer()
    assert home.leg.expects_audio
    home.now += 301
    leg = home.leg
    assert rules.judge(home.now, leg.last_audio_s, leg.last_sign_of_life_s, leg.expects_audio) is Verdict.IDLE_TOO_LONG


def test_old_style_hold_and_resume_on_another_port() -> None:
    first = agreed_from("hold_1_invite.sdp", ("PCMU", "PCMA"))
    home = Home(first)
    home.pass_slots(10)
    negotiation = MediaNegotiation(LocalMedia("203.0.113.50", 30_000, 30_001), MediaPolicy(codecs=("PCMU", "PCMA")))
    for name in ("hold_1_invite.sdp", "hold_2_zero_address.sdp"):
        negotiation.answer_offer((DATA / "sip" / name).read_bytes())
    held = negotiation.agreed
    assert held is not None
    home.leg.agree(held)
    home.pass_slots(100)
    assert len(home.wire.rtp) == 10
    negotiation.answer_offer((DATA / "sip" / "hold_3_resume_on_another_port.sdp").read_bytes())
    resumed = negotiation.agreed
    assert resumed is not None and resumed.remote_rtp != first.remote_rtp
    home.leg.agree(resumed)
    home.pass_slots(10)
    assert {destination for _, destination in home.wire.rtp[10:]} == {resumed.remote_rtp}


def test_what_a_wideband_phone_says_is_heard_with_its_clock_of_8000() -> None:
    agreed = agreed_from("private_address.sdp", ("G722",))
    assert (agreed.audio.codec, agreed.audio.clock_hz) == ("G722", 8000)
    home = Home(agreed)
    Phone(home, agreed.audio, NAT).say(200)
    assert np.diff([packet.timestamp for packet in home.wire.packets]).tolist() == [160] * (len(home.wire.rtp) - 1)
    assert {len(packet.payload) for packet in home.wire.packets} == {160}
    assert home.leg.stats().concealed_ms == 0


@pytest.mark.parametrize(
    ("codecs", "media", "rtpmap", "units"),
    [
        (("PCMU", "PCMA", "G722"), "RTP/AVP 8 101", "8 PCMA/8000", 160),
        (("PCMU",), "RTP/AVP 0 101", "0 PCMU/8000", 160),
        (("G722",), "RTP/AVP 9 101", "9 G722/8000", 160),
    ],
)
def test_codec_of_the_answer_is_the_one_that_is_sent(
    codecs: tuple[str, ...], media: str, rtpmap: str, units: int
) -> None:
    agreed, answer = answered("phone_with_pcma_first.sdp", codecs)
    assert f"m=audio 30000 {media}\r\n" in answer
    assert f"a=rtpmap:{rtpmap}\r\n" in answer
    home = Home(agreed)
    home.pass_slots(20)
    assert {packet.payload_type for packet in home.wire.packets} == {int(rtpmap.split()[0])}
    assert set(np.diff([packet.timestamp for packet in home.wire.packets])) == {units}


@pytest.mark.parametrize(
    ("codecs", "audio_type", "event_type", "units_per_ms"), [(("opus", "PCMA"), 96, 97, 48), (("PCMA",), 8, 101, 8)]
)
def test_keys_of_ours_last_by_the_clock_of_the_codec(
    codecs: tuple[str, ...], audio_type: int, event_type: int, units_per_ms: int
) -> None:
    agreed = agreed_from("events_at_two_clocks.sdp", codecs)
    home = Home(agreed)
    home.pass_slots(5)
    home.leg.send_digits("7")
    home.pass_slots(20)
    assert {packet.payload_type for packet in home.wire.packets} == {audio_type, event_type}
    events = [packet for packet in home.wire.packets if packet.payload_type == event_type]
    assert len({packet.timestamp for packet in events}) == 1
    durations = [int.from_bytes(packet.payload[2:4]) for packet in events]
    assert durations[:5] == [20 * number * units_per_ms for number in range(1, 6)]
    assert max(durations) == 100 * units_per_ms
