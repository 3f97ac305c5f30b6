"""The three models behind the demo agent, loaded and warmed up."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from rtc_server.engine.cascade.ear import Ear, EarshotEar
from rtc_server.engine.cascade.recogniser import Recogniser, WhisperRecogniser
from rtc_server.engine.cascade.voice import HibariVoice, Voice
from rtc_server.engine.cascade.weights import WeightsUnusable, find_recogniser
from rtc_server.log import get_logger

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Models:
    """Voice and recogniser are shared by all slots and used on the worker thread; every slot has an ear of its own."""

    voice: Voice
    recogniser: Recogniser | None
    """None: there are no usable weights. The agent speaks and hears that somebody speaks, but understands no words."""
    make_ear: Callable[[], Ear]


def load_models(asr_model: Path | None) -> Models:
    """Takes about two seconds. Never touches the network.

    Raises: EngineError when the voice or the voice detector is not installed. A missing recogniser is only a warning.
    """
    EarshotEar()
    voice = HibariVoice()
    try:
        recogniser = WhisperRecogniser(find_recogniser(asr_model))
    except WeightsUnusable as error:
        log.warning("the demo engine understands no words", reason=error.message, hint=error.hint)
        return Models(voice, None, EarshotEar)
    return Models(voice, recogniser, EarshotEar)
