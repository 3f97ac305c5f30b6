from __future__ import annotations

from pathlib import Path

import pytest

from rtc_server import config
from rtc_server.errors import ConfigError

KEY = "0123456789abcdef"


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    for name in list(os.environ):
        if name.startswith("RTC_"):
            monkeypatch.delenv(name)


def test_defaults_serve_this_machine_only() -> None:
    settings = config.load()
    assert settings.http.host == "127.0.0.1"
    assert settings.http.port == 8124
    assert settings.webrtc.udp_port == 8125
    assert settings.engine.engine == "auto"


def test_flags_win_over_environment_over_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "rtc.toml"
    file.write_text('[http]\nport = 1\n[engine]\nslots = 1\nengine = "echo"\n[webrtc]\nudp_port = 1\n')
    monkeypatch.setenv("RTC_PORT", "2")
    monkeypatch.setenv("RTC_SLOTS", "2")
    settings = config.load({"port": 3, "voice": None}, file)
    assert (settings.http.port, settings.engine.slots, settings.webrtc.udp_port) == (3, 2, 1)
    assert settings.engine.engine == "echo"


def test_lists_come_comma_separated_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RTC_ALLOW_ORIGIN", "https://a.example, http://b.example:8080")
    assert config.load().http.allow_origin == ("https://a.example", "http://b.example:8080")
    flags = {"turn_urls": ["stun:a.example", "turn:b.example,turns:c.example"]}
    assert config.load(flags).turn.turn_urls == ("stun:a.example", "turn:b.example", "turns:c.example")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"port": 70000}, "port=70000"),
        ({"slots": 0}, "slots=0"),
        ({"allow_origin": ["example.org"]}, "is no origin"),
        ({"advertise_ip": ["not-an-address"]}, "advertise_ip"),
        ({"tls_cert": Path("nowhere.pem")}, "tls_key"),
        ({"tls_cert": Path("nowhere.pem"), "tls_key": Path("nowhere.pem")}, "nowhere.pem is no file"),
        ({"host": "0.0.0.0"}, "no API key"),
        ({"host": "192.0.2.1"}, "no API key"),
        ({"host": "::"}, "no API key"),
        ({"auth": "key"}, "RTC_API_KEY"),
    ],
)
def test_wrong_setting_is_named_with_its_value(flags: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config.load(flags)


def test_outside_host_is_fine_with_a_key_or_an_explicit_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert config.load({"host": "0.0.0.0", "auth": "none"}).http.host == "0.0.0.0"
    monkeypatch.setenv("RTC_API_KEY", KEY)
    assert config.load({"host": "0.0.0.0"}).http.api_key is not None


def test_short_key_is_refused_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RTC_API_KEY", "hunter2")
    with pytest.raises(ConfigError) as refusal:
        config.load()
    assert "hunter2" not in str(refusal.value)


@pytest.mark.parametrize("secret", ["turn_secret = 7777777", 'turn_secret = ["hunter2"]'])
def test_turn_secret_is_never_shown(tmp_path: Path, secret: str) -> None:
    (tmp_path / "rtc.toml").write_text(f"[turn]\n{secret}\n")
    with pytest.raises(ConfigError, match="RTC_TURN_SECRET") as refusal:
        config.load({}, tmp_path / "rtc.toml")
    assert not any(word in str(refusal.value) for word in ("7777777", "hunter2", "--turn-secret"))


def test_key_never_appears_in_a_printed_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RTC_API_KEY", KEY)
    assert KEY not in repr(config.load())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[http]\nprot = 1\n", "did you mean port"),
        ("[htp]\nport = 1\n", "did you mean http"),
        ("port = 1\n", r"\[port\] is no section"),
        ("[http\n", "is not TOML"),
    ],
)
def test_typo_in_the_file_is_named(tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "rtc.toml"
    file.write_text(content)
    with pytest.raises(ConfigError, match=message):
        config.load({}, file)


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        config.load({}, tmp_path / "nowhere.toml")


@pytest.mark.parametrize(
    ("host", "loopback"),
    [("127.0.0.1", True), ("localhost", True), ("::1", True), ("0.0.0.0", False), ("example.org", False)],
)
def test_loopback_hosts(host: str, loopback: bool) -> None:
    assert config.HttpSettings(host=host).loopback is loopback


def test_hints_name_only_flags_that_exist() -> None:
    options = (Path(__file__).parents[1] / "rtc_server" / "cli.py").read_text(encoding="utf-8")
    for model in config._SECTIONS.values():
        named = model.with_flag if model.with_flag is not None else set(model.model_fields) - model.secrets
        for field in named:
            assert f'"--{(model.flag_prefix + field).replace("_", "-")}"' in options
