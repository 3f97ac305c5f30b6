"""Keys in offers and answers: encrypted both ways or plain both ways, and never plain to who asked for encryption."""

from __future__ import annotations

import base64
import re

import pytest

from rtc_server.transports.sip.negotiation.agreedmedia import AgreedMedia, MediaPolicy, SrtpPolicy
from rtc_server.transports.sip.negotiation.offeranswer import MediaNegotiation
from rtc_server.transports.sip.negotiation.sdes import read_crypto
from rtc_server.transports.sip.negotiation.sdp import MediaRefused
from tests.transports.sip.negotiation.bodies import (
    CRYPTO,
    KEY,
    LOCAL,
    OTHER_KEY,
    body,
    call,
    lines,
    media_lines,
    read,
    version,
)

PLAIN = "m=audio 4000 RTP/AVP 0"
SECURE = "m=audio 4000 RTP/SAVP 0"
SUITE_80, SUITE_32 = "AES_CM_128_HMAC_SHA1_80", "AES_CM_128_HMAC_SHA1_32"


def crypto_lines(description: bytes) -> list[str]:
    return [line for line in lines(description) if line.startswith("a=crypto:")]


def agreed(negotiation: MediaNegotiation) -> AgreedMedia:
    assert negotiation.agreed is not None
    return negotiation.agreed


def send_key(media: AgreedMedia) -> bytes:
    assert media.srtp is not None
    return media.srtp.send.key_and_salt


def receive_key(media: AgreedMedia) -> bytes:
    assert media.srtp is not None
    return media.srtp.receive.key_and_salt


# ---- their offer -----------------------------------------------------------------------------------------------------


def test_an_encrypted_offer_gets_a_key_of_ours_with_its_tag_and_suite() -> None:
    negotiation = call()
    answer = negotiation.answer_offer(
        body(SECURE, "a=crypto:1 UNKNOWN inline:x", f"a=crypto:7 {SUITE_32} inline:{KEY}|2^31", CRYPTO)
    )
    assert media_lines(answer) == ["m=audio 40000 RTP/SAVP 0"]
    (line,) = crypto_lines(answer)
    ours = read_crypto(line.removeprefix("a=crypto:"))
    assert ours is not None
    assert (ours.tag, ours.key.suite) == (7, SUITE_32)
    media = agreed(negotiation)
    assert media.srtp is not None
    assert (media.srtp.send, media.srtp.receive.suite) == (ours.key, SUITE_32)
    assert receive_key(media) == base64.b64decode(KEY) != send_key(media)


def test_a_call_that_is_encrypted_cannot_be_talked_out_of_it() -> None:
    negotiation = call()
    negotiation.answer_offer(body(SECURE, CRYPTO))
    before = negotiation.agreed
    with pytest.raises(MediaRefused) as refusal:
        negotiation.answer_offer(body(PLAIN))
    assert refusal.value.status == 488
    assert negotiation.agreed == before


def test_keys_are_drawn_from_the_system_and_do_not_show() -> None:
    keys = set()
    for _ in range(3):
        negotiation = MediaNegotiation(LOCAL, MediaPolicy())
        negotiation.answer_offer(body(SECURE, CRYPTO))
        keys.add(send_key(agreed(negotiation)))
        assert "key_and_salt" not in repr(negotiation.agreed)
    assert len(keys) == 3


@pytest.mark.parametrize("srtp", ["accept", "require"])
def test_of_an_encrypted_and_a_plain_section_the_encrypted_one_is_taken(srtp: SrtpPolicy) -> None:
    answer = call(srtp=srtp).answer_offer(read("srtp_and_plain_on_one_port"))
    assert media_lines(answer) == ["m=audio 40000 RTP/SAVP 0 101", "m=audio 0 RTP/AVP 0 8 101"]
    assert len(crypto_lines(answer)) == 1
    assert lines(answer)[-1] == "m=audio 0 RTP/AVP 0 8 101", "no attribute belongs to the refused section"
    turned = call(srtp=srtp).answer_offer(body(PLAIN, SECURE, CRYPTO))
    assert media_lines(turned) == ["m=audio 0 RTP/AVP 0", "m=audio 40000 RTP/SAVP 0"]


def test_a_trunk_without_encryption_takes_the_plain_section() -> None:
    answer = call(srtp="never").answer_offer(read("srtp_and_plain_on_one_port"))
    assert media_lines(answer) == ["m=audio 0 RTP/SAVP 0 8 101", "m=audio 40000 RTP/AVP 0 101"]
    assert not crypto_lines(answer)


def test_a_plain_section_with_keys_in_it_is_answered_plain() -> None:
    negotiation = call()
    answer = negotiation.answer_offer(read("crypto_in_plain_profile"))
    assert media_lines(answer) == ["m=audio 40000 RTP/AVP 9 101"]
    assert not crypto_lines(answer)
    assert agreed(negotiation).srtp is None


