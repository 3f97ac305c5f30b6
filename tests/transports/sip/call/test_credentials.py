"""Who gets a digest of a trunk's password."""

from __future__ import annotations

import pytest

from rtc_server.transports.sip.call.credentials import MAX_REALM_CHARS, Credentials
from rtc_server.transports.sip.message.message import Headers, Request, Response
from rtc_server.transports.sip.trunk.trunks import Trunk
from tests.logs import captured_logs, entry_of

TRUNK = Trunk("carrier", username="user", password="secret")
ITS_HOST, OTHER_HOST = "198.51.100.7", "203.0.113.66"


def credentials(trunk: Trunk = TRUNK) -> Credentials:
    return Credentials(trunk, lambda host: host in (ITS_HOST, "sip.carrier.example"))


def request(method: str = "BYE") -> Request:
    return Request(method, "sip:a@example.com", Headers(), b"")


def asking(*realms: str, status: int = 401) -> Response:
    response = Response(status, "Who are you", Headers(), b"")
    for realm in realms:
        name = "WWW-Authenticate" if status == 401 else "Proxy-Authenticate"
        response.headers.add(name, f'Digest realm="{realm}", nonce="n", qop="auth", algorithm=MD5')
    return response


@pytest.mark.parametrize("status", [401, 407])
@pytest.mark.parametrize("hosts", [(ITS_HOST,), ("192.0.2.99", "sip.carrier.example")])
def test_hosts_of_the_trunk_get_it_whatever_their_realm(status: int, hosts: tuple[str, ...]) -> None:
    bye = request()
    assert credentials().answer(bye, asking("any realm", status=status), *hosts)
    value = bye.headers.get("Authorization" if status == 401 else "Proxy-Authorization") or ""
    assert 'realm="any realm"' in value and "response=" in value


@pytest.mark.parametrize("hosts", [(), (OTHER_HOST,), (OTHER_HOST, "sip.evil.example")])
def test_other_hosts_get_nothing_whose_name_they_ask_in_does_not_count(hosts: tuple[str, ...]) -> None:
    bye = request()
    assert not credentials().answer(bye, asking("carrier.example"), *hosts)
    assert bye.headers.get("Authorization") is None


def test_log_says_what_to_do_and_not_where_the_request_went() -> None:
    with captured_logs() as logs:
        assert not credentials().answer(request(), asking("r\u202e" * MAX_REALM_CHARS), OTHER_HOST)
    entry = entry_of(logs, "password not given: a host asks for it that is none of the trunk's")
    assert (entry["trunk"], entry["log_level"]) == ("carrier", "warning")
    assert "`addresses`" in entry["hint"]
    assert entry["realm"].isprintable() and len(entry["realm"]) <= MAX_REALM_CHARS
    assert OTHER_HOST not in str(entry)


@pytest.mark.parametrize("trunk", [Trunk("carrier"), TRUNK])
def test_who_has_no_password_or_is_not_asked_answers_and_warns_of_nothing(trunk: Trunk) -> None:
    with captured_logs() as logs:
        status = 401 if trunk.password is None else 403
        assert not credentials(trunk).answer(request(), asking("r", status=status), OTHER_HOST)
    assert not logs


def test_challenge_that_is_nearly_too_long_is_answered() -> None:
    response = Response(401, "Who are you", Headers(), b"")
    response.headers.add("WWW-Authenticate", f'Digest realm="carrier", nonce="{"n" * 4030}", algorithm=MD5')
    assert credentials().answer(request("INVITE"), response, ITS_HOST)


@pytest.mark.parametrize(("host", "kept"), [(ITS_HOST, True), (OTHER_HOST, False)])
def test_request_that_goes_another_way_loses_what_its_first_way_was_given(host: str, kept: bool) -> None:
    bye, known = request(), credentials()
    assert known.answer(bye, asking("a"), ITS_HOST)
    assert known.answer(bye, asking("b", status=407), ITS_HOST)
    known.withhold(bye, host)
    assert ("Authorization" in bye.headers, "Proxy-Authorization" in bye.headers) == (kept, kept)
