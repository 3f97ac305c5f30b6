"""What ``rtc-server check`` says of phone calls: whether this machine answers itself, what it is known as, and what its
trunks say, all of it by OPTIONS (RFC 3261 section 11); and whether the webhook is there."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import errno
import ssl
from collections.abc import AsyncIterator, Iterator
from urllib.parse import urlsplit

from rtc_server.config import Settings
from rtc_server.config.sip import SipSettings, SipTrunkSettings
from rtc_server.errors import ConfigError
from rtc_server.finding import Finding
from rtc_server.sipconfig import build_listen, build_tls, build_trunks, build_webhook, few_ports, useless
from rtc_server.transports.sip.flow import Address, Flow
from rtc_server.transports.sip.hosts import host_and_port
from rtc_server.transports.sip.media.rtpport import RtpPorts
from rtc_server.transports.sip.message.message import Request, SipParseError, parse
from rtc_server.transports.sip.network.addresses import advertised_beside
from rtc_server.transports.sip.network.listenon import ListenOn
from rtc_server.transports.sip.network.network import SipNetwork
from rtc_server.transports.sip.network.target import Target
from rtc_server.transports.sip.network.trouble import words_for
from rtc_server.transports.sip.optionsprobe import Answer, ask_options
from rtc_server.transports.sip.transaction.derived import response_to
from rtc_server.transports.sip.transaction.matching import way_back
from rtc_server.transports.sip.trunk.trunks import Trunk, Trunks

_LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def examine_sip(settings: Settings) -> Iterator[Finding]:
    sip = settings.sip
    troubles = [Finding(subject, False, trouble, hint) for subject, trouble, hint in useless(sip)]
    if not sip.listen and troubles:
        yield from troubles
        return
    if not sip.listen:
        yield Finding("phone", None, "off; docs/telephony.md says how to connect a trunk")
        return
    try:
        trunks = build_trunks(sip)
        build_webhook(sip)
        RtpPorts(*sip.rtp_ports)
    except ConfigError as error:
        yield Finding("phone", False, error.message, error.hint)
        return
    yield from asyncio.run(_ask_everyone(sip, trunks, {finding.subject for finding in troubles}))
    yield from (_listed(trunk) for trunk in trunks if trunk.target is None and trunk.numbers)
    yield from (_undialled(trunk) for trunk in sip.trunks if trunk.target is not None and not trunk.may_dial)
    if sip.webhook_url is not None:
        yield asyncio.run(_reach_webhook(sip, sip.webhook_url))
    yield from troubles
    if (found := few_ports(sip, settings.engine.slots)) is not None:
        yield Finding("RTP ports", None, *found)


async def _ask_everyone(sip: SipSettings, trunks: Trunks, but_for: set[str]) -> list[Finding]:
    """`but_for`: trunks about which all is said, by their subjects."""
    findings = [await _ask_ourselves(sip, place) for place in build_listen(sip)]
    asked = [trunk for trunk in trunks if _subject(trunk) not in but_for]
    findings += await asyncio.gather(*[_ask_trunk(sip, trunk, trunk.target) for trunk in asked if trunk.target])
    if not any(True for _ in trunks):
        findings.append(Finding("trunks", False, "none: nobody may call", "add [[sip.trunks]] to the settings file"))
    return findings


async def _ask_ourselves(sip: SipSettings, place: ListenOn) -> Finding:
    subject = f"SIP {place.transport}"
    try:
        async with _listening(sip, place) as network:
            (bound,) = network.listening
            target = Target(place.transport, _LOOPBACK.get(bound.host, bound.host), bound.port)
            trusting = dataclasses.replace(build_tls(sip), insecure=True)  # a certificate for a name, asked by address
            answer = await ask_options(target, [place], tls=trusting)
            known_as = host_and_port(*_known_as(network, place))
    except ConfigError as error:
        return Finding(subject, False, error.message, error.hint)
    except TimeoutError:
        return Finding(subject, False, f"{place} does not answer itself", "a packet filter on this machine drops SIP")
    except OSError as error:
        taken = error.errno == errno.EADDRINUSE
        advice = (
            "another server runs here already: while it runs it holds its ports; or choose another with --sip-listen"
        )
        return Finding(subject, False, f"{place}: {error.strerror or error}", advice if taken else "")
    advertised = advertised_beside(place.host, sip.advertise_ip)
    elsewhere = "" if advertised is None else f", and as {advertised} to peers elsewhere"
    return Finding(subject, True, f"{place} answers itself in {answer.time_ms:.0f} ms, as {known_as}{elsewhere}")


@contextlib.asynccontextmanager
async def _listening(sip: SipSettings, place: ListenOn) -> AsyncIterator[SipNetwork]:
    """Sockets such as the server opens, on which each OPTIONS is answered. Raises: ConfigError, OSError."""

    def answer(data: bytes, flow: Flow) -> None:
        with contextlib.suppress(SipParseError, ValueError):
            request = parse(data)
            if isinstance(request, Request) and request.method == "OPTIONS":
                back = way_back(request, flow)
                network.send(response_to(request, 200, "check").to_bytes(), back)

    network = SipNetwork([place], answer, lambda flow: None, tls=build_tls(sip), advertise=sip.advertise_ip)
    try:
        await network.start()
        yield network
    finally:
        await network.close()


def _known_as(network: SipNetwork, place: ListenOn) -> Address:
    """What a peer on this machine's own network is told."""
    (bound,) = network.listening
    flow = Flow(place.transport, (_LOOPBACK.get(bound.host, bound.host), bound.port), ("127.0.0.1", 5060))
    return network.contact(flow)


