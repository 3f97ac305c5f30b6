"""``rtc-server bench latency``: mouth to ear, its drift, the set-up times, and what lost packets do to the delay."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from rtc_server.bench import servers
from rtc_server.bench.client import ClientSpec
from rtc_server.bench.figures import Figures, ratios
from rtc_server.bench.loadrun import run_client
from rtc_server.bench.options import BenchOptions, add_common_arguments, check
from rtc_server.bench.report import Report
from rtc_server.bench.servers import Target

DEFAULT_CALLS = 1
DEFAULT_SECONDS = 20.0
SHOWN = (
    ("calls", "calls"),
    ("m2e_p50_ms", "mouth to ear p50, ms"),
    ("m2e_p95_ms", "mouth to ear p95, ms"),
    ("m2e_first_ms", "p50 of the first 10 s"),
    ("m2e_last_ms", "p50 of the last 10 s"),
    ("drift_ms_per_min", "drift, ms per min"),
    ("bursts", "bursts heard"),
    ("missed", "bursts missed"),
    ("answer_p50_ms", "offer to answer p50, ms"),
    ("connect_p50_ms", "offer to first packet p50, ms"),
    ("lost", "packets lost"),
    ("server_cpu_util", "server CPU"),
    ("load1", "load of the machine"),
)
SHOWN_WITH_DROPS = (
    ("dropped", "uplink packets dropped"),
    ("m2e_before_ms", "before the drop p50, ms"),
    ("m2e_after_2s_ms", "from 2 s after it p50, ms"),
    ("m2e_worst_ms", "worst burst after it, ms"),
    ("back_after_s", "back to normal after, s"),
)
COMPARED = ("m2e_p50_ms", "m2e_p95_ms", "connect_p50_ms", "cpu_s_per_call_min")


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyOptions(BenchOptions):
    calls: int = DEFAULT_CALLS
    seconds: float = DEFAULT_SECONDS
    connects: int = 5
    """Short calls made before, for the set-up times."""
    loss: float = 0.0
    """Share of uplink packets lost at random, 0..1."""
    drop_at: tuple[float, ...] = ()
    """Seconds at which one uplink packet is lost."""

    def __post_init__(self) -> None:
        BenchOptions.__post_init__(self)
        check(0 <= self.connects <= 1000, f"--connects {self.connects} must be 0..1000")
        check(0 <= self.loss < 1, f"--loss {self.loss:g} must be from 0 to below 1")
        for at in self.drop_at:
            check(0 < at < self.seconds, f"--drop-at {at:g} must lie within the {self.seconds:g} s of the run")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_common_arguments(parser, DEFAULT_CALLS, DEFAULT_SECONDS)
    parser.add_argument("--connects", type=int, default=5, help="short calls before, for the set-up times (default 5)")
    parser.add_argument("--loss", type=float, default=0.0, metavar="P", help="lose uplink packets at random, 0..1")
    parser.add_argument(
        "--drop-at",
        type=float,
        nargs="+",
        default=[],
        metavar="S",
        help="lose one uplink packet at each of these seconds",
    )


def run_arguments(arguments: argparse.Namespace) -> int:
    """For a parser that `add_arguments` has filled."""
    return run(LatencyOptions.from_arguments(arguments))


def run(options: LatencyOptions) -> int:
    """Print each run and, of several, the best: the one with the least median. Returns 0.

    Raises: RtcServerError when a server cannot be started or reached, refuses, or does not echo.
    """
    shown = (*SHOWN, *SHOWN_WITH_DROPS) if options.drop_at else SHOWN
    report = Report("latency", shown, options.json)
    try:
        ours = _measure(report, options, lambda: servers.target_of(options, options.calls))
        if options.peer is not None:
            name = options.peer
            theirs = _measure(report, options, lambda: servers.peer_server(name, options.server_cpu))
            report.add_ratios(name, ratios(theirs, ours, COMPARED))
    finally:
        report.finish()
    return 0


def _measure(report: Report, options: LatencyOptions, start: Callable[[], AbstractContextManager[Target]]) -> Figures:
    spec = ClientSpec(
        calls=options.calls,
        seconds=options.seconds,
        connects=options.connects,
        events=options.events,
        loss=options.loss,
        drop_at=options.drop_at,
        cpu=options.client_cpu,
    )
    runs: list[Figures] = []
    name = ""
    for number in range(1, options.repeat + 1):
        with start() as target:
            name = target.name
            report.say(f"{name}: run {number} of {options.repeat}, calls {options.calls}, {options.seconds:g} s")
            runs.append(run_client(target, spec))
        report.add(name, number, runs[-1])
    best = min(runs, key=lambda figures: float(figures["m2e_p50_ms"] or 0))
    if options.repeat > 1:
        report.add(name, "best", best)
    return best
