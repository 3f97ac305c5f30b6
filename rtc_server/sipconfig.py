"""From the settings of phone calls to what answers them: the user agent, its trunks with their rules and passwords."""

from __future__ import annotations

import ipaddress
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from pydantic import SecretStr

from rtc_server.config.sip import (
    MIN_SECRET_CHARS,
    SECRET_HINT,
    SipNumberSettings,
    SipSettings,
    SipTrunkSettings,
    parse_listen,
    parse_target,
)
from rtc_server.engine.stepper import SessionPrompt
from rtc_server.errors import ClientError, ConfigError
from rtc_server.log import get_logger
from rtc_server.session.admission import Admission
from rtc_server.transports.pacer import Pacer
from rtc_server.transports.sip.call.rtpmedia import RtpMedia
from rtc_server.transports.sip.call.surroundings import CallSettings
from rtc_server.transports.sip.flow import DEFAULT_PORT, Flow, transport_named
from rtc_server.transports.sip.hosts import host_and_port, is_address
from rtc_server.transports.sip.media.rtpport import MIN_REST_S, RtpPorts, pairs_between
from rtc_server.transports.sip.message.message import SipParseError
from rtc_server.transports.sip.negotiation.agreedmedia import MediaPolicy
from rtc_server.transports.sip.network.addresses import WILDCARDS, advertised_beside
from rtc_server.transports.sip.network.listenon import ListenOn
from rtc_server.transports.sip.network.network import SipNetwork
from rtc_server.transports.sip.network.target import Target
from rtc_server.transports.sip.network.tls import TlsSettings
from rtc_server.transports.sip.trunk.gatekeeper import Gatekeeper
from rtc_server.transports.sip.trunk.numbers import NumberRule
from rtc_server.transports.sip.trunk.patterns import Pattern
from rtc_server.transports.sip.trunk.trunks import Login, Trunk, Trunks
from rtc_server.transports.sip.trunk.webhook import Webhook
from rtc_server.transports.sip.useragent import UserAgent

MAX_SECRET_BYTES = 4096

log = get_logger(__name__)


def build_user_agent(
    sip: SipSettings, admission: Admission, pacer: Pacer, clock: Callable[[], float]
) -> UserAgent | None:
    """None, where there is nothing to listen on: no phone calls. Raises: ConfigError."""
    for subject, trouble, hint in useless(sip):
        log.warning("sip_settings_useless", subject=subject, trouble=trouble, hint=hint)
    if not sip.listen:
        return None
    trunks = build_trunks(sip)
    gatekeeper = build_gatekeeper(sip, trunks, clock)

    def open_network(
        on_message: Callable[[bytes, Flow], None],
        on_closed: Callable[[Flow], None],
        on_unreadable: Callable[[SipParseError, Flow], None],
    ) -> SipNetwork:
        return SipNetwork(
            build_listen(sip),
            on_message,
            on_closed,
            on_unreadable=on_unreadable,
            gate=gatekeeper,
            tls=build_tls(sip),
            advertise=sip.advertise_ip,
            clock=clock,
        )

    return UserAgent(
        open_network,
        trunks,
        gatekeeper,
        admission,
        RtpMedia(RtpPorts(*sip.rtp_ports, clock=clock), pacer, clock),
        webhook=build_webhook(sip),
        settings=CallSettings(ring_s=sip.ring_s, session_expires_s=sip.session_expires_s, max_calls=sip.max_calls),
        clock=clock,
    )


def useless(sip: SipSettings) -> Iterator[tuple[str, str, str]]:
    """Settings that are possible, and that no call can come of: what of, what is wrong, what to do."""
    if sip.trunks and not sip.listen:
        names = ", ".join(trunk.name for trunk in sip.trunks)
        yield "phone", f"off, though there are trunks ({names}): listen is not set", 'set listen = ["udp:0.0.0.0:5060"]'
    for trunk in sip.trunks:
        if not trunk.numbers and trunk.target is None:
            trouble = "it has no numbers and no target: every call gets 404, and none can be made"
            yield f"trunk {trunk.name}", trouble, "add [[sip.trunks.numbers]] below it, or set target"
        elif sip.listen and (lacking := _place_lacking(trunk, build_listen(sip))) is not None:
            kind, example = lacking
            trouble = (
                f"listen has no {kind}, and calls to target={trunk.target!r} would leave from one: none can be made"
            )
            yield f"trunk {trunk.name}", trouble, f'add "{example}" to listen, or choose another target'