@pytest.mark.parametrize(
    ("srtp", "offer"),
    [
        ("never", body(SECURE, CRYPTO)),
        ("accept", body(SECURE)),
        ("accept", body(SECURE, f"a=crypto:1 AES_256_CM_HMAC_SHA1_80 inline:{KEY}")),
        ("accept", body(SECURE, f"{CRYPTO} UNENCRYPTED_SRTP")),
        ("accept", read("dtls_srtp_with_ice")),
        ("require", body(PLAIN)),
        ("require", body(PLAIN, CRYPTO)),
        ("require", body(SECURE)),
    ],
)
def test_encryption_that_cannot_be_agreed_on_is_a_refusal_never_plain_audio(srtp: SrtpPolicy, offer: bytes) -> None:
    negotiation = call(srtp=srtp)
    with pytest.raises(MediaRefused) as refusal:
        negotiation.answer_offer(offer)
    assert refusal.value.status == 488
    assert negotiation.agreed is None


def test_keys_stay_while_the_other_end_keeps_its_own() -> None:
    negotiation = call()
    first = negotiation.answer_offer(body(SECURE, CRYPTO))
    keys = agreed(negotiation).srtp
    assert negotiation.answer_offer(body(SECURE, CRYPTO)) == first
    negotiation.answer_offer(body(SECURE, f"a=crypto:2 {SUITE_80} inline:{OTHER_KEY}", CRYPTO, "a=sendonly"))
    assert agreed(negotiation).srtp == keys


@pytest.mark.parametrize(
    "line", [f"a=crypto:1 {SUITE_80} inline:{OTHER_KEY}", f"a=crypto:1 {SUITE_32} inline:{KEY}"], ids=["key", "suite"]
)
def test_a_new_key_of_the_other_end_gets_a_new_one_of_ours(line: str) -> None:
    negotiation = call()
    negotiation.answer_offer(body(SECURE, CRYPTO))
    before = send_key(agreed(negotiation))
    answer = negotiation.answer_offer(body(SECURE, line))
    assert send_key(agreed(negotiation)) != before
    assert version(answer) == 2


def test_a_call_on_hold_keeps_its_keys() -> None:
    negotiation = call()
    negotiation.answer_offer(body(SECURE, CRYPTO))
    before = agreed(negotiation)
    negotiation.answer_offer(body("m=audio 0 RTP/SAVP 0"))
    negotiation.answer_offer(body(SECURE, CRYPTO))
    assert agreed(negotiation) == before


def test_a_refused_rekeying_keeps_the_keys() -> None:
    negotiation = call()
    first = negotiation.answer_offer(body(SECURE, CRYPTO))
    with pytest.raises(MediaRefused):
        negotiation.answer_offer(body("m=audio 4000 RTP/SAVP 18", f"a=crypto:1 {SUITE_80} inline:{OTHER_KEY}"))
    assert negotiation.answer_offer(body(SECURE, CRYPTO)) == first


# ---- our offer -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("srtp", ["never", "accept"])
def test_our_offers_are_plain_unless_the_trunk_requires_more(srtp: SrtpPolicy) -> None:
    offer = call(srtp=srtp).make_offer()
    assert media_lines(offer)[0].startswith("m=audio 40000 RTP/AVP ")
    assert not crypto_lines(offer)


def test_a_trunk_that_requires_encryption_is_offered_two_suites_with_a_key_each() -> None:
    negotiation = call(srtp="require")
    offer = negotiation.make_offer()
    assert media_lines(offer)[0].startswith("m=audio 40000 RTP/SAVP ")
    keys = [re.fullmatch(r"a=crypto:(\d) (\w+) inline:(\S{40})", line) for line in crypto_lines(offer)]
    assert [(key[1], key[2]) for key in keys if key is not None] == [("1", SUITE_80), ("2", SUITE_32)]
    assert len({key[3] for key in keys if key is not None}) == 2
    media = negotiation.take_answer(body(SECURE, f"a=crypto:2 {SUITE_32} inline:{KEY}"))
    assert keys[1] is not None
    assert (send_key(media), receive_key(media)) == (base64.b64decode(keys[1][3]), base64.b64decode(KEY))


@pytest.mark.parametrize(
    "answer",
    [
        body(PLAIN),
        body(PLAIN, CRYPTO),
        body(SECURE),
        body(SECURE, f"a=crypto:3 {SUITE_80} inline:{KEY}"),
        body(SECURE, f"a=crypto:2 {SUITE_80} inline:{KEY}"),
        body(SECURE, "a=crypto:1 UNKNOWN inline:x"),
    ],
    ids=["plain", "plain with keys", "no keys", "other tag", "other suite", "unknown suite"],
)
def test_an_answer_that_would_be_half_secure_is_refused(answer: bytes) -> None:
    negotiation = call(srtp="require")
    negotiation.make_offer()
    with pytest.raises(MediaRefused) as refusal:
        negotiation.take_answer(answer)
    assert refusal.value.status == 488
    assert negotiation.agreed is None


def test_an_encrypted_call_offers_the_key_in_use_again() -> None:
    negotiation = call()
    answer = negotiation.answer_offer(body(SECURE, CRYPTO))
    offer = negotiation.make_offer()
    assert media_lines(offer)[0].startswith("m=audio 40000 RTP/SAVP ")
    assert crypto_lines(offer) == crypto_lines(answer)
    before = agreed(negotiation).srtp
    assert negotiation.take_answer(body(SECURE, CRYPTO)).srtp == before
