"""From a name to an engine: a built-in, ``package.module:Class``, or an entry point of ``rtc_server.engines``.

A stepper's constructor takes ``(slots: int, options: EngineOptions)``. Nothing of an engine is imported before its
factory is called, which happens on the engine thread: an import may take as long as it needs.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import cast

from rtc_server.engine.stepper import FrameStepper
from rtc_server.errors import ConfigError, UnknownEngine

ENTRY_POINT_GROUP = "rtc_server.engines"
AUTO = "auto"


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """What an operator may say about an engine. Each engine takes what concerns it and ignores the rest."""

    slots: int = 4
    """Conversations at once."""
    asr_model: Path | None = None
    """Folder with the recogniser's weights."""
    device: str | None = None
    """Where the model runs, as ``cuda:0`` or ``cpu``; None: the engine's own choice."""
    model: str | None = None
    """A folder with a checkpoint, or the name of a repository on the hub; None: the engine's own."""
    revision: str | None = None
    """Branch, tag or commit of the repository."""
    dtype: str | None = None
    """Type of the weights, as ``bf16``, ``f16`` or ``f32``; None: what suits the device."""
    voices: Path | None = None
    """Folder with voices of one's own."""
    depformer_steps: int = 8
    """Codebooks that the model predicts: 8 are the agent's; 16 also guess the user's, which nobody uses."""
    max_context: int | None = None
    """Positions of 80 ms that a slot remembers, at most; None: what the model was made for."""
    pin_prompt: bool = False
    """Keep persona and voice in the window for ever."""
    weight_bits: int = 16
    """8: weights as integers, half the memory."""
    kv_bits: int = 16
    """8: what a slot remembers as integers, half the memory."""
    threads: int | None = None
    """Of the model on a CPU; None: the library's own choice."""


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """What ``auto`` came to."""

    name: str
    reason: str
    """One plain sentence, for the terminal and the page."""


@dataclass(frozen=True, slots=True)
class _BuiltIn:
    target: str
    packages: tuple[str, ...] = ()
    """Import names without which it cannot run."""
    extra: str = ""
    """The extra of this project that installs them."""
    auto: str = ""
    """``module:function`` of (EngineOptions) -> str | None: why `choose` passes over it, though it may be asked for."""
    own_process: bool = False
    """It fills a processor, so that it is better kept away from the packets."""
    report: str = ""
    """``module:function`` of (EngineOptions) -> str: what there is to say about it without starting it."""


_BUILT_INS = {
    "personaplex": _BuiltIn(
        "rtc_server.engine.personaplex.stepper:PersonaPlexStepper",
        packages=("torch", "safetensors", "sentencepiece", "pyloudnorm", "huggingface_hub"),
        extra="personaplex",
        auto="rtc_server.engine.personaplex.presence:lack",
        own_process=True,
        report="rtc_server.engine.personaplex.report:report",
    ),
    "cascade": _BuiltIn(
        "rtc_server.engine.cascade.stepper:CascadeStepper", ("earshot", "hibari", "ctranslate2", "tokenizers"), "demo"
    ),
    "echo": _BuiltIn("rtc_server.engine.echo:EchoStepper"),
}
_AUTO_ORDER = ("personaplex", "cascade", "echo")


def known_engines() -> tuple[str, ...]:
    """Every name that `create` takes, beside ``auto`` and ``package.module:Class``."""
    return (*_BUILT_INS, *sorted(set(_plug_ins()) - set(_BUILT_INS)))


def choose(options: EngineOptions | None = None) -> EngineChoice:
    """The best engine that can run here: personaplex, else cascade, else echo."""
    passed_over: list[str] = []
    for name in _AUTO_ORDER:
        reason = _lack(name)
        if reason is not None:
            passed_over.append(f"{reason} ({_remedy(name)})")
        elif (reason := _unfit(name, options or EngineOptions())) is not None:
            passed_over.append(reason)
        else:
            break
    because = f", since {' and '.join(passed_over)}" if passed_over else ""
    return EngineChoice(name, f"Engine {name}{because}.")


def create(name: str, options: EngineOptions) -> Callable[[], FrameStepper]:
    """A factory of the engine `name`, to be called on the engine thread. ``auto`` takes what `choose` says.

    Raises: UnknownEngine for a name nobody has; ConfigError for an engine that cannot run here. The factory raises the
    same for what only shows on import.
    """
    if options.slots < 1:
        raise ConfigError(f"an engine of {options.slots} slots holds no conversation", hint="set --slots to 1 or more")
    if name == AUTO:
        name = choose(options).name
    target = _target(name)

    def build() -> FrameStepper:
        constructor = _load(name, target)
        return constructor(options.slots, options)

    return build


def wants_own_process(name: str) -> bool:
    """Is an engine of this name better off in a process of its own?"""
    return name in _BUILT_INS and _BUILT_INS[name].own_process


def report(name: str, options: EngineOptions) -> str | None:
    """What an engine that is heavy to start says about itself; None: start it to see.

    Raises: what its start would raise for reasons that are known before it.
    """
    if name not in _BUILT_INS or not _BUILT_INS[name].report:
        return None
    _target(name)
    return cast(str, _function(_BUILT_INS[name].report)(options))


def _target(name: str) -> str:
    if name in _BUILT_INS:
        if (lack := _lack(name)) is not None:
            raise ConfigError(lack, hint=_remedy(name))
        return _BUILT_INS[name].target
    if (plug_in := _plug_ins().get(name)) is not None:
        return plug_in.value
    module, _, attribute = name.partition(":")
    if attribute and all(part.isidentifier() for part in (*module.split("."), *attribute.split("."))):
        return name
    known = (AUTO, *known_engines())
    close = difflib.get_close_matches(name, known, n=1)
    question = f"did you mean {close[0]!r}? " if close else ""
    raise UnknownEngine(
        f"no engine {name[:80]!r}", hint=f"{question}known: {', '.join(known)}, or your own as package.module:Class"
    )


def _load(name: str, target: str) -> Callable[[int, EngineOptions], FrameStepper]:
    module_name, _, attribute = target.partition(":")
    try:
        found: object = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise ConfigError(f"engine {name} needs the package {error.name}", hint="install it") from error
        raise UnknownEngine(f"engine {name}: no module {error.name}", hint="is it on PYTHONPATH?") from error
    for part in attribute.split("."):
        if (found := getattr(found, part, None)) is None:
            raise UnknownEngine(f"engine {name}: module {module_name} has no {attribute}")
    if not callable(found):
        raise UnknownEngine(
            f"engine {name}: {attribute} is no class", hint="name a class with the FrameStepper methods"
        )
    return cast(Callable[[int, EngineOptions], FrameStepper], found)


def _unfit(name: str, options: EngineOptions) -> str | None:
    """Why nobody would want this built-in here unasked."""
    auto = _BUILT_INS[name].auto
    return cast(str | None, _function(auto)(options)) if auto else None


def _function(target: str) -> Callable[[EngineOptions], object]:
    module, _, name = target.partition(":")
    return cast(Callable[[EngineOptions], object], getattr(importlib.import_module(module), name))


def _lack(name: str) -> str | None:
    """Why this built-in cannot run here, as half a sentence; None if it can."""
    missing = [package for package in _BUILT_INS[name].packages if not _importable(package)]
    if missing:
        return f"{name} lacks the packages {', '.join(missing)}"
    return None


def _remedy(name: str) -> str:
    return f"pip install '.[{_BUILT_INS[name].extra}]' in the folder of the source brings them"


def _importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # a parent package is missing
        return False


def _plug_ins() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=ENTRY_POINT_GROUP)}
