from __future__ import annotations

import base64
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pylibsrtp import Policy, Session

from rtc_server.transports.sip.negotiation.sdes import SUITES, Crypto, SrtpKey, new_key, read_crypto, usable
from tests.transports.sip.negotiation.bodies import KEY, OTHER_KEY

SUITE = "AES_CM_128_HMAC_SHA1_80"


@pytest.mark.parametrize("suite", SUITES)
def test_the_other_end_decrypts_with_the_key_that_our_line_says(suite: str) -> None:
    ours = Crypto(3, new_key(suite, random.Random(1).randbytes))
    read = read_crypto(ours.value)
    assert read == ours
    sender = Session(Policy(ours.key.key_and_salt, Policy.SSRC_ANY_OUTBOUND, srtp_profile=ours.key.srtp_profile))
    receiver = Session(Policy(read.key.key_and_salt, Policy.SSRC_ANY_INBOUND, srtp_profile=read.key.srtp_profile))
    packet = b"\x80\x00\x00\x01\x00\x00\x00\xa0\x01\x02\x03\x04" + b"speech" * 20
    encrypted = sender.protect(packet)
    assert b"speech" not in encrypted
    assert receiver.unprotect(encrypted) == packet


@pytest.mark.parametrize(
    "value",
    [
        f"1 {SUITE} inline:{KEY}",
        f"000000001\t{SUITE.lower()}  INLINE:{KEY}",
        f"1 {SUITE} inline:{KEY}|2^31",
        f"1 {SUITE} inline:{KEY}|2147483648",
        f"1 {SUITE} inline:{KEY} WSH=64 -FUTURE=1",
    ],
)
def test_lifetimes_hints_and_sloppy_spelling_are_taken(value: str) -> None:
    assert read_crypto(value) == Crypto(1, SrtpKey(SUITE, base64.b64decode(KEY)))


def test_base64_may_lack_its_padding() -> None:
    key = new_key("AEAD_AES_128_GCM", random.Random(1).randbytes)
    value = Crypto(1, key).value
    assert value.endswith("==")
    assert read_crypto(value.rstrip("=")) == Crypto(1, key)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "1",
        f"x {SUITE} inline:{KEY}",
        f"1 {SUITE} {KEY}",
        f"1 {SUITE} inline:",
        f"1 {SUITE} inline:{KEY[:-4]}",
        f"1 {SUITE} inline:{KEY}AAAA",
        f"1 {SUITE} inline:{KEY[:-1]}*",
        f"1 {SUITE} inline:{KEY[:-1]}",
        f"1 AES_256_CM_HMAC_SHA1_80 inline:{KEY}",
        f"1 F8_128_HMAC_SHA1_80 inline:{KEY}",
        f"1 {SUITE} inline:{KEY}|2^31|1:4",
        f"1 {SUITE} inline:{KEY}|1:4",
        f"1 {SUITE} inline:{KEY}|2^10",
        f"1 {SUITE} inline:{KEY}|1000",
        f"1 {SUITE} inline:{KEY}|soon",
        f"1 {SUITE} inline:{KEY};inline:{OTHER_KEY}",
        f"1 {SUITE} inline:{KEY} UNENCRYPTED_SRTP",
        f"1 {SUITE} inline:{KEY} UNENCRYPTED_SRTCP",
        f"1 {SUITE} inline:{KEY} UNAUTHENTICATED_SRTP",
        f"1 {SUITE} inline:{KEY} KDR=4",
        f"1 {SUITE} inline:{KEY} WSH=64 FUTURE=1",
    ],
)
def test_what_is_malformed_or_cannot_be_done_is_passed_over(value: str) -> None:
    assert read_crypto(value) is None


def test_usable_lines_stand_in_the_order_of_the_other_end() -> None:
    values = ["9 UNKNOWN inline:x", f"5 AES_CM_128_HMAC_SHA1_32 inline:{KEY}", f"2 {SUITE} inline:{OTHER_KEY}"]
    assert [crypto.tag for crypto in usable(values)] == [5, 2]


def test_no_key_shows_in_what_is_printed() -> None:
    crypto = Crypto(1, SrtpKey(SUITE, base64.b64decode(KEY)))
    assert repr(crypto) == f"Crypto(tag=1, key=SrtpKey(suite='{SUITE}'))"


@given(st.text())
def test_any_text_is_a_line_or_none(value: str) -> None:
    assert read_crypto(value) is None


@given(st.text(st.sampled_from("AZaz09+/=|^:;2 ")))
def test_any_key_parameter_is_a_line_or_none(text: str) -> None:
    crypto = read_crypto(f"1 {SUITE} inline:{text}")
    assert crypto is None or len(crypto.key.key_and_salt) == SUITES[SUITE].key_and_salt_bytes
