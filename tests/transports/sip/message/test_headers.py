"""Headers with a form of their own."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import sipmessage
from hypothesis import given
from hypothesis import strategies as st
from sipmessage import grammar

from rtc_server.transports.sip.message.headers import (
    CSeq,
    NameAddr,
    RAck,
    Reason,
    SessionExpires,
    Via,
    delta_seconds,
    split_list,
)

tokens = st.text(grammar.C_TOKEN, min_size=1, max_size=12)
names = tokens.map(str.lower)
texts = st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=20)
params = st.dictionaries(names, st.none() | texts, max_size=4)
hosts = st.sampled_from(["p1", "my_pbx", "example.com", "192.0.2.1", "[2001:db8::1]", "x-y.z"])
ports = st.none() | st.integers(1, 65535)
numbers = st.integers(0, (1 << 32) - 1)
uris = st.sampled_from(
    ["sip:a@b", "sips:b;lr", "urn:service:sos", "tel:+15550100", "sip:a,b;c@d?Replaces=x%3By", "sip:a#b@p1"]
)


@given(st.builds(NameAddr, uris, st.none() | texts.filter(bool), params))
def test_address_comes_back_as_it_was(address: NameAddr) -> None:
    assert NameAddr.parse(str(address)) == address
    assert split_list(f"{address}, {address}") == [str(address), str(address)]


@given(st.builds(Via, tokens, hosts, ports, params))
def test_via_comes_back_as_it_was(via: Via) -> None:
    assert Via.parse(str(via)) == via


@given(
    st.one_of(
        st.builds(CSeq, numbers, tokens),
        st.builds(RAck, numbers, numbers, tokens),
        st.builds(SessionExpires, numbers, st.sampled_from(["uac", "uas", None])),
        st.builds(Reason, tokens, st.none() | numbers, st.none() | texts),
    )
)
def test_header_comes_back_as_it_was(header: CSeq | RAck | SessionExpires | Reason) -> None:
    assert type(header).parse(str(header)) == header


@pytest.mark.parametrize(
    ("value", "address"),
    [
        ("<sip:a@b>", NameAddr("sip:a@b")),
        ('"" <sip:a@b>', NameAddr("sip:a@b")),
        ("sip:a@b;tag=1", NameAddr("sip:a@b", None, {"tag": "1"})),
        ("sip:a@b ; tag = 1 ", NameAddr("sip:a@b", None, {"tag": "1"})),
        ("<sip:a@b;lr>;tag=1", NameAddr("sip:a@b;lr", None, {"tag": "1"})),
        ("Ann Lee<sip:a@b>;TAG=aB", NameAddr("sip:a@b", "Ann Lee", {"tag": "aB"})),
        ('"A \\"\\\\\\q, <x>" <sip:a@b>', NameAddr("sip:a@b", 'A "\\q, <x>')),
        ("Ünï <sip:a@b>", NameAddr("sip:a@b", "Ünï")),
        ("< sip:a@b >;;x;", NameAddr("sip:a@b", None, {"x": None})),
        ("<urn:service:sos>", NameAddr("urn:service:sos")),
        ("<sip:a@b?Replaces=c%40d%3Bto-tag%3D1>", NameAddr("sip:a@b?Replaces=c%40d%3Bto-tag%3D1")),
        ("*", NameAddr("*")),
        ("<sip:p1;lr>", NameAddr("sip:p1;lr")),
        ("<sip:a>;received=[::1];x=", NameAddr("sip:a", None, {"received": "[::1]", "x": ""})),
    ],
)
def test_address_is_read(value: str, address: NameAddr) -> None:
    assert NameAddr.parse(value) == address


@pytest.mark.parametrize(
    "value",
    [
        *("", " ", "<>", "<sip:>", "sip:", "a@b", "<a@b>", '"open <sip:a@b>', "<sip:a@b", "sip:a@b>", "<sip:a b>"),
        *("<sip:a@b>tag=1", "<sip:a@b>;tag=1;tag=2", "<sip:a@b>;=1", '<sip:a@b>;x="open', "<sip:a@b>, <sip:c@d>"),
        *("<sip:a@b>" + 80 * ";", "sip:a@b, sip:c@d", '"a" "b" <sip:a@b>', "<<sip:a@b>>", "**", "<sip:a@b>;x=a b"),
    ],
)
def test_malformed_address_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        NameAddr.parse(value)


@pytest.mark.parametrize(
    ("value", "via"),
    [
        ("SIP/2.0/UDP p1", Via("UDP", "p1")),
        ("SIP/2.0/TLS [2001:db8::1]:5061;rport", Via("TLS", "[2001:db8::1]", 5061, {"rport": None})),
        ("sip / 2.0 /\tTCP  h : 5 ; branch = z9hG4bK1", Via("TCP", "h", 5, {"branch": "z9hG4bK1"})),
        ("SIP/2.0/UDP h;received=2001:db8::9;ttl=1", Via("UDP", "h", None, {"received": "2001:db8::9", "ttl": "1"})),
    ],
)
def test_via_is_read(value: str, via: Via) -> None:
    assert Via.parse(value) == via


@pytest.mark.parametrize(
    "value",
    [
        *("", "SIP/2.0/UDP", "SIP/3.0/UDP h", "SIP/2.0 UDP h", "SIP/2.0/UDP h:0", "SIP/2.0/UDP h:65536"),
        *("SIP/2.0/UDP h:x", "SIP/2.0/UDP h branch=1", "SIP/2.0/UDP [::g]", "SIP/2.0/UDP [1:2]", "SIP/2.0/UDP -h"),
        *("SIP/2.0/UDP h;branch=1;BRANCH=2", "SIP/2.0/UDP " + "a." * 200, "SIP/2.0/UDP h, SIP/2.0/UDP i"),
    ],
)
def test_malformed_via_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        Via.parse(value)


def test_address_in_via_is_written_as_it_is() -> None:
    assert str(Via("UDP", "h", 5060, {"received": "[::1]", "rport": "7"})) == (
        "SIP/2.0/UDP h:5060;received=[::1];rport=7"
    )


@pytest.mark.parametrize(
    ("parse", "value"),
    [
        *((CSeq.parse, value) for value in ("", "1", "INVITE", "-1 INVITE", "4294967296 INVITE", "1 IN VITE", "١ ACK")),
        *((CSeq.parse, value) for value in ("36893488147419103232 REGISTER", "9" * 5000 + " ACK", "1INVITE")),
        *((RAck.parse, value) for value in ("", "1 INVITE", "1 2 ", "1 2 3 INVITE", "4294967296 1 INVITE")),
        *((SessionExpires.parse, value) for value in ("", "x", "-1", "90;refresher=me", "90 refresher=uac")),
        *((Reason.parse, value) for value in ("", ";cause=1", "SIP cause=1", "SIP;cause=x", 'SIP;text="open')),
        *((delta_seconds, value) for value in ("", "x", "-5", "5 6", "99999999999", "٥")),
    ],
)
def test_malformed_header_is_refused(parse: Callable[[str], object], value: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        parse(value)


def test_session_timer_and_delays_are_read() -> None:
    assert SessionExpires.parse(" 1800 ; refresher = UAS;x") == SessionExpires(1800, "uas")
    assert SessionExpires.parse("90") == SessionExpires(90)
    assert delta_seconds("18000;duration=3600") == 18000
    assert delta_seconds("120 (I'm in a meeting)") == 120


def test_reason_is_read() -> None:
    assert Reason.parse('Q.850;cause=16;text="Normal \\"clearing\\""') == Reason("Q.850", 16, 'Normal "clearing"')
    assert str(Reason("SIP", 200, "Call completed elsewhere")) == 'SIP;cause=200;text="Call completed elsewhere"'


def test_list_with_a_quote_never_closed_is_one_element() -> None:
    assert split_list('a, "b, c, <d>, e') == ["a", '"b, c, <d>, e']
    assert split_list(' ,, a,\t,"b\\",c" <d,e>,f ') == ["a", '"b\\",c" <d,e>', "f"]


@given(st.builds(NameAddr, st.just("sip:a@example.com"), st.none() | texts, st.dictionaries(names, tokens, max_size=3)))
def test_addresses_we_write_are_read_alike_elsewhere(address: NameAddr) -> None:
    theirs = sipmessage.Address.parse(str(address)) if not _they_cannot(address) else None
    if theirs is not None:
        assert (theirs.name, str(theirs.uri)) == (address.display or "", address.uri)


def _they_cannot(address: NameAddr) -> bool:
    """sipmessage makes one space of many, undoes escapes in the wrong order, and %-escapes where there are none."""
    display = address.display or ""
    return any(one in display for one in '"\\<>;') or " ".join(display.split()) != display or "%" in str(address.params)
