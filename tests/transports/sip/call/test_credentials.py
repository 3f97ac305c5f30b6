"""Who gets a digest of a trunk's password."""

from __future__ import annotations

import pytest

from rtc_server.transports.sip.call.credentials import MAX_CHALLENGES, MAX_REALM_CHARS, MAX_REALMS, Credentials
from rtc_server.transports.sip.message import authparams
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


def realms_of(message: Request, name: str = "Proxy-Authorization") -> list[str]:
    """Whom a request has answers for, in order."""
    return [authparams.parse(value)[0][1]["realm"] for value in message.headers.all(name)]


@pytest.mark.parametrize("realm", ["a", "b"])
def test_each_proxy_on_the_way_gets_an_answer_of_its_own_once(realm: str) -> None:
    invite, known = request("INVITE"), credentials()
    assert known.answer(invite, asking("a", status=407), ITS_HOST)
    assert known.answer(invite, asking("b", status=407), ITS_HOST)
    assert known.answer(invite, asking("b"), ITS_HOST), "a server is no proxy"
    assert realms_of(invite) == ["a", "b"]
    assert realms_of(invite, "Authorization") == ["b"]
    assert not known.answer(invite, asking(realm, status=407), ITS_HOST), "the password is wrong"


def test_proxies_that_ask_at_once_are_answered_at_once() -> None:
    invite = request("INVITE")
    assert credentials().answer(invite, asking("a", "b", status=407), ITS_HOST)
    assert realms_of(invite) == ["a", "b"]


def test_of_several_algorithms_of_a_realm_one_is_answered() -> None:
    response = asking("a")
    response.headers.add("WWW-Authenticate", 'Digest realm="a", nonce="n", qop="auth", algorithm=SHA-256')
    invite = request("INVITE")
    assert credentials().answer(invite, response, ITS_HOST)
    (value,) = invite.headers.all("Authorization")
    assert "algorithm=SHA-256" in value


def test_only_the_realm_whose_nonce_was_stale_may_ask_again() -> None:
    invite, known = request("INVITE"), credentials()
    assert known.answer(invite, asking("a", "b", status=407), ITS_HOST)
    stale = Response(407, "Who are you", Headers(), b"")
    stale.headers.add("Proxy-Authenticate", 'Digest realm="b", nonce="m", qop="auth", stale=TRUE')
    assert known.answer(invite, stale, ITS_HOST)
    assert realms_of(invite) == ["a", "b"]
    assert 'nonce="m"' in invite.headers.all("Proxy-Authorization")[1]
    stale.headers.add("Proxy-Authenticate", 'Digest realm="a", nonce="m", qop="auth"')
    assert not known.answer(invite, stale, ITS_HOST), "the password for a is wrong"


def test_nonce_that_is_used_again_is_counted() -> None:
    """A server that keeps count takes no number twice (RFC 7616 section 3.4)."""
    invite, known = request("INVITE"), credentials()
    counts = []
    for realm in ("a", "b", "c"):
        assert known.answer(invite, asking(realm, status=407), ITS_HOST)
        values = invite.headers.all("Proxy-Authorization")
        counts.append([authparams.parse(value)[0][1]["nc"] for value in values])
    assert counts == [["00000001"], ["00000002", "00000001"], ["00000003", "00000002", "00000001"]]


def test_request_that_is_sent_again_for_another_reason_counts_too() -> None:
    invite, known = request("INVITE"), credentials()
    known.renew(invite)
    assert "Authorization" not in invite.headers
    assert known.answer(invite, asking("a"), ITS_HOST)
    known.renew(invite)
    (value,) = invite.headers.all("Authorization")
    assert authparams.parse(value)[0][1]["nc"] == "00000002"


def test_who_always_asks_in_another_name_is_given_up() -> None:
    invite, known = request("INVITE"), credentials()
    answered = [known.answer(invite, asking(f"realm {number}"), ITS_HOST) for number in range(MAX_CHALLENGES + 2)]
    assert answered == [True] * MAX_CHALLENGES + [False] * 2
    assert not credentials().answer(request(), asking(*map(str, range(MAX_REALMS + 1))), ITS_HOST)


def test_answers_that_were_withheld_are_not_given_to_the_next_way() -> None:
    bye, known = request(), credentials()
    assert known.answer(bye, asking("a", status=407), ITS_HOST)
    known.withhold(bye, OTHER_HOST)
    assert known.answer(bye, asking("b", status=407), ITS_HOST)
    assert realms_of(bye) == ["b"]
