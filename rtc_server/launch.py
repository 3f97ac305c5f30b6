"""From settings to an engine: which one, with which options, and where it runs."""

from __future__ import annotations

from pathlib import Path

from rtc_server.config import EngineSettings, LogSettings
from rtc_server.engine.local import LocalEngine
from rtc_server.engine.registry import AUTO, EngineChoice, EngineOptions, choose, create
from rtc_server.engine.remote import RemoteEngine, has_own_process


def chosen_engine(settings: EngineSettings) -> EngineChoice:
    """The engine asked for, or what ``auto`` comes to, and why."""
    if settings.engine == AUTO:
        return choose(engine_options(settings))
    return EngineChoice(settings.engine, f"Engine {settings.engine}, as asked for.")


def engine_options(settings: EngineSettings) -> EngineOptions:
    """What the operator said about the engine, in the engine's own terms."""
    return EngineOptions(
        slots=settings.slots,
        asr_model=settings.asr_model,
        device=settings.device,
        model=settings.model,
        revision=settings.revision,
        dtype=settings.dtype,
        voices=settings.voices,
        depformer_steps=settings.depformer_steps,
        max_context=settings.max_context,
        pin_prompt=settings.pin_prompt,
        weight_bits=8 if settings.weights == "int8" else 16,
        kv_bits=8 if settings.kv == "int8" else 16,
        threads=settings.threads,
    )


def make_engine(name: str, settings: EngineSettings, log: LogSettings) -> LocalEngine | RemoteEngine:
    """On a thread of this process, or in a process of its own.

    Raises: UnknownEngine, ConfigError.
    """
    options = engine_options(settings)
    if has_own_process(settings.engine_process, name):
        return RemoteEngine(name, options, log_level=log.log_level, log_format=log.log_format)
    return LocalEngine(create(name, options))


def web_client(settings: EngineSettings) -> Path:
    """The archive with the official client of PersonaPlex, which is published beside the model.

    Raises: ConfigError.
    """
    from rtc_server.engine.personaplex.webclient import fetch_web_client

    return fetch_web_client(settings.model, settings.revision)
