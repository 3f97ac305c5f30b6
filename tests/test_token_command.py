from __future__ import annotations

import json
import time

import pytest

from rtc_server import cli
from rtc_server.transports.webrtc.turn import make_credential

SECRET = "a-secret-for-tests"


@pytest.fixture(autouse=True)
def _secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RTC_TURN_SECRET", SECRET)


def test_json_is_one_object_with_what_a_script_needs(capsys: pytest.CaptureFixture[str]) -> None:
    before_s = int(time.time())
    assert cli.main(["token", "turn", "--user", "bob", "--ttl-s", "60", "--json", "--turn-urls", "turn:t.example"]) == 0
    token = json.loads(capsys.readouterr().out)
    assert before_s + 60 <= token["expires_at_s"] <= time.time() + 60
    assert token["credential"] == make_credential(SECRET, "bob", token["expires_at_s"]).password
    assert token["username"] == f"{token['expires_at_s']}:bob"
    [server] = token["ice_servers"]
    assert server == {
        "urls": ["turn:t.example:3478?transport=udp"],
        **{k: token[k] for k in ("username", "credential")},
    }


def test_people_get_something_to_paste(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["token", "turn", "--turn-urls", "turn:t.example"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[0].endswith(":operator")
    assert "iceServers: [" in out and '"turn:t.example:3478?transport=udp"' in out
    assert SECRET not in out


def test_no_address_is_needed_for_a_credential(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["token", "turn"]) == 0
    assert "iceServers" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "secret", "word"),
    [
        (["--turn-urls", "turn://t.example"], SECRET, "turn:HOST"),
        (["--user", "a b"], SECRET, "is no name"),
        (["--ttl-s", "5"], SECRET, "turn_ttl_s=5"),
        ([], "", "characters"),
        ([], "hunter2", "16 to 256"),
    ],
)
def test_what_is_wrong_is_said_without_the_secret(
    arguments: list[str], secret: str, word: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RTC_TURN_SECRET", secret)
    assert cli.main(["token", "turn", *arguments]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert word in said
    assert "hunter2" not in said


def test_without_a_secret_it_says_where_to_put_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("RTC_TURN_SECRET")
    assert cli.main(["token", "turn"]) == 2
    assert "RTC_TURN_SECRET" in capsys.readouterr().err


def test_the_secret_is_no_flag(capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("serve", "check"):
        with pytest.raises(SystemExit):
            cli.main([command, "--help"])
        assert "--turn-secret " not in capsys.readouterr().out
