"""``rtc-server bench calls``: how many calls a server on one core carries with its packets on time."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from rtc_server.bench import servers
from rtc_server.bench.client import ClientSpec
from rtc_server.bench.figures import Figures, ratios
from rtc_server.bench.loadrun import run_client
from rtc_server.bench.options import MAX_CALLS, BenchOptions, add_common_arguments, check
from rtc_server.bench.report import Report
from rtc_server.bench.servers import Target
from rtc_server.errors import PeerError

DEFAULT_CALLS = 40
DEFAULT_SECONDS = 20.0
ON_TIME_MS = 20.0
"""A size is carried when 99 % of its packets are less late than this..."""
COMPLETE_SHARE = 0.99
"""...and so much of what was to be sent came at all."""
SHOWN = (
    ("calls", "calls"),
    ("late_p50_ms", "lateness p50, ms"),
    ("late_p99_ms", "lateness p99, ms"),
    ("late_max_ms", "lateness max, ms"),
    ("received_gap_p99_ms", "gap p99, ms"),
    ("received_share", "received of expected"),
    ("cpu_s_per_call_min", "CPU s per call-minute"),
    ("server_cpu_util", "server CPU"),
    ("client_cpu_util", "client CPU"),
    ("rss_mb", "server RSS, MB"),
    ("m2e_p50_ms", "mouth to ear p50, ms"),
    ("m2e_p95_ms", "mouth to ear p95, ms"),
    ("missed", "bursts missed"),
    ("bursts", "bursts heard"),
    ("connect_p50_ms", "offer to first packet p50, ms"),
    ("joined", "callers that came and went"),
    ("load1", "load of the machine"),
)
COMPARED = ("late_p99_ms", "cpu_s_per_call_min", "m2e_p50_ms")
COMPARED_OVERLOADED = ("late_p99_ms",)
"""A server that leaves packets out saves their cost, and only its better echoes are heard."""

Start = Callable[[int], AbstractContextManager[Target]]
"""A fresh server for so many calls."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallsOptions(BenchOptions):
    calls: int = DEFAULT_CALLS
    seconds: float = DEFAULT_SECONDS
    ramp: tuple[int, ...] = ()
    """Sizes to run one after the other, each on a fresh server; empty: only `calls`."""
    join_every: float = 0.0
    """See `ClientSpec.join_every_s`."""

    def __post_init__(self) -> None:
        BenchOptions.__post_init__(self)
        check(0 <= self.join_every <= 3600, f"--join-every {self.join_every:g} must be 0..3600")
        for size in self.ramp:
            check(1 <= size <= MAX_CALLS, f"--ramp {size} must be 1..{MAX_CALLS}")

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.ramp or (self.calls,)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common_arguments(parser, DEFAULT_CALLS, DEFAULT_SECONDS)
    parser.add_argument(
        "--ramp", type=_sizes, default=(), metavar="N,N,...", help="several sizes, each on a fresh server"
    )
    parser.add_argument(
        "--join-every", type=float, default=0.0, metavar="S", help="one more caller comes and goes, S seconds apart"
    )


def _sizes(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))


def run_arguments(arguments: argparse.Namespace) -> int:
    """For a parser that `add_arguments` has filled."""
    return run(CallsOptions.from_arguments(arguments))


def run(options: CallsOptions) -> int:
    """Print each run, of several of one size the best (least p99 lateness), and the greatest size carried. Returns 0.

    Raises: RtcServerError when a server cannot be started or reached, refuses, or does not echo.
    """
    report = Report("calls", SHOWN, options.json)
    try:
        ours = [_best(report, options, size, lambda slots: servers.target_of(options, slots)) for size in options.sizes]
        report.add_carried("rtc_server" if options.url is None else options.url, carried(ours))
        if options.peer is not None:
            _against(report, options, options.peer, ours)
    finally:
        report.finish()
    return 0


def _against(report: Report, options: CallsOptions, peer: str, ours: list[Figures]) -> None:
    theirs: list[Figures] = []
    for size in options.sizes:
        try:
            theirs.append(_best(report, options, size, lambda slots: servers.peer_server(peer, options.server_cpu)))
        except PeerError as error:
            report.say(f"{peer}: gave up at {size} calls: {error.message}")
            break
    report.add_carried(peer, carried(theirs))
    for mine, other in zip(ours, theirs, strict=False):
        names = COMPARED if _complete(mine) and _complete(other) else COMPARED_OVERLOADED
        report.add_ratios(peer, {"calls": mine["calls"], **ratios(other, mine, names)})


def _best(report: Report, options: CallsOptions, size: int, start: Start) -> Figures:
    spec = ClientSpec(
        calls=size,
        seconds=options.seconds,
        join_every_s=options.join_every,
        events=options.events,
        cpu=options.client_cpu,
    )
    runs: list[Figures] = []
    name = ""
    for number in range(1, options.repeat + 1):
        with start(size + bool(options.join_every)) as target:
            name = target.name
            report.say(f"{name}: run {number} of {options.repeat}, calls {size}, {options.seconds:g} s")
            runs.append(run_client(target, spec))
        report.add(name, number, runs[-1])
    best = min(runs, key=_p99_ms)
    if options.repeat > 1:
        report.add(name, "best", best)
    return best


def carried(sizes: list[Figures]) -> int:
    """The greatest number of calls whose packets came, and came on time; 0 when none of the sizes did."""
    return max((int(f["calls"] or 0) for f in sizes if _on_time(f)), default=0)


def _on_time(figures: Figures) -> bool:
    return _p99_ms(figures) < ON_TIME_MS and _complete(figures)


def _complete(figures: Figures) -> bool:
    share = figures["received_share"]
    return isinstance(share, int | float) and share >= COMPLETE_SHARE


def _p99_ms(figures: Figures) -> float:
    late_ms = figures["late_p99_ms"]
    return float(late_ms) if isinstance(late_ms, int | float) else float("inf")
