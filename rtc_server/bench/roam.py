"""``rtc-server bench roam``: how much audio an ICE restart and a new address cost."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from rtc_server.bench import servers
from rtc_server.bench.analysis import percentile
from rtc_server.bench.figures import Figures, rounded
from rtc_server.bench.impairment import Impairment
from rtc_server.bench.options import Options, check
from rtc_server.bench.procstat import load_of_machine
from rtc_server.bench.report import Report
from rtc_server.bench.roamcalls import Move, moves
from rtc_server.bench.webrtcline import opus_loop

SHOWN = (
    ("moves", "times"),
    ("restart_gap_ms", "ICE restart: audio missing, median ms"),
    ("restart_gap_worst_ms", "worst"),
    ("restart_lost", "packets lost"),
    ("restart_took_ms", "restart takes, median ms"),
    ("move_gap_ms", "new address: audio missing, median ms"),
    ("move_gap_worst_ms", "worst"),
    ("move_lost", "packets lost"),
    ("load1", "load of the machine"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RoamOptions(Options):
    """Raises: ConfigError when a value is out of range."""

    times: int = 20
    """Restarts, and as many new addresses."""
    delay: float = 10.0
    """Of the network, each way, ms. What is under way to an address that is gone is lost: so much at least."""
    server_cpu: int | None = None
    json: bool = False

    def __post_init__(self) -> None:
        check(1 <= self.times <= 10_000, f"--times {self.times} must be 1..10000")
        check(0 <= self.delay <= 1000, f"--delay {self.delay:g} must be 0..1000")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--times", type=int, default=20, help="restarts, and as many new addresses (default 20)")
    parser.add_argument("--delay", type=float, default=10.0, metavar="MS", help="of the network, each way (default 10)")
    parser.add_argument("--server-cpu", type=int, metavar="CPU", help="core of the server (default: any)")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")


def run_arguments(arguments: argparse.Namespace) -> int:
    """For a parser that `add_arguments` has filled."""
    return run(RoamOptions.from_arguments(arguments))


def run(options: RoamOptions) -> int:
    """Print one line. Returns 0. Raises: RtcServerError when the server cannot be started, or the call breaks."""
    report = Report("roam", SHOWN, options.json)
    network = Impairment(delay_ms=options.delay)
    try:
        report.say(f"times {options.times}, network {options.delay:g} ms each way")
        with (
            servers.own_server(1, options.server_cpu) as target,
            asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner,
        ):
            restarts, changes = runner.run(moves(target, network, options.times, opus_loop()))
        report.add(
            target.name, 1, {**roam_figures(restarts, changes), "delay_ms": options.delay, "load1": load_of_machine()}
        )
    finally:
        report.finish()
    return 0


def roam_figures(restarts: Sequence[Move], changes: Sequence[Move]) -> Figures:
    """The gaps are medians of what was missing on the worse of both sides; the rest says where it came from."""
    figures: Figures = {
        "restart_gap_ms": _missing_ms(restarts, 50),
        "move_gap_ms": _missing_ms(changes, 50),
        "packets_lost": sum(move.lost for move in (*restarts, *changes)),
        "moves": len(restarts),
    }
    for name, made in (("restart", restarts), ("move", changes)):
        figures[f"{name}_gap_worst_ms"] = _missing_ms(made, 100)
        figures[f"{name}_heard_gap_ms"] = rounded(percentile([move.gap_ms for move in made], 50), 1)
        figures[f"{name}_concealed_ms"] = rounded(percentile([move.concealed_ms for move in made], 50), 1)
        figures[f"{name}_lost"] = sum(move.lost for move in made)
        figures[f"{name}_lost_down"] = sum(move.lost_down for move in made)
        figures[f"{name}_took_ms"] = rounded(percentile([move.took_ms for move in made], 50), 1)
    return figures


def _missing_ms(made: Sequence[Move], q: float) -> float | None:
    return rounded(percentile([move.missing_ms for move in made], q), 1)