def _place_lacking(trunk: SipTrunkSettings, listen: Sequence[ListenOn]) -> tuple[str, str] | None:
    """Which kind of place the trunk's target needs, and one such. Connections are opened from anywhere."""
    if trunk.target is None or not trunk.target.startswith("udp:"):
        return None
    _, host, _ = parse_target(trunk.target)
    listened_on = {":" in place.host for place in listen if place.transport == "udp"}
    if not is_address(host):
        return None if listened_on else ("udp place", "udp:0.0.0.0:5060")
    if (":" in host) in listened_on:
        return None
    if ":" in host:
        return "udp place with an IPv6 address", "udp:[::]:5060"
    return "udp place with an IPv4 address", "udp:0.0.0.0:5060"


def few_ports(sip: SipSettings, slots: int) -> tuple[str, str] | None:
    """What is wrong and what to do, where the ports for audio do not suffice for the calls that there may be."""
    (first, last), calls = sip.rtp_ports, min(slots, sip.max_calls or slots)
    pairs = len(pairs_between(first, last))
    if pairs >= calls:
        return None
    trouble = f"rtp_ports {first}-{last} suffice for {pairs} of the {calls} calls that the engine could take at once"
    return trouble, f"widen the range: a call takes two ports, which rest for {MIN_REST_S:.0f} s behind it"


def warn_of_few_ports(sip: SipSettings, slots: int) -> None:
    if (found := few_ports(sip, slots)) is not None:
        log.warning("few_rtp_ports", trouble=found[0], hint=found[1])


def line_in_words(sip: SipSettings, own_addresses: Sequence[str]) -> str:
    """Where phones reach this server: as others are told, else by one of its own addresses."""
    told = ((place, _told(sip, place, own_addresses)) for place in build_listen(sip))
    places = [f"{place.transport}:{host_and_port(host, place.port)}" for place, host in told]
    names = ", ".join(trunk.name for trunk in sip.trunks)
    count = len(sip.trunks)
    known = f"{count} trunk{'s' * (count != 1)}: {names}" if count else "no trunk, so that nobody can call"
    return f"Phone line {', '.join(places)}\n{known}"


def _told(sip: SipSettings, place: ListenOn, own_addresses: Sequence[str]) -> str:
    if (advertised := advertised_beside(place.host, sip.advertise_ip)) is not None:
        return advertised
    if place.host not in WILDCARDS:
        return place.host
    return next((address for address in own_addresses if (":" in address) == (":" in place.host)), place.host)


def build_trunks(sip: SipSettings, environment: Mapping[str, str] = os.environ) -> Trunks:
    """Reads the passwords too. Raises: ConfigError, which names trunk and field, and never holds a password."""
    return Trunks([_trunk(trunk, environment) for trunk in sip.trunks])


def build_listen(sip: SipSettings) -> list[ListenOn]:
    """Without a port, those of RFC 3261 section 19.1.2."""
    places = (parse_listen(text) for text in sip.listen)
    named = ((transport_named(name), host, port) for name, host, port in places)
    return [
        ListenOn(transport, host, DEFAULT_PORT[transport] if port is None else port) for transport, host, port in named
    ]


def build_tls(sip: SipSettings) -> TlsSettings:
    """A trunk that has files of its own is called with them, and with those of all trunks for what it has not."""
    of_hosts = {
        parse_target(trunk.target)[1].lower(): TlsSettings(
            certificate=trunk.tls_cert or sip.tls_cert, key=trunk.tls_key or sip.tls_key, ca=trunk.tls_ca or sip.tls_ca
        )
        for trunk in sip.trunks
        if trunk.target is not None and trunk.has_own_tls
    }
    return TlsSettings(sip.tls_cert, sip.tls_key, sip.tls_ca, verify_clients=sip.tls_verify_clients, of_hosts=of_hosts)


def build_gatekeeper(sip: SipSettings, trunks: Trunks, clock: Callable[[], float] = time.monotonic) -> Gatekeeper:
    return Gatekeeper(
        trunks,
        unknown=sip.unknown_policy,
        realm=sip.realm,
        secret=secrets.token_bytes(32),
        algorithms=sip.digest_algorithms,
        clock=clock,
    )


