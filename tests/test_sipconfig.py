from __future__ import annotations

import ipaddress
import socket
from pathlib import Path
from typing import Any

import pytest

from rtc_server.config.sip import SipNumberSettings, SipSettings, SipTrunkSettings, check_sip
from rtc_server.engine.stepper import FrameSpec, SessionPrompt
from rtc_server.errors import ConfigError, UnknownVoice
from rtc_server.sipconfig import (
    build_gatekeeper,
    build_listen,
    build_tls,
    build_trunks,
    build_user_agent,
    build_webhook,
    check_prompts,
    few_ports,
    line_in_words,
    useless,
)
from rtc_server.transports.pacer import Pacer
from rtc_server.transports.sip import useragent
from rtc_server.transports.sip.flow import Transport
from rtc_server.transports.sip.message.message import Request, Response, parse
from rtc_server.transports.sip.network.network import SipNetwork
from rtc_server.transports.sip.network.target import Target
from rtc_server.transports.sip.network.tls import TlsSettings
from rtc_server.transports.sip.trunk.gatekeeper import Gatekeeper
from rtc_server.transports.sip.trunk.sources import MESSAGES_AT_ONCE
from rtc_server.transports.sip.trunk.trunks import Login
from tests.logs import captured_logs
from tests.session.conftest import House
from tests.session.fakes import FakeEngine
from tests.transports.sip.network.listeners import options_request, place_of, until


def trunk(**fields: Any) -> SipTrunkSettings:
    return SipTrunkSettings(**{"name": "carrier", "addresses": ("192.0.2.0/24",), **fields})


def sip(*trunks: SipTrunkSettings, **fields: Any) -> SipSettings:
    return SipSettings(trunks=trunks, **fields)


def test_trunk_is_what_its_settings_say() -> None:
    settings = trunk(
        username="in",
        password="open sesame",
        target="tls:[2001:db8::1]:5061",
        target_username="out",
        target_password_env="CARRIER",
        may_dial=("+1*",),
        codecs=("PCMA",),
        srtp="require",
        headers=("X-Account",),
        trust_identity=True,
        numbers=(SipNumberSettings(pattern="+1555*", persona="Ann", allow_callers=("+1*",)),),
    )
    trunks = build_trunks(sip(settings), {"CARRIER": "hunter2"})
    built = trunks.named("carrier")
    assert built is not None
    assert built.networks == (ipaddress.ip_network("192.0.2.0/24"),)
    assert built.inbound == Login("in", "open sesame")
    assert (built.username, built.password) == ("out", "hunter2")
    assert built.target == Target("tls", "2001:db8::1", 5061)
    assert (built.media.codecs, built.media.srtp) == (("PCMA",), "require")
    assert built.may_dial("+15550100")
    assert not built.may_dial("+49301234")
    rule = built.rule_for("+15550100")
    assert rule is not None
    assert rule.persona == "Ann"
    assert not rule.admits("+49301234")
    assert "hunter2" not in repr(built)
    assert "open sesame" not in repr(built)


