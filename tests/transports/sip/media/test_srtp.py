from __future__ import annotations

import secrets
from dataclasses import replace

import pylibsrtp
import pytest
from pylibsrtp import Policy, Session

from rtc_server.media import rtcp
from rtc_server.media.rtp import MalformedRtp, RtpPacket
from rtc_server.transports.rtp.protection import PLAIN_RTP
from rtc_server.transports.sip.flow import Address
from rtc_server.transports.sip.media.srtp import SrtpContexts
from rtc_server.transports.sip.negotiation.agreedmedia import AgreedMedia
from rtc_server.transports.sip.negotiation.sdes import SUITES, SrtpKey, SrtpKeys, new_key
from tests.transports.sip.media.phones import PHONE, PHONE_RTCP, PLAIN, Home, Phone, level

SUITE = "AES_CM_128_HMAC_SHA1_80"
STRANGER: Address = ("192.0.2.66", 5555)


def keys(suite: str = SUITE) -> SrtpKeys:
    return SrtpKeys(send=new_key(suite, secrets.token_bytes), receive=new_key(suite, secrets.token_bytes))


def secure(own: SrtpKeys) -> AgreedMedia:
    return replace(PLAIN, srtp=own)


def sender_of(key: SrtpKey) -> Session:
    return Session(Policy(key=key.key_and_salt, ssrc_type=Policy.SSRC_ANY_OUTBOUND, srtp_profile=key.srtp_profile))


def receiver_of(key: SrtpKey) -> Session:
    return Session(Policy(key=key.key_and_salt, ssrc_type=Policy.SSRC_ANY_INBOUND, srtp_profile=key.srtp_profile))


def test_key_that_stays_keeps_its_context_and_each_way_has_its_own() -> None:
    contexts, first, second = SrtpContexts(), keys(), keys()
    assert contexts.of(None) == (PLAIN_RTP, PLAIN_RTP)
    receive, send = contexts.of(first)
    assert contexts.of(SrtpKeys(first.send, first.receive)) == (receive, send)
    changed = contexts.of(SrtpKeys(second.send, first.receive))
    assert changed.receive is receive
    assert changed.send is not send
    assert contexts.of(second).receive is not receive


@pytest.mark.parametrize("suite", SUITES)
def test_secure_call_sends_ciphertext_that_the_key_opens(suite: str) -> None:
    own = keys(suite)
    home, plain = Home(secure(own)), Home()
    home.pass_slots(100)
    plain.pass_slots(100)
    peer = receiver_of(own.send)
    opened = [RtpPacket.parse(peer.unprotect(data)) for data, _ in home.wire.rtp]
    assert [packet.payload for packet in opened] == [packet.payload for packet in plain.wire.packets]
    for (data, destination), packet in zip(home.wire.rtp, opened, strict=True):
        assert destination == PHONE
        assert packet.payload not in data
        assert packet.payload[:16] not in data
    assert len(home.wire.rtcp) >= 2
    for data, destination in home.wire.rtcp:
        assert destination == PHONE_RTCP
        report = peer.unprotect_rtcp(data)
        assert rtcp.parse(report)
        assert report[8:] not in data


def test_secure_call_hears_what_is_under_its_key_and_nothing_plain() -> None:
    own = keys()
    home = Home(secure(own))
    phone, peer = Phone(home), sender_of(own.receive)
    for _ in range(50):
        home.receive(peer.protect(phone.packet()))
        home.receive(Phone(home, ssrc=5).packet())
        home.receive(Phone(home, ssrc=5).packet(), STRANGER)
        home.slot()
    counters = home.leg._rtp.jitter_buffer.counters
    assert counters.packets == 50
    assert counters.resyncs == 0
    assert level(home.frames[-1]) > 0.15
    home.receive_rtcp(rtcp.ReceiverReport(77, ()), source=STRANGER)
    assert home.wire.destinations == {PHONE}


def test_phone_behind_nat_is_found_by_its_key_while_others_spray() -> None:
    own = keys()
    home = Home(replace(secure(own), remote_rtp=("10.0.0.9", 4000), remote_rtcp=("10.0.0.9", 4001)), peer_host=PHONE[0])
    phone, strange, peer = Phone(home), Phone(home, ssrc=5, source=STRANGER), sender_of(own.receive)
    for _ in range(20):
        home.receive(strange.packet(), STRANGER)
        home.slot()
    assert not home.wire.rtp
    home.receive(peer.protect(phone.packet()))
    home.slot()
    assert home.wire.destinations == {PHONE}


def test_re_invite_with_the_same_keys_goes_on_past_a_wrap_of_the_numbers() -> None:
    own = keys()
    home = Home(secure(own))
    phone, peer = Phone(home), sender_of(own.receive)  # its numbers wrap after 36 packets
    for _ in range(60):
        home.receive(peer.protect(phone.packet()))
        home.slot()
    home.leg.agree(secure(own))
    for _ in range(20):
        home.receive(peer.protect(phone.packet()))
        home.slot()
    assert home.leg._rtp.jitter_buffer.counters.packets == 80


def test_re_invite_with_other_keys_goes_on_without_a_gap() -> None:
    first, second = keys(), keys()
    home = Home(secure(first))
    phone, peer = Phone(home), sender_of(first.receive)
    for _ in range(20):
        home.receive(peer.protect(phone.packet()))
        home.slot()
    home.leg.agree(secure(second))
    for sender, packets in ((peer, 3), (sender_of(second.receive), 17)):
        for _ in range(packets):
            home.receive(sender.protect(phone.packet()))
            home.slot()
    assert home.leg._rtp.jitter_buffer.counters.packets == 40
    assert home.leg.stats().concealed_ms == 0
    before, after = receiver_of(first.send), receiver_of(second.send)
    opened = [RtpPacket.parse(before.unprotect(data)) for data, _ in home.wire.rtp[:20]]
    opened += [RtpPacket.parse(after.unprotect(data)) for data, _ in home.wire.rtp[20:]]
    assert {(b.sequence_number - a.sequence_number) & 0xFFFF for a, b in zip(opened, opened[1:], strict=False)} == {1}


def test_call_that_becomes_secure_sends_and_takes_nothing_plain_from_then_on() -> None:
    home, own = Home(), keys()
    phone = Phone(home)
    phone.say(10)
    home.leg.agree(secure(own))
    phone.say(10)
    assert home.leg._rtp.jitter_buffer.counters.packets == 10
    peer = receiver_of(own.send)
    for data, _ in home.wire.rtp[10:]:
        assert RtpPacket.parse(peer.unprotect(data)).payload


async def test_goodbye_of_a_secure_call_is_secure() -> None:
    own = keys()
    home = Home(secure(own))
    home.pass_slots(5)
    await home.leg.close("hangup")
    peer = receiver_of(own.send)
    said = [packet for data, _ in home.wire.rtcp for packet in rtcp.parse(peer.unprotect_rtcp(data))]
    assert isinstance(said[-1], rtcp.Bye)
    with pytest.raises((pylibsrtp.Error, MalformedRtp)):
        receiver_of(own.receive).unprotect_rtcp(home.wire.rtcp[-1][0])
