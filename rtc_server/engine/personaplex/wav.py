"""PCM WAV files of any rate and width, as one channel at the model's rate."""

from __future__ import annotations

import io
import itertools
from collections.abc import Iterator

import av
import numpy as np
from av.audio.codeccontext import AudioCodecContext
from av.audio.stream import AudioStream
from av.container import InputContainer
from numpy.typing import NDArray

from rtc_server.engine.personaplex.voicefiles import MAX_VOICE_S, VoiceUnusable
from rtc_server.engine.stepper import SAMPLE_RATE

RATES_HZ = range(4_000, 384_001)
MAX_CHANNELS = 8


def read_wav(raw: bytes) -> NDArray[np.float32]:
    """The first channel of a WAV file, float32 [T] at 24 kHz.

    The container is never guessed: some that the decoder knows name other files to open.

    Raises: VoiceUnusable for all but a WAV with PCM (linear, floating point, A-law or mu-law) of at most a minute.
    """
    parts: list[NDArray[np.float32]] = []
    samples = 0
    try:
        with av.open(io.BytesIO(raw), mode="r", format="wav") as container:
            for part in _resampled(container, _stream(container)):
                parts.append(part)
                samples += len(part)
                if samples > MAX_VOICE_S * SAMPLE_RATE:
                    raise VoiceUnusable(f"it lasts more than {MAX_VOICE_S:g} s")
    except (av.FFmpegError, ValueError, EOFError) as error:
        raise VoiceUnusable("it is no WAV file that can be decoded", hint="save it as a PCM WAV") from error
    return np.concatenate([np.zeros(0, np.float32), *parts])


def _stream(container: InputContainer) -> AudioStream:
    if not container.streams.audio:
        raise VoiceUnusable("it has no audio")
    stream = container.streams.audio[0]
    codec: AudioCodecContext | None = stream.codec_context  # None for a format tag that nobody knows
    if codec is None or not codec.name.startswith("pcm_"):
        raise VoiceUnusable("its audio is not PCM", hint="save it as a PCM WAV")
    if not 1 <= codec.channels <= MAX_CHANNELS:
        raise VoiceUnusable(f"it has {codec.channels} channels; 1 to {MAX_CHANNELS} can be read")
    if codec.sample_rate not in RATES_HZ:
        raise VoiceUnusable(f"its rate is {codec.sample_rate} Hz, not {RATES_HZ.start} to {RATES_HZ.stop - 1}")
    return stream


def _resampled(container: InputContainer, stream: AudioStream) -> Iterator[NDArray[np.float32]]:
    # Packed samples: of many planes the bindings may read more than there are.
    resampler = av.AudioResampler(format="flt", rate=SAMPLE_RATE)
    for frame in itertools.chain(container.decode(stream), [None]):
        for resampled in resampler.resample(frame):
            samples = resampled.to_ndarray()[0, :: stream.codec_context.channels]
            yield samples.astype(np.float32, copy=False)