def test_password_may_stand_in_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("from a file\n")
    trunks = build_trunks(sip(trunk(username="in", password_file=tmp_path / "password")))
    assert [each.inbound for each in trunks] == [Login("in", "from a file")]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"username": "in", "password_env": "NOWHERE"},
            r"trunks\[carrier\].password_env=NOWHERE: there is no password",
        ),
        ({"username": "in", "password_file": Path("nowhere")}, r"trunks\[carrier\].password_file: cannot read nowhere"),
        ({"target": "udp:a", "may_dial": ("/(/",)}, r"trunks\[carrier\].may_dial='/\(/': groups"),
        (
            {"numbers": (SipNumberSettings(pattern="/[/"),)},
            r"trunks\[carrier\].numbers\[/\[/\].pattern='/\[/': .*ends too early",
        ),
        (
            {"numbers": (SipNumberSettings(pattern="*", allow_callers=("/a{9,1}/",)),)},
            r"numbers\[\*\].allow_callers='/a\{9,1\}/'.*no range",
        ),
    ],
)
def test_what_a_trunk_cannot_be_made_of_is_named(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_trunks(sip(trunk(**fields)), {})


def test_voice_that_the_engine_lacks_is_told_with_trunk_and_number() -> None:
    class Admission:
        def prompt(self, asked: SessionPrompt) -> SessionPrompt:
            raise UnknownVoice(f"voice {asked.voice!r} is unknown")

    trunks = build_trunks(sip(trunk(numbers=(SipNumberSettings(pattern="+1555*", voice="Bob"),))))
    with pytest.raises(ConfigError, match=r"trunks\[carrier\].numbers\[\+1555\*\]: voice 'Bob' is unknown"):
        check_prompts(trunks, Admission())


@pytest.mark.parametrize("limit", [40, 40_000])
def test_persona_may_be_as_long_as_the_engine_takes_which_is_told(limit: int) -> None:
    spec = FrameSpec(name="small", summary="", max_persona_chars=limit)
    admission = House(engine=FakeEngine(spec=spec)).admission
    fits, longer = (
        build_trunks(sip(trunk(numbers=(SipNumberSettings(pattern="*", persona="x" * length),))))
        for length in (limit, limit + 1)
    )
    check_prompts(fits, admission)
    with pytest.raises(ConfigError) as refusal:
        check_prompts(longer, admission)
    assert refusal.value.message == f"[sip] trunks[carrier].numbers[*]: persona has {limit + 1} characters"
    assert refusal.value.hint == f"the engine small takes at most {limit}"


async def test_webhook_is_there_where_it_has_an_address(tmp_path: Path) -> None:
    assert build_webhook(sip()) is None
    (tmp_path / "secret").write_text("0123456789abcdef\n")
    url = "https://example.org/calls"
    webhook = build_webhook(sip(webhook_url=url, webhook_secret_file=tmp_path / "secret"))
    assert webhook is not None
    await webhook.close()


def test_short_webhook_secret_is_refused_and_not_shown() -> None:
    with pytest.raises(ConfigError, match="has 7 characters, and 16 is the least") as refusal:
        build_webhook(sip(webhook_url="https://example.org/calls", webhook_secret="hunter2"))
    assert "hunter2" not in str(refusal.value)
    assert "webhook_secret_file" in refusal.value.hint and "16 characters" in refusal.value.hint


def test_webhook_without_a_secret_says_which_setting_takes_one_and_how_long_it_must_be() -> None:
    with pytest.raises(ConfigError, match="without a secret") as refusal:
        check_sip(sip(webhook_url="https://example.org/calls"))
    assert "webhook_secret_file" in refusal.value.hint and "16 characters" in refusal.value.hint


def test_what_is_listened_on_is_read() -> None:
    settings = sip(listen="udp:0.0.0.0, tcp:127.0.0.1:0, tls:[::]:5062, tls:192.0.2.1, udp:[2001:db8::1]")
    places = ["udp:0.0.0.0:5060", "tcp:127.0.0.1:0", "tls:[::]:5062", "tls:192.0.2.1:5061", "udp:[2001:db8::1]:5060"]
    assert [str(place) for place in build_listen(settings)] == places


def test_trunk_may_be_called_with_certificates_of_its_own(tmp_path: Path) -> None:
    ours, theirs, authority = (tmp_path / name for name in ("ours.pem", "theirs.pem", "authority.pem"))
    settings = sip(
        trunk(target="tls:SIP.example.com.", tls_ca=authority),
        trunk(name="bank", target="tls:[2001:db8::1]:5061", tls_cert=theirs, tls_key=theirs),
        trunk(name="other", target="tls:sip.example.org"),
        tls_cert=ours,
        tls_key=ours,
    )
    of_hosts = {"sip.example.com": TlsSettings(ours, ours, authority), "2001:db8::1": TlsSettings(theirs, theirs)}
    assert build_tls(settings) == TlsSettings(ours, ours, of_hosts=of_hosts)
    targets = [each.target for each in build_trunks(settings)]
    assert [target and target.host for target in targets] == ["SIP.example.com", "2001:db8::1", "sip.example.org"]


@pytest.mark.parametrize(
    ("listen", "advertise_ip", "told"),
    [
        ("udp:0.0.0.0:5060", None, "udp:192.168.1.10:5060"),
        ("udp:0.0.0.0, tls:[::]:5061", None, "udp:192.168.1.10:5060, tls:[2001:db8::10]:5061"),
        ("udp:0.0.0.0", "203.0.113.7", "udp:203.0.113.7:5060"),
        ("udp:0.0.0.0, tls:[::]:5061", "203.0.113.7", "udp:203.0.113.7:5060, tls:[2001:db8::10]:5061"),
        ("tcp:127.0.0.1:5070", None, "tcp:127.0.0.1:5070"),
    ],
)
def test_phone_line_is_described_as_others_reach_it(listen: str, advertise_ip: str | None, told: str) -> None:
    own = ("192.168.1.10", "2001:db8::10")
    settings = sip(trunk(), trunk(name="desk"), listen=listen, advertise_ip=advertise_ip)
    assert line_in_words(settings, own) == f"Phone line {told}\n2 trunks: carrier, desk"
    assert "nobody can call" in line_in_words(sip(listen=listen), own)


@pytest.mark.parametrize(
    ("ports", "max_calls", "enough"),
    [((20_000, 20_007), None, True), ((20_001, 20_008), None, False), ((20_001, 20_008), 3, True)],
)
def test_ports_are_enough_for_the_calls_that_there_may_be(
    ports: tuple[int, int], max_calls: int | None, enough: bool
) -> None:
    assert (few_ports(sip(rtp_ports=ports, max_calls=max_calls), slots=4) is None) is enough


def test_gatekeeper_knows_the_trunks() -> None:
    settings = sip(trunk())
    assert build_gatekeeper(settings, build_trunks(settings)) is not None


def test_short_webhook_secret_is_told_by_the_place_it_stands_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RTC_SIP_WEBHOOK_SECRET", raising=False)
    settings = sip(webhook_url="https://example.org/calls", webhook_secret="short")
    with pytest.raises(ConfigError, match="secret in webhook_secret has"):
        build_webhook(settings)
    monkeypatch.setenv("RTC_SIP_WEBHOOK_SECRET", "short")
    with pytest.raises(ConfigError, match="secret in RTC_SIP_WEBHOOK_SECRET has"):
        build_webhook(settings)


def test_settings_that_no_call_can_come_of_are_told() -> None:
    number = SipNumberSettings(pattern="*")
    assert [subject for subject, _, _ in useless(sip(trunk(numbers=(number,))))] == ["phone"]
    assert [subject for subject, _, _ in useless(sip(trunk(), listen="udp:127.0.0.1:0"))] == ["trunk carrier"]
    assert not list(useless(sip(trunk(numbers=(number,)), listen="udp:127.0.0.1:0")))


@pytest.mark.parametrize(
    ("listen", "target", "reached"),
    [
        ("udp:0.0.0.0", "udp:sip.example.com", True),
        ("tcp:0.0.0.0", "udp:sip.example.com", False),
        ("tcp:0.0.0.0", "udp:192.0.2.1", False),
        ("udp:0.0.0.0, tcp:[::]", "udp:192.0.2.1", True),
        ("udp:0.0.0.0, tcp:[::]", "udp:[2001:db8::1]", False),
        ("udp:[::], tcp:0.0.0.0", "udp:192.0.2.1:5070", False),
        ("udp:[::]", "udp:[2001:db8::1]", True),
        ("udp:0.0.0.0", "tcp:[2001:db8::1]", True),
        ("udp:[::]", "tls:192.0.2.1", True),
    ],
)
def test_a_udp_target_wants_a_place_to_call_from_and_a_connection_none(listen: str, target: str, reached: bool) -> None:
    settings = sip(trunk(target=target, numbers=(SipNumberSettings(pattern="*"),)), listen=listen)
    told = list(useless(settings))
    assert (not told) is reached
    for subject, trouble, hint in told:
        assert subject == "trunk carrier" and target in trouble
        assert not list(useless(settings.model_copy(update={"listen": (*settings.listen, hint.split('"')[1])})))


async def test_messages_of_a_flood_are_not_even_read(monkeypatch: pytest.MonkeyPatch) -> None:
    house, asked, read = House(), 0, 0
    allow = Gatekeeper.allow

    def count_asked(gatekeeper: Gatekeeper, host: str, transport: Transport) -> bool:
        nonlocal asked
        asked += 1
        return allow(gatekeeper, host, transport)

    def count_read(datagram: bytes) -> Request | Response:
        nonlocal read
        read += 1
        return parse(datagram)

    monkeypatch.setattr(Gatekeeper, "allow", count_asked)
    monkeypatch.setattr(useragent, "parse", count_read)
    agent = build_user_agent(sip(trunk(), listen="udp:127.0.0.1:0"), house.admission, Pacer(), lambda: 1.0)
    assert agent is not None
    await agent.start()
    try:
        network = agent._network
        assert isinstance(network, SipNetwork)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            for number in range(1, 601):
                stranger.sendto(options_request(number), place_of(network, "udp"))
                if number % 50 == 0:
                    await until(lambda sent=number: asked == sent)  # type: ignore[misc]
    finally:
        await agent.close()
    assert read == MESSAGES_AT_ONCE


def test_start_warns_of_trunks_without_a_place_to_listen_on() -> None:
    nothing: Any = None
    with captured_logs() as logged:
        assert build_user_agent(sip(trunk()), nothing, nothing, lambda: 0.0) is None
    assert [line["subject"] for line in logged if line["log_level"] == "warning"] == ["phone", "trunk carrier"]
