"""Who gets a digest of a trunk's password."""

from __future__ import annotations

import pytest

from rtc_server.transports.sip.call.credentials import MAX_REALMS, Credentials, Realms
from rtc_server.transports.sip.message.message import Headers, Request, Response


def request(method: str = "BYE") -> Request:
    return Request(method, "sip:a@example.com", Headers(), b"")


def asking(*realms: str, status: int = 401) -> Response:
    response = Response(status, "Who are you", Headers(), b"")
    for realm in realms:
        name = "WWW-Authenticate" if status == 401 else "Proxy-Authenticate"
        response.headers.add(name, f'Digest realm="{realm}", nonce="n", qop="auth", algorithm=MD5')
    return response


def invited(realms: Realms, *of: str) -> None:
    """The trunk was called, and has asked for a password."""
    for realm in of:
        credentials = Credentials("user", "secret", realms.of("carrier"), learns=True)
        assert credentials.answer(request("INVITE"), asking(realm))


@pytest.mark.parametrize("status", [401, 407])
def test_realm_that_has_asked_for_an_invite_gets_it_in_a_call_too(status: int) -> None:
    realms = Realms()
    invited(realms, "carrier.example")
    bye = request()
    assert Credentials("user", "secret", realms.of("carrier")).answer(bye, asking("carrier.example", status=status))
    value = bye.headers.get("Authorization" if status == 401 else "Proxy-Authorization") or ""
    assert 'realm="carrier.example"' in value


@pytest.mark.parametrize("realm", ["evil.example", "Carrier.example", "", 'carrier.example\\"'])
def test_any_other_realm_gets_nothing(realm: str) -> None:
    realms = Realms()
    invited(realms, "carrier.example")
    bye = request()
    assert not Credentials("user", "secret", realms.of("carrier")).answer(bye, asking(realm))
    assert bye.headers.get("Authorization") is None


def test_realm_of_one_trunk_is_none_of_another() -> None:
    realms = Realms()
    invited(realms, "carrier.example")
    assert not Credentials("user", "secret", realms.of("other")).answer(request(), asking("carrier.example"))


def test_of_two_challenges_the_one_of_the_trunk_is_answered() -> None:
    realms = Realms()
    invited(realms, "carrier.example")
    bye = request()
    asked = asking("evil.example", "carrier.example")
    assert Credentials("user", "secret", realms.of("carrier")).answer(bye, asked)
    assert 'realm="carrier.example"' in (bye.headers.get("Authorization") or "")


def test_a_request_in_a_call_teaches_no_realm() -> None:
    realms = Realms()
    for _ in range(2):
        assert not Credentials("user", "secret", realms.of("carrier")).answer(request(), asking("evil.example"))


def test_realms_are_bounded() -> None:
    realms = Realms()
    invited(realms, *map(str, range(3 * MAX_REALMS)))
    assert len(realms.of("carrier")) == MAX_REALMS
    assert Credentials("user", "secret", realms.of("carrier")).answer(request(), asking(str(3 * MAX_REALMS - 1)))


def test_challenge_that_is_nearly_too_long_is_answered_and_teaches_nothing() -> None:
    realms = Realms()
    response = Response(401, "Who are you", Headers(), b"")
    response.headers.add("WWW-Authenticate", f'Digest realm="carrier", nonce="{"n" * 4030}", algorithm=MD5')
    invite = request("INVITE")
    assert Credentials("user", "secret", realms.of("carrier"), learns=True).answer(invite, response)
    assert not Credentials("user", "secret", realms.of("carrier")).answer(request(), asking("carrier"))
