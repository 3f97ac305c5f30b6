"""SIP, SIPS and tel URIs."""

from __future__ import annotations

import pytest
import sipmessage
from hypothesis import given
from hypothesis import strategies as st

from rtc_server.transports.sip.message import uri as uris
from rtc_server.transports.sip.message.headers import SipUri

texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
params = st.dictionaries(texts.map(str.lower), st.none() | texts, max_size=3)
hosts = st.sampled_from(["p1", "my_pbx", "example.com", "192.0.2.1", "[2001:db8::1]"])
ports = st.none() | st.integers(1, 65535)


@given(
    st.builds(
        SipUri,
        scheme=st.sampled_from(["sip", "sips"]),
        user=st.none() | texts,
        host=hosts,
        port=ports,
        params=params.filter(lambda some: all(name == name.lower() for name in some)),
        headers=st.dictionaries(texts, texts, max_size=3),
    )
)
def test_uri_comes_back_as_it_was(uri: SipUri) -> None:
    assert SipUri.parse(str(uri)) == uri


@pytest.mark.parametrize(
    ("text", "uri"),
    [
        ("sip:h", SipUri("sip", None, "h")),
        ("SIPS:a@h:5061", SipUri("sips", "a", "h", 5061)),
        ("sip:p1;lr", SipUri("sip", None, "p1", params={"lr": None})),
        ("sip:a:b%3A@h", SipUri("sip", "a", "h", password="b:")),
        ("sip:a%20b#c;d/e?@[::1];Transport=TCP", SipUri("sip", "a b#c;d/e?", "[::1]", params={"transport": "TCP"})),
        ("sip:+358-555;postd=pp22@h;user=phone", SipUri("sip", "+358-555;postd=pp22", "h", params={"user": "phone"})),
        ("sip:a@h?Replaces=c%40d%3Bto-tag%3D1&Subject=x", SipUri(
            "sip", "a", "h", headers={"Replaces": "c@d;to-tag=1", "Subject": "x"}
        )),
        ("sip:h;;x=;", SipUri("sip", None, "h", params={"x": ""})),
        ("sip:@h", SipUri("sip", None, "h")),
        ("tel:+1-(555)-0100;ext=7", SipUri("tel", "+1-(555)-0100", "", params={"ext": "7"})),
        ("TEL:*21#", SipUri("tel", "*21#", "")),
    ],
)  # fmt: skip
def test_uri_is_read(text: str, uri: SipUri) -> None:
    assert SipUri.parse(text) == uri
    assert SipUri.parse(str(uri)) == uri


@pytest.mark.parametrize(
    "text",
    [
        *("", "sip:", "sip:a@", "h", "a@h", "sip:a@h:", "sip:a@h:0", "sip:a@h:65536", "sip:a b@h", "sip:h;a=1;A=2"),
        *("sip:[::g]", "sip:[1:2:3]", "sip:[::1", "sip:-h", "sip:h/x", "sip:a@b@c", "urn:service:sos", "http://h/"),
        *("<sip:a@h>", "sip:a@h>", 'sip:"a"@h', "sip:a@h\r\n", "sip:a@hö", "tel:", "tel:+1 555", "tel:bob", "*"),
        "sip:" + "a" * uris.MAX_CHARS,
        "sip:h" + "".join(f";{number}" for number in range(uris.MAX_PARAMS + 1)),
    ],
)
def test_malformed_uri_and_other_schemes_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        SipUri.parse(text)


def test_what_must_be_escaped_is_escaped() -> None:
    uri = SipUri("sip", "a b@c:d\r\n", "h", params={"x": "1;2=3"}, headers={"Replaces": "c@d;to-tag=1"}, password="@")
    assert str(uri) == "sip:a%20b%40c%3Ad%0D%0A:%40@h;x=1%3B2%3D3?Replaces=c%40d%3Bto-tag%3D1"


def test_password_is_not_in_what_is_logged() -> None:
    assert "hush" not in repr(SipUri.parse("sip:a:hush@h"))


@pytest.mark.parametrize("text", ["sip:a%20b@example.com:5070;transport=tcp;x=1%3B2", "sips:example.com;lr", "tel:+15"])
def test_uris_we_write_are_read_alike_elsewhere(text: str) -> None:
    ours, theirs = SipUri.parse(text), sipmessage.URI.parse(str(SipUri.parse(text)))
    assert (ours.scheme, ours.user, ours.host, ours.port) == (theirs.scheme, theirs.user, theirs.host, theirs.port)
    assert ours.params == dict(theirs.parameters)
