"""What the benchmarks can be told, and the flags for it."""

from __future__ import annotations

import argparse
import dataclasses
from dataclasses import dataclass
from typing import Any, Self

from rtc_server.bench.signaling import ADAPTERS, offer_url
from rtc_server.bench.sipsignaling import target_of
from rtc_server.errors import ConfigError

MAX_CALLS = 1000
PEERS = ("aiortc",)
SIP = "sip"
"""The way of calling a `servers.Target` that is a phone's; not an adapter that can be asked for."""


class Options:
    """A dataclass whose fields are named like the flags of its command."""

    __slots__ = ()

    @classmethod
    def from_arguments(cls, arguments: argparse.Namespace) -> Self:
        """Out of what a parser with our flags gave; other attributes are ignored."""
        given: dict[str, Any] = {}
        for field in dataclasses.fields(cls):  # type: ignore[arg-type]
            if hasattr(arguments, field.name):
                value = getattr(arguments, field.name)
                given[field.name] = tuple(value) if isinstance(value, list) else value
        return cls(**given)


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions(Options):
    """Common to the benchmarks of load.

    Raises: ConfigError when a value is out of range.
    """

    url: str | None = None
    """The server to measure, already running with an engine that echoes. None: an echo server of our own."""
    adapter: str = "plain"
    server_pid: int | None = None
    """The process behind `url`, if it runs on this machine: for its CPU and memory."""
    engine: str = "echo"
    """Of a server that is started here: one that says what it hears."""
    engine_process: str = "auto"
    """Where that engine runs: ``on`` is a process of its own."""
    calls: int = 1
    seconds: float = 20.0
    server_cpu: int | None = 0
    """Core for a server that is started here; None leaves it where the system puts it."""
    client_cpu: int | None = 1
    events: bool = True
    repeat: int = 1
    peer: str | None = None
    """Another server to start and measure in the same run."""
    sip: bool = False
    """Phone calls instead of WebRTC: SIP and G.711. `url` is then a SIP URI."""
    json: bool = False

    def __post_init__(self) -> None:
        if self.url is not None and self.sip:
            target_of(self.url)
        elif self.url is not None:
            offer_url(self.url)
        check(self.peer is None or not self.sip, "--peer knows no phone calls: leave out --sip")
        check(self.adapter in ADAPTERS, f"--adapter {self.adapter!r} is none of {', '.join(ADAPTERS)}")
        check(self.peer is None or self.peer in PEERS, f"--peer {self.peer!r} is none of {', '.join(PEERS)}")
        check(self.url is None or self.engine == "echo", "--engine is for a server started here, not for --url")
        check(1 <= self.calls <= MAX_CALLS, f"--calls {self.calls} must be 1..{MAX_CALLS}")
        check(3 <= self.seconds <= 86_400, f"--seconds {self.seconds:g} must be 3..86400")
        check(1 <= self.repeat <= 100, f"--repeat {self.repeat} must be 1..100")


def check(holds: bool, message: str) -> None:
    if not holds:
        raise ConfigError(message)


def add_common_arguments(parser: argparse.ArgumentParser, calls: int, seconds: float) -> None:
    parser.add_argument("--url", help="server to measure, running with an echo engine; default: start one of our own")
    parser.add_argument("--sip", action="store_true", help="phone calls: SIP and G.711; --url is then a SIP URI")
    parser.add_argument("--adapter", choices=ADAPTERS, default="plain", help="how the server at --url takes offers")
    parser.add_argument("--server-pid", type=int, metavar="PID", help="process behind --url, for its CPU and memory")
    parser.add_argument("--engine", default="echo", help="of our own server; one that echoes (default echo)")
    parser.add_argument("--engine-process", choices=("auto", "on", "off"), default="auto", help="as for `serve`")
    parser.add_argument("--calls", type=int, default=calls, help=f"calls at once (default {calls})")
    parser.add_argument("--seconds", type=float, default=seconds, help=f"measured time (default {seconds:g})")
    parser.add_argument("--server-cpu", type=_cpu, default=0, metavar="CPU", help="core of the server, or `none`")
    parser.add_argument("--client-cpu", type=_cpu, default=1, metavar="CPU", help="core of the load client, or `none`")
    parser.add_argument(
        "--events", action=argparse.BooleanOptionalAction, default=True, help="open the data channel for events too"
    )
    parser.add_argument("--repeat", type=int, default=1, help="runs; each is printed, and the best of them")
    parser.add_argument("--peer", choices=PEERS, help="measure a stock server in the same run and print the ratios")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")


def _cpu(text: str) -> int | None:
    if text == "none":
        return None
    number = int(text)
    if number < 0:
        raise ValueError(text)
    return number
