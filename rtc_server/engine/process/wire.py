"""Frames on the socket between the server and its engine process. Sans-IO.

::

    +--------------+---------------+--------------------+-----------------------+
    | header bytes | payload bytes | header: JSON, UTF-8 | payload: raw int16 PCM |
    | u32, network | u32, network  |                    | little endian          |
    +--------------+---------------+--------------------+-----------------------+

A stream in order and without loss, between two processes of one program on one machine: no version, no checksum. Sizes
are checked before anything is kept, since what comes may still be garbage: an engine is other people's native code.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rtc_server.engine.stepper import FRAME_SAMPLES
from rtc_server.errors import EngineError

MAX_HEADER_BYTES = 8 << 20
"""Room for the words of 512 slots after a conductor's absence."""
MAX_PAYLOAD_BYTES = 4 << 20
"""Room for the frames of 512 slots, and as much again."""

_SIZES = struct.Struct("!II")
_SAMPLE = np.dtype("<i2")


class WireError(EngineError):
    """What came is no frame or message of ours, or what is to be sent is none."""


class Frame(NamedTuple):
    header: bytes
    payload: bytes = b""


def encode_frame(frame: Frame) -> bytes:
    """Raises: WireError for a frame over the limits."""
    _check_sizes(len(frame.header), len(frame.payload))
    return b"".join((_SIZES.pack(len(frame.header), len(frame.payload)), frame.header, frame.payload))


class FrameDecoder:
    """Chunks of a stream in, whole frames out. Holds at most one incomplete frame."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, chunk: bytes) -> list[Frame]:
        """The frames that `chunk` completes, in order.

        Raises: WireError for sizes over the limits; the stream is of no use from then on.
        """
        self._buffer += chunk
        frames: list[Frame] = []
        start = 0
        while len(self._buffer) - start >= _SIZES.size:
            header_bytes, payload_bytes = _SIZES.unpack_from(self._buffer, start)
            _check_sizes(header_bytes, payload_bytes)
            header_start = start + _SIZES.size
            payload_start = header_start + header_bytes
            end = payload_start + payload_bytes
            if len(self._buffer) < end:
                break
            frames.append(
                Frame(bytes(self._buffer[header_start:payload_start]), bytes(self._buffer[payload_start:end]))
            )
            start = end
        del self._buffer[:start]
        return frames


def pack_pcm(rows: Sequence[NDArray[np.int16]] | NDArray[np.int16]) -> bytes:
    """Rows of [1920] int16 as a payload."""
    return b"".join(row.astype(_SAMPLE, copy=False).tobytes() for row in rows)


def unpack_pcm(payload: bytes, rows: int) -> NDArray[np.int16]:
    """[rows, 1920] int16, read-only.

    Raises: WireError if `payload` is not exactly so many frames.
    """
    if len(payload) != rows * FRAME_SAMPLES * _SAMPLE.itemsize:
        raise WireError(f"{len(payload)} bytes of sound are not {rows} frames")
    pcm: NDArray[np.int16] = np.frombuffer(payload, _SAMPLE).reshape(rows, FRAME_SAMPLES)
    return pcm


def _check_sizes(header_bytes: int, payload_bytes: int) -> None:
    if header_bytes > MAX_HEADER_BYTES or payload_bytes > MAX_PAYLOAD_BYTES:
        raise WireError(f"a frame of {header_bytes} + {payload_bytes} bytes is over the limits")
