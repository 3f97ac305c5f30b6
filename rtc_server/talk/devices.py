"""The machine's own microphone and speaker, through PortAudio, each in blocks of 80 ms.

PortAudio calls from threads of its own. What they hand over and fetch is bounded, and the oldest goes first: somebody
who talks wants the present.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rtc_server.errors import ConfigError
from rtc_server.media.frames import FRAME_SAMPLES, SAMPLE_RATE, FloatSamples
from rtc_server.media.pcmfifo import PcmFifo
from rtc_server.media.resample import Resampler

MOST_BLOCKS = 12
"""How much the microphone hands over ahead: about a second."""
_RATES_HZ = (SAMPLE_RATE, 48_000)
"""Some devices have the second one only."""
_FILES = "give --in FILE.wav and --out FILE.wav"

Block = NDArray[np.float32]
"""[n, 1] samples at the device's rate."""


def load_sounddevice() -> ModuleType:
    """PortAudio's bindings. Raises: ConfigError where they, or PortAudio itself, are not there."""
    try:
        import sounddevice
    except ImportError:
        raise ConfigError(
            "microphone and speaker need sounddevice, which is not installed",
            hint=f"pip install '.[talk]' in the folder of the source, or {_FILES}",
        ) from None
    except OSError as error:
        raise ConfigError(
            f"microphone and speaker need PortAudio: {error}", hint=f"apt install libportaudio2, or {_FILES}"
        ) from None
    return sounddevice  # type: ignore[no-any-return]


class DeviceMicrophone:
    """Frames as they are spoken. Runs from the first `frame` to `close`; at most `MOST_BLOCKS` wait.

    `frame` and `close` belong to the loop; the queue is written by PortAudio's thread.
    """

    def __init__(self, sounddevice: ModuleType) -> None:
        self._sounddevice = sounddevice
        self._blocks: collections.deque[FloatSamples] = collections.deque(maxlen=MOST_BLOCKS)
        self._arrived = asyncio.Event()
        self._stream: Any = None

    async def frame(self) -> FloatSamples:
        """The next frame, [1920] samples. Raises: ConfigError where there is no microphone."""
        if self._stream is None:
            self._loop = asyncio.get_running_loop()
            self._stream = _started(self._sounddevice, "InputStream", self._on_block, self._at_rate)
        while not self._blocks:
            self._arrived.clear()
            await self._arrived.wait()
        return self._resampler.process(self._blocks.popleft())

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()

    def _at_rate(self, rate_hz: int) -> None:
        self._resampler = Resampler(rate_hz, SAMPLE_RATE)

    def _on_block(self, block: Block, *_: object) -> None:
        self._blocks.append(block[:, 0].copy())
        with contextlib.suppress(RuntimeError):  # the loop has ended just now
            self._loop.call_soon_threadsafe(self._arrived.set)


class DeviceSpeaker:
    """Plays what is put into it: at most a second waits, and what waits too long is cut out where nobody hears it.

    `play` and `close` belong to the loop; the queue is read by PortAudio's thread.
    """

    def __init__(self, sounddevice: ModuleType) -> None:
        self._fifo = PcmFifo()
        self._lock = threading.Lock()
        self._stream = _started(sounddevice, "OutputStream", self._on_block, self._at_rate)

    def play(self, pcm: FloatSamples) -> None:
        with self._lock:
            self._fifo.put(0.0, pcm)

    def close(self) -> None:
        self._stream.close()

    def _at_rate(self, rate_hz: int) -> None:
        self._resampler = Resampler(SAMPLE_RATE, rate_hz)

    def _on_block(self, block: Block, *_: object) -> None:
        with self._lock:
            frame = self._fifo.take(0.0)
        block[:, 0] = self._resampler.process(frame)


def _started(sounddevice: ModuleType, kind: str, on_block: Callable[..., None], at_rate: Callable[[int], None]) -> Any:
    """A running stream of 80 ms blocks. `at_rate` is told its rate in Hz first: a block may come before it is returned.

    Raises: ConfigError for a machine that has no such device.
    """
    failure: Exception | None = None
    for rate_hz in _RATES_HZ:
        try:
            stream = getattr(sounddevice, kind)(
                samplerate=rate_hz,
                blocksize=rate_hz * FRAME_SAMPLES // SAMPLE_RATE,
                channels=1,
                dtype="float32",
                callback=on_block,
            )
            at_rate(rate_hz)
            try:
                stream.start()
            except BaseException:
                stream.close()
                raise
        except sounddevice.PortAudioError as error:
            failure = failure or error
        else:
            return stream
    device = "microphone" if kind == "InputStream" else "speaker"
    raise ConfigError(f"the {device} cannot be opened: {failure}", hint=f"connect one, or {_FILES}")
