from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtc_server.transports.sip.trunk.callers import (
    MAX_METADATA_CHARS,
    MAX_NUMBER_CHARS,
    callee_of,
    caller_of,
    metadata_of,
    number_of,
    printable,
)
from rtc_server.transports.sip.trunk.trunks import Trunk
from tests.transports.sip.trunk.requests import request

PLAIN = Trunk("carrier")
TRUSTED = Trunk("carrier", trusted=True)
ASSERTED = 'P-Asserted-Identity: "Ann" <sip:+15550111@carrier.example>'


@pytest.mark.parametrize(
    ("uri", "number"),
    [
        ("sip:+15550100@192.0.2.1", "+15550100"),
        ("sips:agent@example.org:5061;transport=tls", "agent"),
        ("sip:+358-555-1234567;postd=pp22@192.0.2.1;user=phone", "+3585551234567"),
        ("tel:+1-(555).0100;phone-context=example.org", "+15550100"),
        ("TEL:911", "911"),
        ("sip:ann.smith-2@example.org", "ann.smith-2"),
        ("sip:ann:password@example.org", "ann"),
        ("sip:%61nn@example.org", "ann"),
        ("sip:1234%0d%0a@example.org", "1234"),
        ("sip:anonymous.invalid", None),
        ("sip:@example.org", None),
        ("urn:service:sos", None),
        ("", None),
    ],
)
def test_number_is_the_user_part_of_a_uri(uri: str, number: str | None) -> None:
    assert number_of(uri) == number


def test_caller_is_who_from_says() -> None:
    assert caller_of(request(caller='"Ann B." <sip:+1-555-0100@a.example>'), PLAIN) == "+15550100"
    assert caller_of(request(caller="<tel:+15550100>"), PLAIN) == "+15550100"
    assert caller_of(request(caller='"" <sip:xxx@a.example>'), PLAIN) == "xxx"


@pytest.mark.parametrize(
    "caller",
    ["<sip:anonymous.invalid>", '"Anonymous" <sip:anonymous@anonymous.invalid>', "<sip:Restricted@a.example>"],
)
def test_withheld_number_is_anonymous(caller: str) -> None:
    assert caller_of(request(caller=caller), PLAIN) is None


def test_from_without_a_user_is_no_number() -> None:
    assert caller_of(request(caller="<sip:gateway.example>"), PLAIN) is None


def test_asserted_identity_counts_where_the_trunk_is_trusted() -> None:
    asked = request(ASSERTED, caller="<sip:anonymous.invalid>")
    assert caller_of(asked, TRUSTED) == "+15550111"
    assert caller_of(asked, PLAIN) is None


@pytest.mark.parametrize("privacy", ["id", "user;id", "ID;critical", "header, user"])
def test_privacy_hides_every_identity(privacy: str) -> None:
    assert caller_of(request(ASSERTED, f"Privacy: {privacy}"), TRUSTED) is None


def test_privacy_none_hides_nothing() -> None:
    assert caller_of(request(ASSERTED, "Privacy: none"), TRUSTED) == "+15550111"


def test_second_asserted_identity_counts_where_the_first_has_no_user() -> None:
    asked = request("P-Asserted-Identity: <sip:carrier.example>, <tel:+15550122>")
    assert caller_of(asked, TRUSTED) == "+15550122"


def test_malformed_asserted_identity_leaves_from() -> None:
    assert caller_of(request("P-Asserted-Identity: <<<"), TRUSTED) == "+15550100"


def test_number_called_is_in_the_request_uri_else_in_to() -> None:
    assert callee_of(request(uri="sip:+15550199@203.0.113.50", to="<sip:other@b.example>")) == "+15550199"
    assert callee_of(request(uri="sip:203.0.113.50", to="<sip:+15550199@b.example>")) == "+15550199"
    assert callee_of(request(uri="sip:203.0.113.50", to="<sip:b.example>")) == ""


def test_only_headers_of_the_trunk_become_metadata() -> None:
    trunk = Trunk("carrier", header_names=("X-Account", "x-campaign", "X-Absent"))
    asked = request("X-Account: 7", "X-Campaign: spring", "X-Secret: 1", "Subject: hello")
    assert metadata_of(asked, trunk) == {"X-Account": "7", "x-campaign": "spring"}


def test_metadata_is_short_and_printable() -> None:
    trunk = Trunk("carrier", header_names=tuple(f"X-{number}" for number in range(40)))
    asked = request(*(f"X-{number}: a\u200bb\u202e" + "c" * 1000 for number in range(40)))
    metadata = metadata_of(asked, trunk)
    assert len(metadata) == 16
    assert set(metadata.values()) == {"ab" + "c" * (MAX_METADATA_CHARS - 2)}


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=300), st.text(max_size=300))
def test_any_text_gives_short_printable_names(user: str, display: str) -> None:
    number = number_of(f"sip:{user}@example.org") or ""
    for text, limit in ((number, MAX_NUMBER_CHARS), (printable(display, MAX_METADATA_CHARS), MAX_METADATA_CHARS)):
        assert len(text) <= limit
        assert text.isprintable()
