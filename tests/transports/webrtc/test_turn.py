from __future__ import annotations

import pytest

from rtc_server.errors import ConfigError
from rtc_server.transports.webrtc.turn import IceServers, IceUrl, check_secret, make_credential, parse_url

SECRET = "a-secret-for-tests"
NOW_S = 1_700_000_000.5


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("turn:a.example", IceUrl("turn", "a.example", 3478, "udp")),
        (" TURN:a.example:443?transport=tcp ", IceUrl("turn", "a.example", 443, "tcp")),
        ("turns:a.example", IceUrl("turns", "a.example", 5349, "tcp")),
        ("turns:192.0.2.1:443?transport=tcp", IceUrl("turns", "192.0.2.1", 443, "tcp")),
        ("turn:[2001:DB8::1]:3478?transport=udp", IceUrl("turn", "2001:db8::1", 3478, "udp")),
        ("stun:a.example", IceUrl("stun", "a.example", 3478, "udp")),
        ("stuns:a.example:5349", IceUrl("stuns", "a.example", 5349, "tcp")),
    ],
)
def test_addresses_are_read_with_their_defaults(text: str, url: IceUrl) -> None:
    assert parse_url(text) == url
    assert parse_url(str(url)) == url


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a.example",
        "https://a.example",
        "turn://a.example",
        "turn:",
        "turn:a b",
        "turn:a.example:0",
        "turn:a.example:65536",
        "turn:a.example:",
        "turn:a.example:x",
        "turn:[2001:db8::1",
        "turn:[a.example]",
        "turn:2001:db8::1",
        "turn:a.example?transport=sctp",
        "turn:a.example?transport=udp&x=1",
        "turn:a.example?",
        "turns:a.example?transport=udp",
        "stun:a.example?transport=udp",
        'turn:a.example"; rel="x',
        "turn:a.example\r\nX: y",
    ],
)
def test_what_is_no_address_is_named_with_how_to_write_it(text: str) -> None:
    with pytest.raises(ConfigError, match="turn_urls=") as refusal:
        parse_url(text)
    assert "transport=" in refusal.value.hint


def test_a_password_in_an_address_is_refused_and_not_shown() -> None:
    with pytest.raises(ConfigError) as refusal:
        parse_url("turn:alice:hunter2@a.example")
    assert "hunter2" not in str(refusal.value)


def test_credential_is_what_coturn_works_out() -> None:
    """The value is `printf 1700003600:alice | openssl dgst -sha1 -hmac a-secret-for-tests -binary | base64`."""
    credential = make_credential(SECRET, "alice", 1_700_003_600)
    assert credential.username == "1700003600:alice"
    assert credential.password == "2EprAbaqYdEb7IsHzEp5UM6zZbE="
    assert credential.password not in repr(credential)


@pytest.mark.parametrize("user", ["", "a b", "a:b", 'a"', "x" * 65, "ä"])
def test_a_name_that_would_break_a_header_is_refused(user: str) -> None:
    with pytest.raises(ConfigError, match="is no name"):
        make_credential(SECRET, user, 1)


@pytest.mark.parametrize(
    "secret", ["", "x" * 15, "x" * 257, "sixteen letters ", "sixteen-letters\n", "sixteen-lettersä"]
)
def test_an_unusable_secret_is_refused_and_not_shown(secret: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        check_secret(secret, "RTC_TURN_SECRET")
    assert "RTC_TURN_SECRET" in str(refusal.value)
    assert not secret or secret not in str(refusal.value)


def test_relays_come_with_a_credential_that_expires_and_stun_servers_without() -> None:
    urls = ["stun:s.example", "turn:t.example", "turns:t.example:443"]
    plain, relays = IceServers(urls, lambda: SECRET, 600, lambda: NOW_S).issue()
    assert plain.to_json() == {"urls": ["stun:s.example:3478"]}
    assert relays.credential is not None
    assert relays.credential.expires_at_s == 1_700_000_600
    assert relays.credential == make_credential(SECRET, relays.credential.username.partition(":")[2], 1_700_000_600)
    assert relays.to_json() == {
        "urls": ["turn:t.example:3478?transport=udp", "turns:t.example:443?transport=tcp"],
        "username": relays.credential.username,
        "credential": relays.credential.password,
    }


def test_each_caller_gets_a_name_of_its_own() -> None:
    servers = IceServers(["turn:t.example"], lambda: SECRET)
    names = {server.credential.username for _ in range(20) for server in servers.issue() if server.credential}
    assert len(names) == 20


def test_a_changed_secret_is_used_at_once() -> None:
    secrets = iter([SECRET, "another-secret-for-tests"])
    servers = IceServers(["turn:t.example"], lambda: next(secrets), 600, lambda: NOW_S)
    for secret in (SECRET, "another-secret-for-tests"):
        issued = servers.issue()[0].credential
        assert issued is not None
        assert issued == make_credential(secret, issued.username.partition(":")[2], issued.expires_at_s)


def test_link_headers_are_those_of_whip() -> None:
    plain, relays = IceServers(["stun:s.example", "turn:t.example"], lambda: SECRET, 600, lambda: NOW_S).issue()
    assert plain.links() == ['<stun:s.example:3478>; rel="ice-server"']
    assert relays.credential is not None
    assert relays.links() == [
        f'<turn:t.example:3478?transport=udp>; rel="ice-server"; username="{relays.credential.username}"; '
        f'credential="{relays.credential.password}"; credential-type="password"'
    ]


def test_relays_without_a_secret_are_refused_and_stun_alone_is_fine() -> None:
    with pytest.raises(ConfigError, match="no secret"):
        IceServers(["turn:t.example"])
    assert IceServers(["stun:s.example"]).issue()[0].credential is None
    assert IceServers().issue() == ()
