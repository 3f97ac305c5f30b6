"""Files in, files out: several pairs in as many slots of one engine."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rtc_server.engine.stepper import FrameSpec, FrameStepper, SessionPrompt, SupportsPromptCheck, SupportsShutdown
from rtc_server.errors import BadRequest, ConfigError, RtcServerError, UnknownVoice
from rtc_server.media.wav import read_wav
from rtc_server.offline.results import Results
from rtc_server.offline.stream import Failure, frames_of, stream

Progress = Callable[[int, int], None]
"""(frames done, frames in all)"""


@dataclass(frozen=True, slots=True)
class Pair:
    """A recording of the user, and where the agent's side of it goes."""

    source: Path
    target: Path
    prompt: SessionPrompt = field(default_factory=SessionPrompt)


def run(
    build: Callable[[], FrameStepper],
    pairs: Sequence[Pair],
    text: Path | None = None,
    progress: Progress | None = None,
) -> list[Failure]:
    """Returns what broke. Files appear as `Results` says; when this raises, none does.

    Raises: ConfigError for files that cannot be used, before the engine is built, and for too few slots; UnknownVoice
    and BadRequest for a prompt that the engine does not take; RtcServerError on a full disk; what `build` raises.
    """
    check_paths(pairs, text)
    recordings = [read_wav(pair.source) for pair in pairs]
    with contextlib.ExitStack() as stack:
        results = stack.enter_context(Results([pair.target for pair in pairs], recordings, text))
        stepper = build()
        if isinstance(stepper, SupportsShutdown):
            stack.callback(stepper.shutdown)
        prompts = checked_prompts(stepper, [pair.prompt for pair in pairs])
        done, total = 0, sum(map(frames_of, recordings))
        failures: list[Failure] = []
        try:
            for event in stream(stepper, recordings, prompts):
                results.add(event)
                if isinstance(event, Failure):
                    failures.append(event)
                    done += frames_of(recordings[event.pair]) - event.frame
                else:
                    done += 1
                if progress is not None:
                    progress(done, total)
            results.keep()
        except OSError as error:
            raise RtcServerError(f"cannot write the results: {error.strerror}", hint="is the disk full?") from None
    return failures


def check_paths(pairs: Sequence[Pair], text: Path | None) -> None:
    """Raises: ConfigError for an output that is named twice, or is an input as well."""
    inputs = {_place(pair.source) for pair in pairs}
    outputs: set[Path] = set()
    for target in [*(pair.target for pair in pairs), *([text] if text is not None else [])]:
        place = _place(target)
        if place in inputs:
            raise ConfigError(f"{target} is an input and an output", hint="write to another file")
        if place in outputs:
            raise ConfigError(f"{target} is written twice", hint="give each output a name of its own")
        outputs.add(place)


def _place(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):  # Python 3.13 and newer raise an OSError for links that lead to themselves
        raise ConfigError(f"{path} is a link that leads nowhere", hint="name a file") from None


def checked_prompts(stepper: FrameStepper, prompts: Sequence[SessionPrompt]) -> list[SessionPrompt]:
    """The prompts, each with the engine's own name of its voice.

    Raises: ConfigError for too few slots, UnknownVoice, BadRequest or what else the engine has against a prompt.
    """
    if len(prompts) > stepper.slots:
        raise ConfigError(f"{len(prompts)} pairs do not fit {stepper.slots} slots", hint="raise --slots")
    checked = [_checked(stepper.spec, prompt) for prompt in prompts]
    if isinstance(stepper, SupportsPromptCheck):
        for prompt in checked:
            stepper.check_prompt(prompt)
    return checked


def _checked(spec: FrameSpec, prompt: SessionPrompt) -> SessionPrompt:
    voice = None if prompt.voice is None else spec.voice_named(prompt.voice)
    if prompt.voice is not None and voice is None:
        known = ", ".join(spec.voices)
        raise UnknownVoice(f"voice {prompt.voice[:64]!r} is unknown", hint=f"the engine {spec.name} has: {known}")
    if prompt.persona is not None and len(prompt.persona) > spec.max_persona_chars:
        limit = f"at most {spec.max_persona_chars} are possible"
        raise BadRequest(f"persona has {len(prompt.persona)} characters", hint=limit)
    return dataclasses.replace(prompt, voice=voice)
