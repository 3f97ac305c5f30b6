"""RFC 3261 sections 8.2.6, 9.1 and 17.1.1.3."""

from __future__ import annotations

import pytest

from rtc_server.transports.sip.message.message import Request, Response, parse
from rtc_server.transports.sip.transaction.derived import REASONS, ack_to, cancel_of, response_to
from tests.transports.sip.transaction.virtualtime import request, response

VIAS = ["SIP/2.0/UDP 10.0.0.1;branch=z9hG4bK-1;rport", "SIP/2.0/TLS a.example;branch=z9hG4bK-0"]


def _invite(**parts: str) -> Request:
    return request(via=", ".join(VIAS), extra="Timestamp: 54\r\nRequire: timer\r\nContact: <sip:a@b>\r\n", **parts)  # type: ignore[arg-type]


def test_a_response_has_what_it_is_found_by_and_nothing_more() -> None:
    answer = response_to(_invite(), 486, "callee")
    assert (answer.status, answer.reason, answer.body) == (486, "Busy Here", b"")
    assert list(answer.headers.items()) == [
        *(("Via", via) for via in VIAS),
        ("From", "<sip:caller@198.51.100.7>;tag=caller"),
        ("To", "<sip:agent@192.0.2.10>;tag=callee"),
        ("Call-ID", "call-1"),
        ("CSeq", "1 INVITE"),
    ]


def test_a_100_has_no_tag_and_the_timestamp() -> None:
    headers = response_to(_invite(), 100, "callee").headers
    assert headers.get("To") == "<sip:agent@192.0.2.10>"
    assert headers.get("Timestamp") == "54"


@pytest.mark.parametrize("status", [100, 200, 481])
def test_a_tag_that_is_there_stays(status: int) -> None:
    assert response_to(_invite(to_tag="theirs"), status, "ours").headers.get("To") == (
        "<sip:agent@192.0.2.10>;tag=theirs"
    )


def test_the_reason_may_be_ones_own_and_has_a_word_for_every_status() -> None:
    assert response_to(request(), 200, "x", "Fine").reason == "Fine"
    assert response_to(request(), 499, "x").reason == "Unknown"
    assert all(100 <= status < 700 and reason for status, reason in REASONS.items())


def test_a_malformed_to_cannot_be_answered() -> None:
    message = request()
    message.headers.set("To", "<")
    with pytest.raises(ValueError, match="address"):
        response_to(message, 200, "x")


def test_ack_and_cancel_have_only_the_topmost_via_of_their_invite() -> None:
    invite = _invite()
    for derived in (ack_to(invite, response(invite, 486)), cancel_of(invite)):
        assert derived.headers.all("Via") == VIAS[:1]
        assert "Require" not in derived.headers
        assert "Contact" not in derived.headers
        assert derived.headers.get("Max-Forwards") == "70"


def test_whatever_follows_from_a_message_can_be_read_again() -> None:
    invite = _invite()
    for derived in (response_to(invite, 200, "x"), ack_to(invite, response(invite, 486)), cancel_of(invite, "SIP")):
        again = parse(derived.to_bytes())
        assert isinstance(again, Request | Response)
        again.headers.remove("Content-Length")
        assert again == derived