def _listed(trunk: Trunk) -> Finding:
    """A trunk that only calls us cannot be asked; what it is known by can be looked through."""
    known_by = [str(network) for network in trunk.networks]
    if trunk.inbound is not None:
        known_by.append(f"username {trunk.inbound.username}")
    numbers = ", ".join(rule.pattern.text for rule in trunk.numbers)
    found = f"calls come in only; known by {', '.join(known_by)}; numbers {numbers}"
    return Finding(_subject(trunk), True, found)


def _undialled(trunk: SipTrunkSettings) -> Finding:
    """Its target is of no use. With numbers calls may come in all the same."""
    trouble = (
        f"trunk {trunk.name}: no number may be called, since may_dial is not set:"
        " every POST /v1/calls gets 403 number_not_allowed"
    )
    advice = 'set may_dial = ["+1555*"], and keep it narrow'
    return Finding("may_dial", None if trunk.numbers else False, trouble, advice)


async def _reach_webhook(sip: SipSettings, url: str) -> Finding:
    """Whether somebody listens there. It is asked nothing: there is no call. The rest of the URL may be a secret."""
    parts = urlsplit(url)
    secure, host = parts.scheme == "https", parts.hostname or ""
    port = parts.port or (443 if secure else 80)
    shown, rejects = f"{parts.scheme}://{host_and_port(host, port)}", sip.webhook_on_failure == "reject"
    fate = f"{'rejected with 480' if rejects else 'accepted'} (webhook_on_failure)"
    try:
        async with asyncio.timeout(sip.webhook_timeout_s):
            tls = ssl.create_default_context() if secure else None
            _, writer = await asyncio.open_connection(host, port, ssl=tls)
    except OSError as error:
        found = f"{shown} cannot be reached: {words_for(error)}; meanwhile each call in is {fate}"
        return Finding("webhook", False if rejects else None, found, "check webhook_url, DNS, and that it runs")
    writer.transport.abort()
    return Finding("webhook", True, f"{shown} takes connections; a call that it does not decide about is {fate}")


def _subject(trunk: Trunk) -> str:
    return f"trunk {trunk.name}"


async def _ask_trunk(sip: SipSettings, trunk: Trunk, target: Target) -> Finding:
    subject = _subject(trunk)
    shown = f"{target.transport}:{target.host}" + ("" if target.port is None else f":{target.port}")
    try:
        answer = await ask_options(target, build_listen(sip), tls=build_tls(sip), advertise=sip.advertise_ip)
    except ConfigError as error:
        return Finding(subject, False, error.message, error.hint)
    except TimeoutError:
        advice = (
            "calls may work all the same, since some trunks answer no OPTIONS: call a number to know. If calls out end"
            " as unreachable, a firewall is in the way, or the trunk does not know this machine's address"
        )
        return Finding(subject, None, f"{shown} does not answer OPTIONS", advice)
    except OSError as error:
        return Finding(subject, False, f"{shown}: {words_for(error)}", "check target, listen, DNS and the firewall")
    found = f"{shown} answers {answer.status} {answer.reason} in {answer.time_ms:.0f} ms"
    return Finding(subject, answer.takes_calls, found, _advice_on(sip, answer))


def _advice_on(sip: SipSettings, answer: Answer) -> str:
    if not answer.takes_calls:
        return "it takes no calls at present"
    if answer.seen_as is None:
        return ""
    seen_as = answer.seen_as[0]
    if advertised_beside(seen_as, sip.advertise_ip) in (None, seen_as):
        return ""
    return f"it sees this machine as {seen_as}, and advertise_ip is {sip.advertise_ip}"