def build_webhook(sip: SipSettings) -> Webhook | None:
    """Raises: ConfigError."""
    if sip.webhook_url is None:
        return None
    if sip.webhook_secret_file is not None:
        place = "webhook_secret_file"
        secret = _read(sip.webhook_secret_file, f"[sip] {place}")
    else:
        variable = "RTC_SIP_WEBHOOK_SECRET"  # which wins over the file
        place = variable if variable in os.environ else "webhook_secret"
        secret = "" if sip.webhook_secret is None else sip.webhook_secret.get_secret_value()
    if len(secret) < MIN_SECRET_CHARS:
        raise ConfigError(
            f"[sip] the secret in {place} has {len(secret)} characters, and {MIN_SECRET_CHARS} is the least",
            hint=SECRET_HINT,
        )
    return Webhook(sip.webhook_url, secret, timeout_s=sip.webhook_timeout_s, on_failure=sip.webhook_on_failure)


class Prompts(Protocol):
    """`Admission`, as far as it is asked here."""

    def prompt(self, asked: SessionPrompt) -> SessionPrompt: ...


def check_prompts(trunks: Trunks, admission: Prompts) -> None:
    """Whether the engine takes each rule's persona and voice, so that no caller finds out. Raises: ConfigError."""
    for trunk in trunks:
        for rule in trunk.numbers:
            try:
                admission.prompt(SessionPrompt(persona=rule.persona, voice=rule.voice))
            except ClientError as error:
                place = f"[sip] trunks[{trunk.name}].numbers[{rule.pattern.text}]"
                raise ConfigError(f"{place}: {error.message}", hint=error.hint) from None


def _trunk(trunk: SipTrunkSettings, environment: Mapping[str, str]) -> Trunk:
    place = f"[sip] trunks[{trunk.name}]"
    inbound = _secret(trunk.password, trunk.password_env, trunk.password_file, f"{place}.password", environment)
    outbound = _secret(
        trunk.target_password,
        trunk.target_password_env,
        trunk.target_password_file,
        f"{place}.target_password",
        environment,
    )
    return Trunk(
        name=trunk.name,
        networks=tuple(ipaddress.ip_network(text) for text in trunk.addresses),
        inbound=None if trunk.username is None or inbound is None else Login(trunk.username, inbound),
        target=None if trunk.target is None else _target(trunk.target),
        username=trunk.target_username,
        password=outbound,
        caller_id=trunk.caller_id,
        dialable=_patterns(trunk.may_dial, f"{place}.may_dial"),
        media=MediaPolicy(trunk.codecs, trunk.srtp),
        max_calls=trunk.max_calls,
        refer=trunk.refer,
        header_names=trunk.headers,
        trusted=trunk.trust_identity,
        numbers=tuple(_rule(number, f"{place}.numbers[{number.pattern}]") for number in trunk.numbers),
    )


def _target(text: str) -> Target:
    name, host, port = parse_target(text)
    return Target(transport_named(name), host, port)


def _rule(number: SipNumberSettings, place: str) -> NumberRule:
    return NumberRule(
        pattern=_pattern(number.pattern, f"{place}.pattern"),
        persona=number.persona,
        voice=number.voice,
        max_calls=number.max_calls,
        allow_callers=_patterns(number.allow_callers, f"{place}.allow_callers"),
    )


def _patterns(texts: Sequence[str], place: str) -> tuple[Pattern, ...]:
    return tuple(_pattern(text, place) for text in texts)


def _pattern(text: str, place: str) -> Pattern:
    try:
        return Pattern(text)
    except ValueError as error:
        raise ConfigError(f"{place}={text!r}: {error}") from None


def _secret(
    value: SecretStr | None, variable: str | None, path: Path | None, place: str, environment: Mapping[str, str]
) -> str | None:
    if value is not None:
        secret = value.get_secret_value()
    elif variable is not None:
        secret = environment.get(variable, "")
        place = f"{place}_env={variable}"
    elif path is not None:
        place = f"{place}_file"
        secret = _read(path, place)
    else:
        return None
    if not secret:
        raise ConfigError(f"{place}: there is no password")
    return secret


def _read(path: Path, place: str) -> str:
    try:
        with path.open("rb") as stream:
            return stream.read(MAX_SECRET_BYTES).decode(errors="replace").strip()
    except OSError as error:
        raise ConfigError(f"{place}: cannot read {path}: {error.strerror}") from None
