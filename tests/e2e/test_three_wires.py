"""One sound over three wires, at the same time and to the same engine: each gives it back."""

from __future__ import annotations

import asyncio
import json
from itertools import count

import aiohttp
import numpy as np
import pytest
from aiohttp import WSMsgType

from rtc_server.bench.alignment import align
from rtc_server.bench.quality import log_spectral_distance_db
from rtc_server.engine.stepper import FRAME_S, FRAME_SAMPLES, SAMPLE_RATE
from rtc_server.media.oggopus import OggOpusReader, OggOpusWriter
from rtc_server.media.pcm import to_float, to_int16
from tests.e2e.conftest import Caller, Serve
from tests.e2e.server import ServerProcess
from tests.e2e.speech import RATE_HZ, Pcm, resampled, said, silence

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60, method="signal")]

AROUND_S = 1.0
"""Silence before the speech and behind it: what is late is heard too."""
MARGIN_DB = 1.5
"""For a machine that tears a hole of a frame into it. Sound at another speed, or of another voice, is 10 dB away."""


async def test_the_same_call_over_each_wire_returns_the_same_audio_within_the_codecs_error(
    serve: Serve, caller: Caller
) -> None:
    server = await serve("echo", 3)
    speech = np.concatenate([silence(AROUND_S), said("02_two_turns", 0), silence(AROUND_S)])
    clean = resampled(speech, RATE_HZ, SAMPLE_RATE)
    clean = clean[: len(clean) // FRAME_SAMPLES * FRAME_SAMPLES]
    raw, chat, webrtc = await asyncio.gather(
        over_raw(server, clean), over_chat(server, clean), over_webrtc(server, caller, speech)
    )
    assert np.array_equal(raw, to_float(to_int16(clean)))
    codec_db = distance_db(clean, coded(coded(clean)))
    for wire, heard in (("chat", chat), ("webrtc", webrtc)):
        assert distance_db(clean, heard) < codec_db + MARGIN_DB, wire


def distance_db(clean: Pcm, heard: Pcm) -> float:
    """Between what was heard and the part of the clean sound that it is; all of the speech must be in it."""
    size = len(clean) + len(heard)
    likeness = np.fft.irfft(np.fft.rfft(heard, size) * np.fft.rfft(clean, size).conj(), size)
    lag = (int(np.argmax(likeness)) + len(clean)) % size - len(clean)
    reference = align(clean, heard, lag - SAMPLE_RATE // 4, lag + SAMPLE_RATE // 4).reference(clean)
    assert np.square(reference).sum() > 0.95 * np.square(clean).sum()
    return log_spectral_distance_db(reference, heard)


def coded(clean: Pcm) -> Pcm:
    writer, reader = OggOpusWriter(), OggOpusReader()
    whole = clean[: len(clean) // FRAME_SAMPLES * FRAME_SAMPLES]
    return np.concatenate([reader.feed(writer.encode(frame)) for frame in whole.reshape(-1, FRAME_SAMPLES)])


async def over_raw(server: ServerProcess, clean: Pcm) -> Pcm:
    heard = b""
    async with aiohttp.ClientSession() as http, http.ws_connect(f"{server.url}/v1/audio/duplex") as socket:
        await socket.send_json({"type": "open"})
        await socket.send_bytes(clean.astype("<f4").tobytes())
        await socket.send_json({"type": "close"})
        async for message in socket:
            if message.type is WSMsgType.BINARY:
                heard += message.data
            else:
                assert json.loads(message.data)["type"] in ("ready", "done")
    return np.frombuffer(heard, "<f4").astype(np.float32)


async def over_chat(server: ServerProcess, clean: Pcm) -> Pcm:
    """A frame every 80 ms, as a microphone gives them."""
    writer, reader, heard = OggOpusWriter(), OggOpusReader(), [np.zeros(0, np.float32)]
    async with aiohttp.ClientSession() as http, http.ws_connect(f"{server.url}/api/chat") as socket:
        assert (await socket.receive()).data == b"\0"
        loop = asyncio.get_running_loop()
        began_s = loop.time()

        async def speak() -> None:
            for number, frame in zip(count(), clean.reshape(-1, FRAME_SAMPLES)):
                await asyncio.sleep(max(0.0, began_s + number * FRAME_S - loop.time()))
                await socket.send_bytes(b"\1" + writer.encode(frame))
            await socket.close()

        speaking = asyncio.create_task(speak())
        async for message in socket:
            if message.data[0] == 1:
                heard.append(reader.feed(message.data[1:]))
        await speaking
    return np.concatenate(heard)


async def over_webrtc(server: ServerProcess, caller: Caller, speech: Pcm) -> Pcm:
    client = caller(server, speech)
    await client.connect()
    await asyncio.sleep(len(speech) / RATE_HZ)
    heard = client.heard()
    await client.close()
    return resampled(heard.pcm, heard.rate_hz, SAMPLE_RATE)
