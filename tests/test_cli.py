from __future__ import annotations

import pytest

from rtc_server import __version__, cli, config
from rtc_server.transports.webrtc.connectivity import Connectivity


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        cli.main(["--help"])
    assert end.value.code == 0
    out = capsys.readouterr().out
    for command in ("serve", "check", "talk", "offline", "verify", "voices", "bench"):
        assert command in out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--version"])
    assert __version__ in capsys.readouterr().out


def test_no_command_is_a_usage_error() -> None:
    with pytest.raises(SystemExit) as end:
        cli.main([])
    assert end.value.code == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["serve", "--host", "0.0.0.0"], "RTC_API_KEY"),
        (["serve", "--slots", "0"], "slots"),
        (["serve", "--config", "nowhere.toml"], "nowhere.toml"),
        (["serve", "--engine", "ecko"], "did you mean"),
        (["serve", "--engine", "echo", "--web-ui", "nowhere"], "nowhere is no folder"),
        (["check", "--advertise-ip", "example"], "advertise_ip"),
        (["serve", "--engine", "personaplex", "--model", "no such model"], "neither a folder nor the name"),
        (["serve", "--engine", "personaplex", "--device", "cuda:9", "--model", "a/b"], "cuda:9"),
        (["serve", "--engine", "personaplex", "--max-context", "3"], "max_context"),
    ],
)
def test_wrong_setting_is_one_clear_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(arguments) in (1, 2)
    captured = capsys.readouterr()
    assert message in captured.err
    assert "Traceback" not in captured.err


def test_greeting_names_the_phone_line_where_there_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    reach = Connectivity(ok=True, message="", addresses=())
    for line in (None, "Phone line udp:192.0.2.7:5060\n1 trunk: desk"):
        cli._greet(
            "http://localhost:8124/", ("it echoes", "as asked for"), config.load({"engine": "echo"}), reach, line
        )
        told = capsys.readouterr().out
        assert "it echoes" in told
        assert [word in told for word in ("udp:192.0.2.7:5060", "1 trunk: desk")] == [line is not None] * 2


def test_batch_size_is_another_word_for_slots() -> None:
    assert cli._parser().parse_args(["serve", "--batch-size", "3"]).slots == 3
