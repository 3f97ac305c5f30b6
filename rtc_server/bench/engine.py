"""``rtc-server bench engine``: what a call of the model costs on this machine, beside the least that it can cost."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rtc_server.bench.figures import Figures
from rtc_server.bench.report import Report
from rtc_server.engine.personaplex.bench.spec import DTYPES, PARTS, PRESETS, EngineBench, check
from rtc_server.errors import ConfigError

if TYPE_CHECKING:
    from rtc_server.engine.personaplex.bench.rounding import Error

SHOWN = (
    ("part", "part"),
    ("slots", "slots"),
    ("live", "of them live"),
    ("fill", "positions before"),
    ("tick_ms", "call, ms"),
    ("best_ms", "the shortest, ms"),
    ("floor_ms", "x @ W.T alone, ms"),
    ("of_floor", "call over that"),
    ("best_form_ms", "products in our form, ms"),
    ("of_best_form", "call over that"),
    ("limit_ms", "memory's limit, ms"),
    ("of_limit", "call over that"),
    ("gb_per_s", "memory, GB/s"),
    ("bytes", "bytes read"),
    ("key_bytes_per_slot", "keys of a slot, bytes"),
)
SHOWN_WITH_PEER = (
    ("moshi8_ms", "moshi, 8 steps, ms"),
    ("of_moshi8", "call over that"),
    ("moshi16_ms", "moshi, 16 steps, ms"),
    ("of_moshi16", "call over that"),
)
SHOWN_WITH_CODEC_PEER = (("moshi_ms", "moshi's codec, ms"), ("of_moshi", "call over that"))
OURS = "engine"


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What to measure, how often, and how to tell it."""

    bench: EngineBench = EngineBench()
    repeat: int = 1
    json: bool = False

    def __post_init__(self) -> None:
        check(1 <= self.repeat <= 100, f"--repeat {self.repeat} must be 1..100")

    @classmethod
    def from_arguments(cls, arguments: argparse.Namespace) -> EngineOptions:
        """Raises: ConfigError for a value out of range."""
        bench = EngineBench(
            preset=arguments.preset,
            part=arguments.part,
            slots=arguments.slots,
            live=arguments.live,
            fill=arguments.fill,
            device=arguments.device,
            dtype=arguments.dtype,
            threads=arguments.threads,
            weight_bits=8 if arguments.weights == "int8" else 16,
            kv_bits=8 if arguments.kv == "int8" else 16,
            depformer_steps=arguments.depformer_steps,
            ticks=arguments.ticks,
            peer=arguments.peer,
        )
        return cls(bench, arguments.repeat, arguments.json)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    default = EngineBench()
    model = parser.add_argument_group("model")
    model.add_argument("--preset", choices=tuple(PRESETS), default=default.preset, help="size of the model")
    model.add_argument("--part", choices=PARTS, default=default.part, help="language model, codec, or a whole call")
    model.add_argument("--slots", type=_numbers, default=default.slots, metavar="N,N", help="engines of so many slots")
    model.add_argument("--live", type=int, metavar="N", help="slots that speak (default: all of them)")
    model.add_argument("--fill", type=_numbers, default=default.fill, metavar="N,N", help="positions before the call")
    model.add_argument("--depformer-steps", type=int, choices=(8, 16), default=default.depformer_steps)
    model.add_argument("--weights", choices=("full", "int8"), default="full", help="int8: its error is told too")
    model.add_argument("--kv", choices=("full", "int8"), default="full", help="likewise, of what a slot remembers")
    where = parser.add_argument_group("machine")
    where.add_argument("--device", metavar="NAME", help="cuda, cuda:1, cpu (default: the first GPU, else cpu)")
    where.add_argument("--dtype", choices=DTYPES, help="of the weights (default: what suits the device)")
    where.add_argument("--threads", type=int, metavar="N", help="CPU threads; with 1 CPU time is what counts")
    runs = parser.add_argument_group("runs")
    runs.add_argument("--ticks", type=int, default=default.ticks, help=f"calls in a run (default {default.ticks})")
    runs.add_argument("--repeat", type=int, default=1, help="runs; each is printed, and the best of them")
    runs.add_argument(
        "--peer", type=Path, metavar="PYTHON", help="interpreter with the package moshi, for ratios to it"
    )
    runs.add_argument("--json", action="store_true", help="one JSON object a line")


def run_arguments(arguments: argparse.Namespace) -> int:
    """For a parser that `add_arguments` has filled."""
    return run(EngineOptions.from_arguments(arguments))


def run(options: EngineOptions) -> int:
    """Print each run and, of several, the best: the one with the shortest call. Returns 0.

    Raises: ConfigError for what cannot be measured here, and where the engine's packages are missing.
    """
    try:
        from rtc_server.engine.personaplex.bench.case import cases, rounding_errors
    except ModuleNotFoundError as error:
        hint = "pip install '.[personaplex]' in the folder of the source brings it"
        raise ConfigError(f"bench engine needs the package {error.name}", hint=hint) from None
    bench = options.bench
    report = Report("engine", _shown(bench), options.json)
    try:
        for case in cases(bench):
            report.say(f"{bench.part} of {bench.preset}: slots {case.slots}, positions before {case.fill}")
            runs: list[Figures] = []
            for number in range(1, options.repeat + 1):
                runs.append(case.measure())
                report.add(OURS, number, runs[-1])
            if options.repeat > 1:
                report.add(OURS, "best", min(runs, key=lambda figures: float(figures["tick_ms"] or 0)))
        for rounding in rounding_errors(bench):
            _tell(rounding, report, options.json)
    finally:
        report.finish()
    return 0


def _shown(bench: EngineBench) -> tuple[tuple[str, str], ...]:
    if bench.peer is None:
        return SHOWN
    return (*SHOWN, *(SHOWN_WITH_CODEC_PEER if bench.part == "mimi" else SHOWN_WITH_PEER))


def _tell(error: Error, report: Report, json_lines: bool) -> None:
    if json_lines:
        line = {"bench": "engine", "part": "rounding", "of": error.name, "max": error.largest, "rms": error.rms}
        print(json.dumps(line), flush=True)
    else:
        report.say(f"error of {error.name}: {error.largest:.2%} at most, {error.rms:.2%} rms")


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(","))
