"""``rtc-server bench loss``: what a lossy network leaves of the caller's words, and what it costs in delay."""

from __future__ import annotations

import argparse
import functools
from dataclasses import dataclass
from pathlib import Path

from rtc_server.bench.figures import Figures
from rtc_server.bench.impairment import SHAPES, Impairment, Shape
from rtc_server.bench.losscalls import Script, heard_for_real
from rtc_server.bench.lossfigures import FindWords, loss_figures
from rtc_server.bench.options import Options, check
from rtc_server.bench.procstat import load_of_machine
from rtc_server.bench.report import Report
from rtc_server.bench.speech import Speech, load_speech
from rtc_server.bench.virtualcalls import heard_in_virtual_time
from rtc_server.bench.words import WeightsUnusable, find_words, load_recogniser

SHOWN = (
    ("engine_time_missing_ms", "engine time missing, ms"),
    ("lsd_db", "log-spectral distance, dB"),
    ("added_delay_p50_ms", "added delay p50, ms"),
    ("added_delay_p95_ms", "added delay p95, ms"),
    ("recovery_s", "delay back after a standstill of 1 s, s"),
    ("words", "words said"),
    ("word_error", "word error of what was heard, share"),
    ("clean_word_error", "word error of what was sent, share"),
    ("word_error_points", "word error from the network, percentage points"),
    ("lost", "packets lost, share"),
    ("send_late_p99_ms", "client's own lateness p99, ms"),
    ("load1", "load of the machine"),
)
DESCRIPTION = (
    "What a lossy network leaves of the caller's words, and what it costs in delay. A run takes as long as its speech "
    "and 22 s more: about a minute with the test speech. There are two unless --red or --no-red is given. With "
    "--virtual a run takes about a second a call. The word error needs the extra demo, pip install '.[demo]', "
    "and some time after each run; without it every other figure is printed."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LossOptions(Options):
    """Raises: ConfigError when a value is out of range."""

    loss: float = 10.0
    """Percent of packets lost."""
    jitter: float = 60.0
    """95th percentile, ms."""
    burst: float = 1.0
    """Mean length of a run of lost packets."""
    shape: Shape = "fifo"
    reorder: float = 0.0
    """Percent of packets held back by 30 ms."""
    duplicate: float = 0.0
    """Percent of packets that come twice."""
    delay: float = 20.0
    """Of the network, each way, ms."""
    red: bool | None = None
    """Measure with redundant audio, without it, or (None) both, one after the other."""
    calls: int = 7
    """At once, each through a network of its own: so many times the words."""
    speech: tuple[Path, ...] = ()
    """Recordings; none: the project's test speech."""
    seed: int = 0
    virtual: bool = False
    server_cpu: int | None = None
    json: bool = False

    def __post_init__(self) -> None:
        check(1 <= self.calls <= 100, f"--calls {self.calls} must be 1..100")
        for name in ("loss", "reorder", "duplicate"):
            check(
                0 <= getattr(self, name) < 100, f"--{name} {getattr(self, name):g} must be from 0 to below 100 percent"
            )
        self.network  # noqa: B018 - says what else is out of range

    @property
    def network(self) -> Impairment:
        return Impairment(
            loss=self.loss / 100,
            burst=self.burst,
            delay_ms=self.delay,
            jitter_ms=self.jitter,
            shape=self.shape,
            reorder=self.reorder / 100,
            duplicate=self.duplicate / 100,
        )

    @property
    def repairs(self) -> tuple[str, ...]:
        return ("fec", "red") if self.red is None else ("red",) if self.red else ("fec",)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = DESCRIPTION
    network = parser.add_argument_group("network, both ways")
    network.add_argument("--loss", type=float, default=10.0, metavar="PERCENT", help="packets lost (default 10)")
    network.add_argument("--burst", type=float, default=1.0, metavar="N", help="mean run of lost packets (default 1)")
    network.add_argument("--jitter", type=float, default=60.0, metavar="MS", help="p95 of the jitter (default 60)")
    network.add_argument("--shape", choices=SHAPES, default="fifo", help="of the jitter (default fifo: order kept)")
    network.add_argument("--reorder", type=float, default=0.0, metavar="PERCENT", help="packets held back by 30 ms")
    network.add_argument("--duplicate", type=float, default=0.0, metavar="PERCENT", help="packets that come twice")
    network.add_argument("--delay", type=float, default=20.0, metavar="MS", help="least delay (default 20)")
    network.add_argument("--seed", type=int, default=0, help="of all that is random in the network")
    parser.add_argument(
        "--red",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="only with redundant audio (RFC 2198), or only with in-band FEC (default: both)",
    )
    parser.add_argument("--calls", type=int, default=7, help="at once, so many times the words (default 7)")
    parser.add_argument(
        "--speech",
        type=Path,
        nargs="+",
        default=[],
        metavar="FILE.wav",
        help="recordings, their words in labels.json beside them (default: the test speech of a checkout)",
    )
    parser.add_argument(
        "--virtual", action="store_true", help="the jitter buffer alone in virtual time, without server and sockets"
    )
    parser.add_argument("--server-cpu", type=int, metavar="CPU", help="core of the server (default: any)")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")


def run_arguments(arguments: argparse.Namespace) -> int:
    """For a parser that `add_arguments` has filled."""
    return run(LossOptions.from_arguments(arguments))


def run(options: LossOptions) -> int:
    """Print a line for each way of repair. Returns 0.

    Raises: RtcServerError when there is no speech, or the server cannot be started or refuses.
    """
    report = Report("loss", SHOWN, options.json)
    try:
        speech = load_speech(options.speech)
        words = _word_finder(report, speech)
        for repair in options.repairs:
            report.say(f"{repair}: calls {options.calls}, speech of {speech.seconds:.0f} s")
            report.add("virtual" if options.virtual else "rtc_server", repair, _measure(options, speech, repair, words))
    finally:
        report.finish()
    return 0


def _measure(options: LossOptions, speech: Speech, repair: str, words: FindWords | None) -> Figures:
    script = Script(speech, options.network, red=repair == "red", seed=options.seed)
    if options.virtual:
        calls = heard_in_virtual_time(script, options.calls)
    else:
        calls = heard_for_real(script, options.calls, options.server_cpu)
    return {
        "repair": repair,
        "loss_pct": options.loss,
        "burst": options.burst,
        "jitter_ms": options.jitter,
        **loss_figures(calls, speech, options.delay, words),
        "load1": load_of_machine(),
    }


def _word_finder(report: Report, speech: Speech) -> FindWords | None:
    if not speech.utterances:
        report.say("nothing is known of the words of these recordings: no word error")
        return None
    try:
        recogniser = load_recogniser()
    except WeightsUnusable as error:
        report.say(f"no word error: {error.message}; {error.hint}")
        return None
    return functools.partial(find_words, recogniser)
