"""The section [sip]: what it takes, and how it says what is wrong with it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rtc_server import config
from rtc_server.config.sip import SipSettings
from rtc_server.errors import ConfigError

TRUNK = '[[sip.trunks]]\nname = "carrier"\naddresses = ["192.0.2.0/24"]\n'


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith("RTC_"):
            monkeypatch.delenv(name)


def load(tmp_path: Path, content: str, **flags: object) -> SipSettings:
    file = tmp_path / "rtc.toml"
    file.write_text(content)
    return config.load(flags, file).sip


def refusal(tmp_path: Path, content: str, **flags: object) -> str:
    with pytest.raises(ConfigError) as error:
        load(tmp_path, content, **flags)
    return str(error.value)


def test_there_are_no_phone_calls_by_default() -> None:
    sip = config.load().sip
    assert sip.listen == ()
    assert sip.trunks == ()
    assert sip.unknown_policy == "drop"
    assert sip.rtp_ports == (20_000, 20_999)
    assert sip.webhook_on_failure == "reject"


def test_flags_win_over_environment_over_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RTC_SIP_RING_S", "2")
    monkeypatch.setenv("RTC_SIP_LISTEN", "udp:127.0.0.1:5060, tcp:[::1]:5060")
    monkeypatch.setenv("RTC_SIP_RTP_PORTS", "30000-30009")
    sip = load(tmp_path, '[sip]\nring_s = 1\nsession_expires_s = 90\nlisten = ["udp:192.0.2.1:1"]\n', sip_ring_s=3)
    assert sip.ring_s == 3
    assert sip.listen == ("udp:127.0.0.1:5060", "tcp:[::1]:5060")
    assert sip.session_expires_s == 90
    assert sip.rtp_ports == (30_000, 30_009)


def test_names_of_other_sections_are_not_taken_for_those_of_sip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RTC_ADVERTISE_IP", "192.0.2.1")
    settings = config.load({"sip_advertise_ip": "192.0.2.2"})
    assert settings.webrtc.advertise_ip == ("192.0.2.1",)
    assert settings.sip.advertise_ip == "192.0.2.2"


def test_trunk_with_everything(tmp_path: Path) -> None:
    sip = load(
        tmp_path,
        """
        [sip]
        listen = ["udp:0.0.0.0:5060"]
        [[sip.trunks]]
        name = "carrier"
        addresses = ["192.0.2.7", "2001:db8::/48"]
        username = "in"
        password = "one"
        target = "tls:sip.example.com:5061"
        target_username = "out"
        target_password_env = "CARRIER_PASSWORD"
        caller_id = "+15550100"
        may_dial = ["+1555*"]
        codecs = ["pcma", "g722", "OPUS"]
        srtp = "require"
        max_calls = 30
        refer = "accept"
        headers = ["X-Account"]
        trust_identity = true
        [[sip.trunks.numbers]]
        pattern = "+15550199"
        persona = "You are Ann."
        voice = "NATF1"
        max_calls = 1
        allow_callers = ["+1*", "anonymous"]
        [[sip.trunks.numbers]]
        pattern = "*"
        """,
    )
    (trunk,) = sip.trunks
    assert trunk.codecs == ("PCMA", "G722", "opus")
    assert [number.pattern for number in trunk.numbers] == ["+15550199", "*"]
    assert sip.unknown_policy == "challenge"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"sip_listen": ["udp:5060"]}, "'udp:5060' is no place to listen on"),
        ({"sip_listen": ["udp:999.0.0.1:5060"]}, "listen="),
        *(
            ({"sip_listen": [text]}, "listen=")
            for text in (
                *("udp", "sctp:0.0.0.0:5060", "udp:", "udp:somewhere:5060", "udp:0.0.0.0:", "udp:0.0.0.0:-1"),
                *("udp:::1:5060", "udp:[::1:5060", "udp:[::1]5060", "udp:0.0.0.0:\u0665", "udp:[::1::]"),
            )
        ),
        ({"sip_listen": ["udp:0.0.0.0:70000"]}, "70000 is no port"),
        ({"sip_listen": ["tls:0.0.0.0:5061"]}, "there is no certificate"),
        ({"sip_advertise_ip": "0.0.0.0"}, "no address of a machine"),
        ({"sip_rtp_ports": "20000"}, "write it as 20000-20999"),
        ({"sip_rtp_ports": "20999-20000"}, "the lower one first"),
        ({"sip_rtp_ports": "31700-31700"}, "a call needs two ports"),
        ({"sip_rtp_ports": "1-65535"}, "from 1024"),
        ({"sip_session_expires_s": 60}, "session_expires_s=60"),
        ({"sip_digest_algorithms": "MD4"}, "'MD4' is unknown"),
        ({"sip_digest_algorithms": ""}, "digest_algorithms"),
        ({"sip_webhook_timeout_s": 4}, "webhook_timeout_s=4"),
        ({"sip_webhook_url": "example.org/calls"}, "https://example.org/calls"),
        ({"sip_webhook_url": "https://example..org/calls"}, "its host is no name"),
        ({"sip_webhook_url": f"https://{'a' * 64}.example/calls"}, "its host is no name"),
        ({"sip_webhook_url": "https://example.org/calls"}, "RTC_SIP_WEBHOOK_SECRET"),
        ({"sip_tls_cert": Path("nowhere.pem")}, "only one of tls_cert and tls_key"),
        ({"sip_tls_ca": Path("nowhere.pem")}, r"\[sip\] tls_ca: cannot read nowhere.pem: No such file"),
        ({"sip_tls_cert": Path("/"), "sip_tls_key": Path("/")}, r"\[sip\] tls_cert: cannot read /: Is a directory"),
        ({"sip_tls_verify_clients": True}, "tls_ca"),
        ({"sip_unknown_callers": "greet"}, "unknown_callers='greet'.*set RTC_SIP_UNKNOWN_CALLERS"),
    ],
)
def test_wrong_setting_is_named_with_its_value(flags: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        config.load(flags)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (TRUNK + "codecs = ['G729']\n", "[sip] trunks[carrier].codecs[#1]='G729'"),
        (TRUNK + "codecs = []\n", "trunks[carrier].codecs"),
        (TRUNK + "codecs = ['PCMU', 'pcmu']\n", "named twice"),
        (TRUNK + "codec = ['PCMU']\n", "trunks[carrier].codec is no setting; did you mean codecs?"),
        (TRUNK + "max_calls = 0\n", "trunks[carrier].max_calls=0"),
        (TRUNK + "headers = ['Authorization']\n", "names begin with X-"),
        (TRUNK + "target = 'sip.example.com'\n", "write it as udp:sip.example.com"),
        (TRUNK + "target = 'udp:sip.example.com:0'\n", "0 is no port"),
        (TRUNK + "target = 'udp:.:5060'\n", "names no host"),
        (TRUNK + "username = 'me'\n", "username and password go together"),
        (TRUNK + "may_dial = ['*']\n", "may_dial needs a target"),
        (
            TRUNK + "target = 'tls:sip.example.com'\ntls_ca = 'nowhere.pem'\n",
            "[sip] trunks[carrier] tls_ca: cannot read nowhere.pem: No such file",
        ),
        (TRUNK + "target = 'tls:a'\ntls_cert = 'x'\n", "tls_cert and tls_key go together"),
        (TRUNK + "target = 'udp:a'\ntls_ca = 'x'\n", "for a target such as tls:"),
        (TRUNK + "tls_ca = 'x'\n", "for a target such as tls:"),
        (TRUNK + "caller_id = 'two words'\n", "trunks[carrier].caller_id='two words'"),
        ("[[sip.trunks]]\naddresses = ['192.0.2.1']\n", "trunks[#1].name"),
        ("[[sip.trunks]]\nname = 'carrier'\n", "no call can come or go"),
        ("[[sip.trunks]]\nname = 'carrier'\naddresses = ['192.0.2.1/24']\n", "'192.0.2.1/24' is no address or network"),
        (
            TRUNK + "[[sip.trunks.numbers]]\npattern = '+1555*'\nvoice = ''\n",
            "trunks[carrier].numbers[+1555*].voice=''",
        ),
        (TRUNK + "[[sip.trunks.numbers]]\npattern = '*'\npersona = 7\n", "trunks[carrier].numbers[*].persona=7"),
        (TRUNK + "[[sip.trunks.numbers]]\nnumber = '1'\n", "trunks[carrier].numbers[#1].pattern"),
        (TRUNK + TRUNK, "trunk 'carrier' has it too"),
        (TRUNK + TRUNK.replace("carrier", "other"), "192.0.2.0/24 overlaps 192.0.2.0/24 of trunk"),
        (
            TRUNK + "[[sip.trunks]]\nname = 'other'\naddresses = ['192.0.2.77', '10.0.0.0/8']\n",
            "trunks[other].addresses: 192.0.2.77/32 overlaps 192.0.2.0/24 of trunk 'carrier'",
        ),
        (
            "[sip]\nunknown_callers = 'drop'\n[[sip.trunks]]\nname = 'a'\nusername = 'u'\npassword = 'p'\n",
            "nobody is asked for a digest",
        ),
        ("[sip]\ntrunks = 7\n", "write [[sip.trunks]]"),
        ("[sip]\ntrunks = ['carrier']\n", "write [[sip.trunks]]"),
        ("[sip.trunks]\nname = 'carrier'\n", "write [[sip.trunks]]"),
        (TRUNK + "numbers = 3\n", "write [[sip.trunks.numbers]]"),
        (TRUNK + "[sip.trunks.numbers]\npattern = '*'\n", "write [[sip.trunks.numbers]]"),
        (TRUNK + "pasword = 'x'\n", "did you mean password?"),
        (TRUNK + "[[sip.trunks.numbers]]\npattern = '*'\nvoise = 'x'\n", "did you mean voice?"),
        (TRUNK.replace("192.0.2.0", "192.0.2.7"), "the network is 192.0.2.0/24"),
        ("[sip]\nlisten_on = 'udp:0.0.0.0:5060'\n", "did you mean listen?"),
    ],
)
def test_wrong_trunk_is_told_with_its_name_and_the_field(tmp_path: Path, content: str, message: str) -> None:
    assert message in refusal(tmp_path, content)


def with_targets(tmp_path: Path, of_all: str, *trunks: tuple[str, str]) -> str:
    """Settings with files `one.pem` and `two.pem`. `trunks`: the target of each, and what else it says."""
    for name in ("one.pem", "two.pem"):
        (tmp_path / name).write_text("")
    tables = (
        f"[[sip.trunks]]\nname = 't{number}'\ntarget = '{target}'\n{more}\n"
        for number, (target, more) in enumerate(trunks)
    )
    return f"[sip]\n{of_all}\n{''.join(tables)}".replace("'one.pem'", f"'{tmp_path / 'one.pem'}'").replace(
        "'two.pem'", f"'{tmp_path / 'two.pem'}'"
    )


PAIR_ONE = "tls_cert = 'one.pem'\ntls_key = 'one.pem'"


@pytest.mark.parametrize(
    ("of_all", "first", "second", "field"),
    [
        ("", "tls_ca = 'one.pem'", "", "tls_ca"),
        ("", "", "tls_ca = 'one.pem'", "tls_ca"),
        ("tls_ca = 'two.pem'", "tls_ca = 'one.pem'", "", "tls_ca"),
        ("", "tls_ca = 'one.pem'", "tls_ca = 'two.pem'", "tls_ca"),
        ("", PAIR_ONE, "", "tls_cert"),
        ("", PAIR_ONE, PAIR_ONE.replace("key = 'one", "key = 'two"), "tls_key"),
    ],
)
@pytest.mark.parametrize("other", ["tls:SIP.example.com", "tls:sip.example.com:5062", "tls:sip.example.com."])
def test_host_that_two_trunks_call_with_different_files_is_refused(
    tmp_path: Path, of_all: str, first: str, second: str, field: str, other: str
) -> None:
    told = refusal(tmp_path, with_targets(tmp_path, of_all, ("tls:sip.example.com", first), (other, second)))
    assert f"[sip] trunks[t1].{field}: " in told
    assert "trunk 't0', which calls sip.example.com too" in told.replace("SIP", "sip")
    assert f"give both the same {field}" in told


@pytest.mark.parametrize(
    ("of_all", "first", "second"),
    [
        ("", ("tls:sip.example.com", "tls_ca = 'one.pem'"), ("tls:sip.example.org", "")),
        ("", ("tls:sip.example.com", "tls_ca = 'one.pem'"), ("tcp:sip.example.com", "")),
        ("", ("tls:sip.example.com", "tls_ca = 'one.pem'"), ("tls:sip.example.com:5062", "tls_ca = 'one.pem'")),
        ("tls_ca = 'one.pem'", ("tls:sip.example.com", "tls_ca = 'one.pem'"), ("tls:sip.example.com", "")),
        ("", ("tls:sip.example.com", ""), ("tls:sip.example.com", "")),
    ],
)
def test_hosts_that_are_called_with_the_same_files_may_be_of_two_trunks(
    tmp_path: Path, of_all: str, first: tuple[str, str], second: tuple[str, str]
) -> None:
    assert len(load(tmp_path, with_targets(tmp_path, of_all, first, second)).trunks) == 2


def test_trunks_come_from_the_file_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RTC_SIP_TRUNKS", '[{"name": "carrier"}]')
    with pytest.raises(ConfigError, match="tables of the settings file"):
        config.load()


@pytest.mark.parametrize(
    "content",
    [
        TRUNK + "username = 'u'\npassword = ['hunter2']\n",
        TRUNK + "username = 'u'\npassword = 'hunter2'\npassword_file = 'x'\n",
        TRUNK + "password = 'hunter2'\n",
        TRUNK + "target_password = 1234567\n",
        TRUNK + "pasword = 'hunter2'\n",
        TRUNK + "[[sip.trunks.numbers]]\npattern = '*'\npassword = 'hunter2'\n",
        "[sip]\ntrunks = ['hunter2']\n",
        "[sip]\nwebhook_secret = ['hunter2']\n",
        "[sip]\ntrunks = { password = 'hunter2' }\n",
    ],
)
def test_password_is_never_shown(tmp_path: Path, content: str) -> None:
    told = refusal(tmp_path, content)
    assert "hunter2" not in told
    assert "1234567" not in told
    assert "--sip-webhook-secret" not in told


def test_password_never_appears_in_a_printed_setting(tmp_path: Path) -> None:
    sip = load(tmp_path, TRUNK + "username = 'u'\npassword = 'hunter2'\n")
    assert "hunter2" not in repr(sip)


def test_only_flags_that_exist_are_named() -> None:
    options = (Path(__file__).parents[1] / "rtc_server" / "cli.py").read_text(encoding="utf-8")
    for field in SipSettings.with_flag or ():
        assert f'"--sip-{field.replace("_", "-")}"' in options
    with pytest.raises(ConfigError) as error:
        config.load({"sip_webhook_url": "example.org"})
    assert "--" not in str(error.value)
