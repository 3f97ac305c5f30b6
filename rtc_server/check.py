"""``rtc-server check``: what is there, and what to do about what is not."""

from __future__ import annotations

import asyncio
import ipaddress
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from rtc_server.config import Settings
from rtc_server.engine.registry import create, report
from rtc_server.engine.stepper import SupportsShutdown
from rtc_server.errors import ConfigError, MissingLibrary, RtcServerError
from rtc_server.finding import Finding
from rtc_server.http.iceservers import ice_servers
from rtc_server.http.page import static_dir
from rtc_server.http.tls import ssl_context
from rtc_server.http.webui import OWN, PERSONAPLEX, WebUi, read_folder
from rtc_server.launch import chosen_engine, engine_options
from rtc_server.media import libopus
from rtc_server.sipcheck import examine_sip
from rtc_server.transports.webrtc.addresses import advertised_addresses
from rtc_server.transports.webrtc.connectivity import judge_connectivity
from rtc_server.transports.webrtc.turnprobe import probe_all
from rtc_server.transports.webrtc.udp_mux import bind_all_interfaces

_MARKS = {True: "[green]ok[/]", False: "[red]no[/]", None: "[yellow]--[/]"}


def run(settings: Settings, console: Console | None = None) -> int:
    """Print all findings. 0 when a server with these settings can serve a browser, else 1."""
    findings = list(examine(settings))
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        text = escape(finding.found) + (f"\n[yellow]{escape(finding.advice)}[/]" if finding.advice else "")
        table.add_row(_MARKS[finding.ok], finding.subject, text)
    (console or Console()).print(table)
    return int(any(finding.ok is False for finding in findings))


def examine(settings: Settings) -> Iterator[Finding]:
    for probe in (_libopus, _engine, _gpu, _page, _addresses, _udp_port, _tcp_port, _tls, _access):
        yield probe(settings)
    yield from _turn(settings)
    yield from examine_sip(settings)


def _libopus(_settings: Settings) -> Finding:
    try:
        return Finding("libopus", True, f"{libopus.version()} from {libopus.libopus_path()}")
    except MissingLibrary as error:
        return Finding("libopus", False, error.message, error.hint)


def _engine(settings: Settings) -> Finding:
    options = engine_options(settings.engine)
    try:
        choice = chosen_engine(settings.engine)
        if (said := report(choice.name, options)) is not None:
            return Finding("engine", True, f"{choice.name}, {settings.engine.slots} slots. {choice.reason} {said}")
        stepper = create(choice.name, options)()
    except RtcServerError as error:
        return Finding("engine", False, error.message, error.hint)
    except Exception as error:  # whatever an engine of somebody else's does
        return Finding("engine", False, f"{settings.engine.engine} does not start: {error!r}")
    if isinstance(stepper, SupportsShutdown):
        stepper.shutdown()
    found = f"{choice.name}, {settings.engine.slots} slots. {choice.reason} {stepper.spec.summary}"
    return Finding("engine", True, found)


