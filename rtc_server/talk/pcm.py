"""The caller's side of ``/v1/audio/duplex``: float32 at 24 kHz, both ways. Sans-IO."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

from rtc_server.media.frames import SAMPLE_RATE, FloatSamples
from rtc_server.media.pcmformat import PcmDecoder, PcmEncoder
from rtc_server.talk.protocol import Done, Heard, Message, Ready, Remark, Sound, Wishes, Words

_FORMAT: Literal["f32"] = "f32"


class PcmProtocol:
    """A `CallProtocol`.

    Args:
        pace: ``input`` for a recording, every frame of which counts; ``realtime`` for a voice, which must not be late.
    """

    path: ClassVar[str] = "/v1/audio/duplex"

    def __init__(self, wishes: Wishes, pace: Literal["input", "realtime"]) -> None:
        self._wishes = wishes
        self._pace = pace
        self._encoder = PcmEncoder(_FORMAT, SAMPLE_RATE)
        self._decoder = PcmDecoder(_FORMAT, SAMPLE_RATE)

    @property
    def query(self) -> dict[str, str]:
        return {}

    def opening(self) -> Sequence[Message]:
        wishes = {"persona": self._wishes.persona, "voice": self._wishes.voice, "seed": self._wishes.seed}
        how = {"rate": SAMPLE_RATE, "format": _FORMAT, "pace": self._pace}
        given = {name: value for name, value in wishes.items() if value is not None}
        return (json.dumps({"type": "open", **given, **how}),)

    def audio(self, pcm: FloatSamples) -> bytes:
        return self._encoder.encode(pcm)

    def closing(self) -> Sequence[Message]:
        return (json.dumps({"type": "close"}),)

    def receive(self, message: Message) -> Sequence[Heard]:
        if isinstance(message, bytes):
            pcm = self._decoder.feed(message)
            return (Sound(pcm),) if pcm.size else ()
        said = _object(message)
        match said.get("type"):
            case "ready":
                return (Ready(),)
            case "text":
                return (Words(str(said.get("text", ""))),)
            case "dropped":
                return (Remark(f"{said.get('dropped_ms')} ms of your audio came too late and were dropped"),)
            case "error":
                sentence, hint = str(said.get("error", "an error")), said.get("hint")
                return (Remark(f"{sentence}; {hint}" if hint else sentence),)
            case "done":
                return (Done(),)
        return ()


def _object(text: str) -> dict[str, Any]:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}
