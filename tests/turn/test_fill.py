from __future__ import annotations

import subprocess
import sys

import pytest

from tests.turn.coturn import FOLDER, fill

NEEDED = {"TURN_REALM": "example.org", "TURN_MEDIA_IP": "203.0.113.5"}


def lines(**variables: str) -> list[str]:
    """What coturn reads of the filled file."""
    text = fill.fill(NEEDED | variables, fill.TEMPLATE.read_text())
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def test_two_variables_make_a_whole_configuration() -> None:
    filled = lines()
    assert not [line for line in filled if "$" in line]
    for line in ("use-auth-secret", "realm=example.org", "no-cli", "no-tcp-relay", "no-tls", "listening-port=3478"):
        assert line in filled


def test_every_peer_but_the_media_server_is_denied() -> None:
    filled = lines(TURN_MEDIA_IP="203.0.113.5, 2001:db8::5")
    assert [line for line in filled if line.startswith("denied-peer-ip")] == [
        "denied-peer-ip=0.0.0.0-255.255.255.255",
        "denied-peer-ip=::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    ]
    assert [line for line in filled if line.startswith("allowed-peer-ip")] == [
        "allowed-peer-ip=203.0.113.5",
        "allowed-peer-ip=2001:db8::5",
    ]


def test_the_advertised_address_stands_for_the_media_server() -> None:
    text = fill.fill({"TURN_REALM": "r", "RTC_ADVERTISE_IP": "203.0.113.9"}, fill.TEMPLATE.read_text())
    assert "allowed-peer-ip=203.0.113.9" in text


def test_no_secret_and_no_user_stands_in_the_file() -> None:
    filled = lines(RTC_TURN_SECRET="a-secret-for-tests", TURN_SECRET="a-secret-for-tests")
    assert not [line for line in filled if "secret-for-tests" in line or line.startswith(("static-auth", "user="))]


def test_a_certificate_turns_tls_on_and_old_versions_off() -> None:
    filled = lines(TURN_CERT="/etc/turn/cert.pem", TURN_KEY="/etc/turn/key.pem", TURN_TLS_PORT="443")
    for line in (
        "cert=/etc/turn/cert.pem",
        "pkey=/etc/turn/key.pem",
        "no-tlsv1",
        "no-tlsv1_1",
        "tls-listening-port=443",
    ):
        assert line in filled
    assert "no-tls" not in filled


def test_an_address_behind_nat_is_mapped() -> None:
    filled = lines(TURN_IP="10.0.0.5", TURN_EXTERNAL_IP="203.0.113.5")
    for line in ("listening-ip=10.0.0.5", "relay-ip=10.0.0.5", "external-ip=203.0.113.5/10.0.0.5"):
        assert line in filled


@pytest.mark.parametrize(
    ("variables", "word"),
    [
        ({"TURN_REALM": ""}, "TURN_REALM is not set"),
        ({"TURN_REALM": "a\nno-auth"}, "TURN_REALM"),
        ({"TURN_MEDIA_IP": ""}, "TURN_MEDIA_IP is not set"),
        ({"TURN_MEDIA_IP": "media.example"}, "is no IP address"),
        ({"TURN_MEDIA_IP": "203.0.113.5\nallowed-peer-ip=0.0.0.0-255.255.255.255"}, "is no IP address"),
        ({"TURN_CERT": "/cert.pem"}, "TURN_KEY"),
        ({"TURN_CERT": "/cert.pem\nno-auth", "TURN_KEY": "/key.pem"}, "TURN_CERT"),
        ({"TURN_PORT": "0"}, "TURN_PORT=0"),
        ({"TURN_PORT": "99999"}, "TURN_PORT=99999"),
        ({"TURN_PORT": "x"}, "TURN_PORT=x"),
        ({"TURN_MIN_PORT": "50000", "TURN_MAX_PORT": "50100"}, "101 ports"),
        ({"TURN_EXTERNAL_IP": "203.0.113.5"}, "TURN_IP"),
        ({"TURN_USER": "turn server"}, "TURN_USER"),
    ],
)
def test_a_wrong_variable_is_named_and_nothing_slips_into_the_file(variables: dict[str, str], word: str) -> None:
    with pytest.raises(fill.Wrong, match=word):
        lines(**variables)


def test_as_a_command_it_prints_the_file_or_says_what_is_wrong() -> None:
    for environment, status in ((NEEDED, 0), ({}, 1)):
        command = [sys.executable, str(FOLDER / "fill.py")]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=20, check=False)
        assert run.returncode == status
        assert ("use-auth-secret" in run.stdout) == (status == 0)
        assert ("TURN_MEDIA_IP" in run.stderr) == (status == 1)