def _gpu(_settings: Settings) -> Finding:
    """Asks the driver's own tool: importing a tensor library takes seconds and is not needed for the demo engine."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return Finding("GPU", None, "none found (no nvidia-smi); the demo engine needs none")
    try:
        asked = [tool, "--query-gpu=name,memory.total", "--format=csv,noheader"]
        answer = subprocess.run(asked, capture_output=True, text=True, timeout=10, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return Finding("GPU", None, "nvidia-smi does not answer; the demo engine needs no GPU", "check the driver")
    return Finding("GPU", True, "; ".join(answer.split("\n")).strip("; "))


def _page(settings: Settings) -> Finding:
    if settings.http.web_ui == PERSONAPLEX:
        return Finding("page", None, "PersonaPlex's own client, which the start fetches from the hub or its cache")
    if settings.http.web_ui != OWN:
        try:
            WebUi(read_folder(Path(settings.http.web_ui).expanduser()))
        except ConfigError as error:
            return Finding("page", False, error.message, error.hint)
        return Finding("page", True, settings.http.web_ui)
    index = static_dir() / "index.html"
    if index.is_file():
        return Finding("page", True, f"{static_dir()}; PersonaPlex's own client instead: --web-ui personaplex")
    return Finding("page", False, f"{index} is missing", "install the package again; static/ belongs to the wheel")


def _addresses(settings: Settings) -> Finding:
    reach = judge_connectivity(_advertised(settings))
    outside = [address for address in reach.addresses if not ipaddress.ip_address(address).is_loopback]
    if not reach.ok:
        return Finding("addresses", False, reach.message, "connect the machine to a network, or give --advertise-ip")
    if not settings.webrtc.advertise_ip and not any(map(_reaches_itself, outside)):
        advice = "a packet filter on this machine drops UDP: let it through"
        return Finding("addresses", False, f"{', '.join(outside)}: no UDP packet arrives", advice)
    return Finding("addresses", True, f"offered to callers: {', '.join(reach.addresses)}")


def _advertised(settings: Settings) -> list[str]:
    return advertised_addresses(settings.webrtc.advertise_ip, ("IPv4", "IPv6"))


def _reaches_itself(address: str) -> bool:
    """Does a UDP packet to one of our own addresses arrive?"""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as ear, socket.socket(family, socket.SOCK_DGRAM) as mouth:
            ear.bind((address, 0))
            ear.settimeout(0.5)
            mouth.sendto(b"rtc-server check", ear.getsockname())
            return ear.recv(64) == b"rtc-server check"
    except OSError:
        return False


def _udp_port(settings: Settings) -> Finding:
    port = settings.webrtc.udp_port
    advice = "another server runs here already, or choose another with --udp-port"
    return _bind("UDP port", port, advice, lambda: bind_all_interfaces(port))


def _tcp_port(settings: Settings) -> Finding:
    http = settings.http
    advice = "another server runs here already, or choose another with --port"
    return _bind("TCP port", http.port, advice, lambda: _listen_everywhere(http.host, http.port))


def _bind(subject: str, port: int, advice: str, attempt: Callable[[], Iterable[socket.socket]]) -> Finding:
    try:
        for item in attempt():
            item.close()
    except (OSError, ConfigError) as error:
        return Finding(subject, False, f"{port}: {error.strerror if isinstance(error, OSError) else error}", advice)
    return Finding(subject, True, f"{port} is free" if port else "any free one")


def _listen_everywhere(host: str, port: int) -> Iterator[socket.socket]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    for family, kind, _, _, address in found:
        probe = socket.socket(family, kind)
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        probe.bind(address)
        yield probe


def _tls(settings: Settings) -> Finding:
    http = settings.http
    if not http.secure:
        if http.loopback:
            return Finding("TLS", None, "off; a browser on this machine needs none")
        return Finding("TLS", False, "off; browsers on other machines will give no microphone", "add --tls self-signed")
    try:
        ssl_context(http, _advertised(settings))
    except RtcServerError as error:
        return Finding("TLS", False, error.message, error.hint)
    return Finding("TLS", True, "self-signed" if http.tls_cert is None else str(http.tls_cert))


def _access(settings: Settings) -> Finding:
    http = settings.http
    if http.needs_key:
        return Finding("access", True, "with the API key only")
    where = "from this machine only" if http.loopback else "for everybody who reaches this machine"
    return Finding("access", True, f"without a key, {where}")


def _turn(settings: Settings) -> Iterator[Finding]:
    """Asks all servers at once: the slowest costs its timeout, and nothing of it is there in a call."""
    try:
        servers = ice_servers(settings.turn)
    except ConfigError as error:
        yield Finding("TURN", False, error.message, error.hint)
        return
    if not any(url.relays for url in servers.urls):
        advice = "turn/README.md says how to set one up; then give --turn-urls"
        yield Finding("TURN", None, "none; callers whose firewall blocks UDP cannot connect", advice)
    credential = servers.credential("check") if any(url.relays for url in servers.urls) else None
    media = [address for address in _advertised(settings) if not ipaddress.ip_address(address).is_loopback]
    for verdict in asyncio.run(probe_all(servers.urls, credential, media)):
        subject = f"{verdict.url.scheme.upper()} {verdict.url.transport}"
        yield Finding(subject, verdict.ok, f"{verdict.url} {verdict.found}", verdict.advice)
