"""What ``rtc-server check`` says of phone calls: whether this machine answers itself, what it is known as, and what its
trunks say. All of it by OPTIONS (RFC 3261 section 11)."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import errno
from collections.abc import AsyncIterator, Iterator

from rtc_server.config import Settings
from rtc_server.config.sip import SipSettings
from rtc_server.errors import ConfigError
from rtc_server.finding import Finding
from rtc_server.sipconfig import build_listen, build_tls, build_trunks, build_webhook, few_ports, useless
from rtc_server.transports.sip.flow import Address, Flow
from rtc_server.transports.sip.hosts import host_and_port
from rtc_server.transports.sip.media.rtpport import RtpPorts
from rtc_server.transports.sip.message.message import Request, SipParseError, parse
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
    yield from asyncio.run(_ask_everyone(sip, trunks))
    yield from (_listed(trunk) for trunk in trunks if trunk.target is None and trunk.numbers)
    yield from troubles
    if (found := few_ports(sip, settings.engine.slots)) is not None:
        yield Finding("RTP ports", None, *found)


async def _ask_everyone(sip: SipSettings, trunks: Trunks) -> list[Finding]:
    findings = [await _ask_ourselves(sip, place) for place in build_listen(sip)]
    asked = [_ask_trunk(sip, trunk, trunk.target) for trunk in trunks if trunk.target is not None]
    findings += await asyncio.gather(*asked)
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
            answer = await ask_options(target, tls=trusting)
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
    advertised = "" if sip.advertise_ip is None else f", and as {sip.advertise_ip} to peers elsewhere"
    return Finding(subject, True, f"{place} answers itself in {answer.time_ms:.0f} ms, as {known_as}{advertised}")


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
    return Finding(f"trunk {trunk.name}", True, found)


async def _ask_trunk(sip: SipSettings, trunk: Trunk, target: Target) -> Finding:
    subject = f"trunk {trunk.name}"
    shown = f"{target.transport}:{target.host}" + ("" if target.port is None else f":{target.port}")
    try:
        answer = await ask_options(target, tls=build_tls(sip), advertise=sip.advertise_ip)
    except ConfigError as error:
        return Finding(subject, False, error.message, error.hint)
    except TimeoutError:
        advice = (
            "calls may work all the same, since some trunks answer no OPTIONS: call a number to know. If calls out end"
            " as unreachable, a firewall is in the way, or the trunk does not know this machine's address"
        )
        return Finding(subject, None, f"{shown} does not answer OPTIONS", advice)
    except OSError as error:
        return Finding(subject, False, f"{shown}: {words_for(error)}", "check target, DNS and the firewall")
    found = f"{shown} answers {answer.status} {answer.reason} in {answer.time_ms:.0f} ms"
    return Finding(subject, answer.takes_calls, found, _advice_on(sip, answer))


def _advice_on(sip: SipSettings, answer: Answer) -> str:
    if not answer.takes_calls:
        return "it takes no calls at present"
    if answer.seen_as is None or sip.advertise_ip in (None, answer.seen_as[0]):
        return ""
    return f"it sees this machine as {answer.seen_as[0]}, and advertise_ip is {sip.advertise_ip}"
