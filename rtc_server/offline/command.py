"""``rtc-server offline``: its flags, and what people see of it."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from rtc_server.config import EngineSettings, Settings
from rtc_server.engine.registry import create
from rtc_server.engine.stepper import FRAME_S, MAX_SEED, MAX_TEMPERATURE, MAX_TOP_K, Sampling, SessionPrompt
from rtc_server.errors import ClientError, ConfigError
from rtc_server.launch import chosen_engine, engine_options
from rtc_server.offline import run as offline
from rtc_server.offline.run import Pair


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's own flags; those of the engine are settings."""
    parser.add_argument(
        "files",
        nargs="+",
        type=Path,
        metavar="IN.wav OUT.wav",
        help="what the user says, and where the agent's side goes",
    )
    parser.add_argument("--text", type=Path, metavar="OUT.jsonl", help="words and tokens, one line a frame")
    sampling = parser.add_argument_group("sampling")
    sampling.add_argument("--seed", type=int, metavar="N", help="the same seed gives the same answer")
    sampling.add_argument("--greedy", action="store_true", help="always the likeliest token")
    for part in ("text", "audio"):
        sampling.add_argument(
            f"--{part}-temperature", type=float, metavar="T", help="0: greedy (default: the engine's)"
        )
        sampling.add_argument(
            f"--{part}-top-k",
            type=int,
            metavar="K",
            help="among how many (0: all that the engine can; default: the engine's)",
        )


def run_arguments(arguments: argparse.Namespace, settings: Settings) -> int:
    """For a parser that `add_arguments` has filled. Returns 1 when a pair broke, else 0.

    Raises: ConfigError for what cannot be used; what the engine raises at its start.
    """
    pairs = pairs_of(arguments.files, prompt_of(arguments, settings.engine))
    engine = slots_for(settings.engine, len(pairs))
    choice = chosen_engine(engine)
    console = Console(stderr=True)
    console.print(choice.reason, style="dim", markup=False)
    try:
        with _bar(console) as progress:
            failures = offline.run(create(choice.name, engine_options(engine)), pairs, arguments.text, progress)
    except ClientError as error:  # here the prompt is a setting
        raise ConfigError(error.message, hint=error.hint) from None
    for failure in failures:
        at = f"{pairs[failure.pair].source}: broke off after {failure.frame * FRAME_S:.2f} s: {failure.reason}"
        console.print(at, style="bold red", markup=False, soft_wrap=True)
    return 1 if failures else 0


def pairs_of(files: list[Path], prompt: SessionPrompt) -> list[Pair]:
    """Raises: ConfigError for an input without an output."""
    if len(files) % 2:
        raise ConfigError(f"{files[-1]} has no output", hint="give files in pairs: IN.wav OUT.wav IN2.wav OUT2.wav")
    return [Pair(source, target, prompt) for source, target in zip(files[::2], files[1::2], strict=True)]


def slots_for(settings: EngineSettings, pairs: int) -> EngineSettings:
    """As many slots as pairs, where nobody said otherwise.

    Raises: ConfigError for more pairs than slots.
    """
    if "slots" not in settings.model_fields_set:
        return settings.model_copy(update={"slots": pairs})
    if pairs > settings.slots:
        raise ConfigError(f"{pairs} pairs do not fit {settings.slots} slots", hint="raise --slots, or leave it out")
    return settings


def prompt_of(arguments: argparse.Namespace, settings: EngineSettings) -> SessionPrompt:
    """Raises: ConfigError for a value out of range."""
    if arguments.seed is not None and not 0 <= arguments.seed <= MAX_SEED:
        raise ConfigError(f"--seed {arguments.seed} must be 0 or more, and below 2**63")
    sampling = Sampling(
        audio_temperature=_temperature("--audio-temperature", arguments.audio_temperature, arguments.greedy),
        audio_top_k=_top_k("--audio-top-k", arguments.audio_top_k),
        text_temperature=_temperature("--text-temperature", arguments.text_temperature, arguments.greedy),
        text_top_k=_top_k("--text-top-k", arguments.text_top_k),
    )
    return SessionPrompt(settings.persona, settings.voice, arguments.seed, sampling)


def _temperature(flag: str, value: float | None, greedy: bool) -> float | None:
    if greedy:
        if value:
            raise ConfigError(f"{flag} {value:g} and --greedy exclude each other", hint="give one of them")
        return 0.0
    if value is not None and not (math.isfinite(value) and 0 <= value <= MAX_TEMPERATURE):
        raise ConfigError(f"{flag} {value:g} must be 0..{MAX_TEMPERATURE:g}")
    return value


def _top_k(flag: str, value: int | None) -> int | None:
    if value is not None and not 0 <= value <= MAX_TOP_K:
        raise ConfigError(f"{flag} {value} must be 0..{MAX_TOP_K}")
    return value


@contextmanager
def _bar(console: Console) -> Iterator[Callable[[int, int], None] | None]:
    """A progress bar, on a terminal only."""
    if not console.is_terminal:
        yield None
        return
    columns = (TextColumn("frames"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("frames", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
