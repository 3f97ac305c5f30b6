"""``/v1/voices/{name}/sample``: how a voice sounds, as a WAV file that an audio element can play.

A name is looked up among the engine's voices and nowhere else, so that no path from outside reaches a file. A sample is
asked of the engine once, and kept.
"""

from __future__ import annotations

import asyncio
import io
import wave
from collections import OrderedDict
from urllib.parse import quote

import numpy as np
from aiohttp import web
from numpy.typing import NDArray

from rtc_server.engine.client import EngineClient
from rtc_server.engine.stepper import SAMPLE_RATE, FrameSpec
from rtc_server.errors import NoVoiceSample
from rtc_server.http.page import entity_tag, is_known

KEPT_SAMPLES = 16
"""Of 0.3 MB at most."""
MAX_AGE_S = 3600
HINT = "GET /v1/voices lists the voices, and the samples that there are"


def sample_path(voice: str) -> str:
    return f"/v1/voices/{quote(voice, safe='')}/sample"


class VoiceSamples:
    """The handler; everything it needs is handed in."""

    def __init__(self, engine: EngineClient) -> None:
        self._engine = engine
        self._spec: FrameSpec | None = None
        """Of the engine that made what is kept: one that starts again may have other voices."""
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._asking = asyncio.Lock()

    def routes(self) -> list[web.RouteDef]:
        return [web.get("/v1/voices/{name}/sample", self.sample)]

    async def sample(self, request: web.Request) -> web.Response:
        """Raises: NoVoiceSample, EngineUnavailable, EngineError."""
        body = await self._wav(self._voice_named(request.match_info["name"]))
        etag = entity_tag(body)
        headers = {"ETag": etag, "Cache-Control": f"private, max-age={MAX_AGE_S}", "Accept-Ranges": "bytes"}
        if is_known(request, etag):
            return web.Response(status=304, headers=headers)
        status, headers["Content-Type"] = 200, "audio/wav"
        if (part := _part(request, len(body), etag)) is not None:
            status, headers["Content-Range"] = 206, f"bytes {part.start}-{part.stop - 1}/{len(body)}"
            if not part:
                return web.Response(status=416, headers={"Content-Range": f"bytes */{len(body)}"})
            body = body[part.start : part.stop]
        return web.Response(body=body, status=status, headers=headers)

    def _voice_named(self, name: str) -> str:
        spec = self._engine.spec
        voice = spec.voice_named(name)
        if voice is None:
            raise NoVoiceSample(f"voice {name[:64]!r} is unknown", hint=HINT)
        if voice not in spec.voice_samples:
            raise NoVoiceSample(f"there is no sample of voice {voice[:64]!r}", hint=HINT)
        return voice

    async def _wav(self, voice: str) -> bytes:
        async with self._asking:
            if self._spec is not self._engine.spec:
                self._spec = self._engine.spec
                self._kept.clear()
            if voice not in self._kept:
                frames = await self._engine.voice_sample(voice)
                if frames is None:
                    raise NoVoiceSample(f"there is no sample of voice {voice[:64]!r}", hint=HINT)
                self._kept[voice] = wav_file(frames)
                if len(self._kept) > KEPT_SAMPLES:
                    self._kept.popitem(last=False)
            self._kept.move_to_end(voice)
            return self._kept[voice]


def wav_file(frames: NDArray[np.int16]) -> bytes:
    """Mono, 24 kHz, 16 bit; `frames` of any shape."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(SAMPLE_RATE)
        writer.writeframes(frames.astype("<i2", copy=False).tobytes())
    return file.getvalue()


def _part(request: web.Request, size: int, etag: str) -> range | None:
    """What of the file is wanted; empty where that lies beyond it, None for all of it. Safari plays no sound from a
    server that cannot give a part (RFC 9110 section 14.2)."""
    if request.headers.get("If-Range", etag) != etag:
        return None
    try:
        wanted = request.http_range
    except ValueError:
        return None
    if wanted.start is None and wanted.stop is None:
        return None
    return range(*wanted.indices(size))
