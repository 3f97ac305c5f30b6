"""WAV files of the odd formats in which people keep their voices, and a voice-like signal to put in them."""

from __future__ import annotations

import struct
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Format = Literal["u8", "s16", "s24", "s32", "f32", "alaw", "mulaw"]
TAGS = {"u8": 1, "s16": 1, "s24": 1, "s32": 1, "f32": 3, "alaw": 6, "mulaw": 7}
WIDTHS = {"u8": 1, "s16": 2, "s24": 3, "s32": 4, "f32": 4, "alaw": 1, "mulaw": 1}


def speech(seconds: float, rate: int = 24_000, level: float = 0.1) -> NDArray[np.float32]:
    """A hum of 150 Hz with overtones, in syllables of a quarter second; [T]."""
    time = np.arange(round(seconds * rate)) / rate
    hum = sum(np.sin(2 * np.pi * 150 * k * time) / k for k in range(1, 8))
    return (level * hum * (0.55 + 0.45 * np.sin(2 * np.pi * 4 * time))).astype(np.float32)


def wav(pcm: NDArray[np.float32], rate: int = 24_000, fmt: Format = "s16") -> bytes:
    """pcm [T] or [channels, T] in [-1, 1]."""
    channels = 1 if pcm.ndim == 1 else len(pcm)
    samples = np.clip(pcm.T.reshape(-1), -1, 1)
    data = _encoded(samples, fmt)
    block = channels * WIDTHS[fmt]
    header = struct.pack("<HHIIHH", TAGS[fmt], channels, rate, rate * block, block, 8 * WIDTHS[fmt])
    return riff(header, data)


def riff(header: bytes, data: bytes) -> bytes:
    """The chunks of a file; `header` is the content of ``fmt ``."""
    chunks = b"fmt " + struct.pack("<I", len(header)) + header + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", 4 + len(chunks)) + b"WAVE" + chunks


def _encoded(samples: NDArray[np.float32], fmt: Format) -> bytes:
    match fmt:
        case "u8":
            return (samples * 127 + 128).astype(np.uint8).tobytes()
        case "s16":
            return (samples * 32767).astype("<i2").tobytes()
        case "s24":
            return (samples * 8388607).astype("<i4").view(np.uint8).reshape(-1, 4)[:, :3].tobytes()
        case "s32":
            return (samples.astype(np.float64) * 2147483647).astype("<i4").tobytes()
        case "f32":
            return samples.astype("<f4").tobytes()
        case "mulaw":  # G.711: sign, then the logarithm in eight segments of sixteen steps
            return _mulaw(samples)
        case "alaw":
            return _alaw(samples)


def _mulaw(samples: NDArray[np.float32]) -> bytes:
    magnitude = np.minimum(np.abs(samples * 32767).astype(np.int32), 32635) + 132
    segment = np.floor(np.log2(magnitude)).astype(np.int32) - 7
    code = (samples < 0) * 0x80 | segment << 4 | magnitude >> (segment + 3) & 0x0F
    return (~code & 0xFF).astype(np.uint8).tobytes()


def _alaw(samples: NDArray[np.float32]) -> bytes:
    magnitude = np.abs(samples * 32767).astype(np.int32)
    segment = np.maximum(np.floor(np.log2(np.maximum(magnitude, 1))).astype(np.int32) - 7, 0)
    code = (samples >= 0) * 0x80 | segment << 4 | magnitude >> np.maximum(segment + 3, 4) & 0x0F
    return (code ^ 0x55).astype(np.uint8).tobytes()
