"""Microphone and speaker against bindings that are a fake, whose threads are the test."""

from __future__ import annotations

import asyncio
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from rtc_server.errors import ConfigError
from rtc_server.media.frames import FRAME_SAMPLES
from rtc_server.talk.devices import MOST_BLOCKS, DeviceMicrophone, DeviceSpeaker, load_sounddevice

Samples = NDArray[np.float32]


class PortAudioError(Exception):
    pass


@dataclass
class Stream:
    samplerate: int
    blocksize: int
    callback: Callable[..., None]
    asks_at_once: bool = False
    fails_to_start: bool = False
    running: bool = False
    closed: bool = False

    def start(self) -> None:
        if self.fails_to_start:
            raise PortAudioError("Device unavailable")
        self.running = True
        if self.asks_at_once:
            self.play()

    def close(self) -> None:
        self.running = False
        self.closed = True

    def record(self, samples: Samples) -> None:
        """What PortAudio's thread does with a block from a microphone, whose memory it uses again."""
        block = samples.reshape(-1, 1).copy()
        self.callback(block, len(block), None, None)
        block[:] = 9

    def play(self) -> Samples:
        block = np.full((self.blocksize, 1), 9, np.float32)
        self.callback(block, len(block), None, None)
        return block[:, 0]


@dataclass
class Sound:
    """The module ``sounddevice``, on a machine whose devices have some rates."""

    rates_hz: tuple[int, ...] = (24_000, 48_000)
    asks_at_once: bool = False
    """For the first block, before the call that starts the stream has returned."""
    never_starts_at_hz: tuple[int, ...] = ()
    streams: list[Stream] = field(default_factory=list)

    def module(self) -> types.ModuleType:
        module: Any = types.ModuleType("sounddevice")
        module.PortAudioError = PortAudioError
        module.InputStream = module.OutputStream = self._open
        return module  # type: ignore[no-any-return]

    def _open(
        self, samplerate: int, blocksize: int, channels: int, dtype: str, callback: Callable[..., None]
    ) -> Stream:
        assert (channels, dtype) == (1, "float32")
        if samplerate not in self.rates_hz:
            raise PortAudioError("Invalid sample rate" if self.rates_hz else "Error querying device -1")
        fails = samplerate in self.never_starts_at_hz
        self.streams.append(Stream(samplerate, blocksize, callback, self.asks_at_once, fails))
        return self.streams[-1]


def block(value: float, samples: int = FRAME_SAMPLES) -> Samples:
    return np.full(samples, value, np.float32)


async def test_what_is_spoken_comes_frame_by_frame() -> None:
    sound = Sound()
    microphone = DeviceMicrophone(sound.module())
    assert not sound.streams, "nobody is recorded before the agent listens"
    first = asyncio.create_task(microphone.frame())
    await asyncio.sleep(0)
    await asyncio.to_thread(sound.streams[0].record, block(0.25))
    assert np.array_equal(await first, block(0.25))
    await asyncio.to_thread(sound.streams[0].record, block(0.5))
    assert np.array_equal(await microphone.frame(), block(0.5))
    microphone.close()
    assert not sound.streams[0].running


async def test_the_oldest_goes_when_nobody_fetches() -> None:
    sound = Sound()
    microphone = DeviceMicrophone(sound.module())
    waiting = asyncio.create_task(microphone.frame())
    await asyncio.sleep(0)
    for number in range(2 * MOST_BLOCKS):
        sound.streams[0].record(block(number / 100))
    assert np.array_equal(await waiting, block(MOST_BLOCKS / 100))
    microphone.close()


def test_what_the_agent_says_is_played_and_silence_is_played_when_it_says_nothing() -> None:
    sound = Sound()
    speaker = DeviceSpeaker(sound.module())
    speaker.play(block(0.5))
    assert np.allclose(sound.streams[0].play()[200:], 0.5)
    assert np.allclose(sound.streams[0].play()[200:], 0)
    speaker.close()
    assert not sound.streams[0].running


def test_no_more_than_a_second_waits_to_be_played() -> None:
    sound = Sound()
    speaker = DeviceSpeaker(sound.module())
    for number in range(100):
        speaker.play(block(number / 100))
    assert sound.streams[0].play()[1000] > 0.8


async def test_a_device_that_only_has_48_khz_is_used_at_that() -> None:
    sound = Sound(rates_hz=(48_000,))
    module = sound.module()
    speaker, microphone = DeviceSpeaker(module), DeviceMicrophone(module)
    speaker.play(block(0.5))
    assert np.allclose(sound.streams[0].play()[500:3800], 0.5, atol=0.01)
    waiting = asyncio.create_task(microphone.frame())
    await asyncio.sleep(0)
    sound.streams[1].record(block(0.5, 3840))
    frame = await waiting
    assert frame.shape == (FRAME_SAMPLES,)
    assert np.allclose(frame[300:], 0.5, atol=0.01)


@pytest.mark.parametrize("rate_hz", [24_000, 48_000])
async def test_a_device_that_calls_before_its_start_has_returned_is_served(rate_hz: int) -> None:
    sound = Sound(rates_hz=(rate_hz,), asks_at_once=True)
    module = sound.module()
    speaker, microphone = DeviceSpeaker(module), DeviceMicrophone(module)
    speaker.play(block(0.5))
    assert np.allclose(sound.streams[0].play()[500:1500], 0.5, atol=0.01)
    assert (await microphone.frame()).shape == (FRAME_SAMPLES,)


async def test_a_stream_that_does_not_start_is_closed_and_the_other_rate_tried() -> None:
    sound = Sound(never_starts_at_hz=(24_000,))
    speaker = DeviceSpeaker(sound.module())
    speaker.play(block(0.5))
    assert [(stream.samplerate, stream.running, stream.closed) for stream in sound.streams] == [
        (24_000, False, True),
        (48_000, True, False),
    ]
    assert np.allclose(sound.streams[1].play()[500:3800], 0.5, atol=0.01)
    nothing = Sound(never_starts_at_hz=(24_000, 48_000))
    with pytest.raises(ConfigError, match="the microphone cannot be opened: Device unavailable"):
        await DeviceMicrophone(nothing.module()).frame()
    assert [stream.closed for stream in nothing.streams] == [True, True]


async def test_a_machine_without_devices_is_told_so() -> None:
    module = Sound(rates_hz=()).module()
    with pytest.raises(ConfigError, match="the speaker cannot be opened: Error querying device") as caught:
        DeviceSpeaker(module)
    assert "--out FILE.wav" in caught.value.hint
    with pytest.raises(ConfigError, match="the microphone cannot be opened"):
        await DeviceMicrophone(module).frame()


def test_bindings_without_portaudio_are_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "sounddevice":
                raise OSError("PortAudio library not found")

    monkeypatch.delitem(sys.modules, "sounddevice", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Broken(), *sys.meta_path])
    with pytest.raises(ConfigError, match="PortAudio library not found") as caught:
        load_sounddevice()
    assert "libportaudio2" in caught.value.hint
