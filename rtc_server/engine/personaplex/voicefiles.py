"""What a voice is once it is prepared, and the safetensors file that holds one.

Two kinds: a *stored voice*, which the model has worked through before (the inputs of its first positions, and the
token rows that follow), and *voice audio*, which the codec still has to encode. Whatever is read is checked: its
shapes, that it is finite, that its ids exist in the model.
"""

from __future__ import annotations

import hashlib
import os
import re
import uuid
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import safetensors
import safetensors.torch
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from rtc_server.engine.personaplex.config import DELAYS, TOKEN_ROWS
from rtc_server.engine.stepper import FRAME_S, FRAME_SAMPLES, SAMPLE_RATE
from rtc_server.errors import EngineError

MIN_VOICE_S = 0.4
"""Less has no measurable loudness."""
MAX_VOICE_S = 60.0
MAX_CALLS = round(MAX_VOICE_S / FRAME_S)
SUFFIXES = (".safetensors", ".pt", ".wav")
"""Of voice files, in any case. Of several files of one name the earliest kind counts."""
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""Of a voice, all of it."""
RING_COLUMNS = 4
"""Of the token ring that a stored voice comes with: position p is column p mod 4."""
MAX_FILE_BYTES = 64 << 20
"""A minute of the 7B model's inputs in float32 takes 12 MB."""


def name_of(file_name: str) -> str | None:
    """The name of the voice in a file of this name; None for what is no voice file."""
    stem, dot, suffix = file_name.rpartition(".")
    return stem if NAME.fullmatch(stem) and f"{dot}{suffix}".lower() in SUFFIXES else None


class VoiceUnusable(EngineError):
    """A file on the shelf is not a voice, or not one for this model."""

    code = "voice_unusable"


@dataclass(frozen=True, slots=True, eq=False)
class StoredVoice:
    """N + 1 calls with a voice, worked through: the first call runs no model, so there are N inputs."""

    embeddings: Tensor
    """[N, dim]: the summed input embeddings of positions 0..N-1."""
    cache: Tensor
    """[17, 4] int64: the token ring after these calls."""

    @property
    def calls(self) -> int:
        return len(self.embeddings) + 1

    @property
    def seconds(self) -> float:
        return self.calls * FRAME_S

    @property
    def digest(self) -> bytes:
        """Of all that it holds."""
        return _digest(self.embeddings, self.cache)

    @property
    def newest(self) -> Tensor:
        """[17]: the rows of position N, all of them known."""
        return self.cache[:, len(self.embeddings) % RING_COLUMNS]

    @property
    def carry(self) -> Tensor:
        """[17]: of position N + 1; only the rows that lie a call behind mean anything."""
        return self.cache[:, (len(self.embeddings) + 1) % RING_COLUMNS]

    def given(self) -> Tensor:
        """[17, 2]: the tokens of the cache that are read, those of `newest` and `carry`."""
        newest = self.newest
        return torch.stack([newest, torch.where(torch.tensor(DELAYS) > 0, self.carry, newest)], dim=1)


@dataclass(frozen=True, slots=True, eq=False)
class VoiceAudio:
    """Somebody speaking."""

    pcm: NDArray[np.float32]
    """[T], mono, 24 kHz, normalised in loudness; not clipped, so that a peak may exceed 1."""

    @property
    def calls(self) -> int:
        """Of which the last one may be filled up with silence."""
        return -(-len(self.pcm) // FRAME_SAMPLES)

    @property
    def frames(self) -> Tensor:
        """[calls, 1, 1920] float32: one call of the codec after the other, for one row."""
        return pad(torch.from_numpy(self.pcm), (0, -len(self.pcm) % FRAME_SAMPLES)).view(-1, 1, FRAME_SAMPLES)

    @property
    def seconds(self) -> float:
        return len(self.pcm) / SAMPLE_RATE

    @property
    def digest(self) -> bytes:
        """Of all that it holds."""
        return _digest(torch.from_numpy(self.pcm))


def _digest(*tensors: Tensor) -> bytes:
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.contiguous().view(torch.uint8).numpy().data)
    return digest.digest()


def check_stored(embeddings: Tensor, cache: Tensor) -> StoredVoice:
    """A stored voice from tensors of unknown origin: [N, dim] or [N, 1, 1, dim], and [17, 4] or [1, 17, 4].

    Raises: VoiceUnusable.
    """
    for name, tensor in (("embeddings", embeddings), ("cache", cache)):
        if type(tensor) is not Tensor or tensor.layout != torch.strided or tensor.device.type != "cpu":
            raise VoiceUnusable(f"its {name} are no plain tensor")
    if embeddings.ndim not in (2, 4) or embeddings.shape[1:-1].numel() != 1 or embeddings.shape[-1] == 0:
        raise VoiceUnusable(f"its embeddings have the shape {list(embeddings.shape)}, not [frames, 1, 1, dim]")
    if not 1 <= len(embeddings) < MAX_CALLS:
        raise VoiceUnusable(f"it has {len(embeddings)} frames; a voice has 1 to {MAX_CALLS - 1}")
    if embeddings.dtype not in (torch.bfloat16, torch.float16, torch.float32):
        raise VoiceUnusable(f"its embeddings are {embeddings.dtype}, not a 16 or 32 bit floating point type")
    if cache.shape not in ((TOKEN_ROWS, RING_COLUMNS), (1, TOKEN_ROWS, RING_COLUMNS)) or cache.dtype != torch.int64:
        raise VoiceUnusable(f"its cache is {cache.dtype} {list(cache.shape)}, not int64 [1, {TOKEN_ROWS}, 4]")
    if embeddings.numel() * embeddings.element_size() > MAX_FILE_BYTES:
        raise VoiceUnusable(f"its embeddings are {embeddings.shape[-1]} wide, which no model is")
    voice = StoredVoice(embeddings.reshape(len(embeddings), -1).clone(), cache.reshape(TOKEN_ROWS, -1).clone())
    if not bool(voice.embeddings.isfinite().all()):
        raise VoiceUnusable("its embeddings are not finite")
    if int(voice.given().min()) < 0:
        raise VoiceUnusable("its cache has no token where the model needs one")
    return voice


def check_audio(pcm: NDArray[np.float32]) -> VoiceAudio:
    """Raises: VoiceUnusable for what is too short, too long or not finite."""
    seconds = len(pcm) / SAMPLE_RATE
    if not MIN_VOICE_S <= seconds <= MAX_VOICE_S:
        raise VoiceUnusable(f"it lasts {seconds:.2f} s; a voice lasts {MIN_VOICE_S:g} to {MAX_VOICE_S:g} s")
    if not np.isfinite(pcm).all():
        raise VoiceUnusable("it has samples that are not finite")
    return VoiceAudio(pcm)


def from_safetensors(raw: bytes) -> StoredVoice | VoiceAudio:
    """A prepared voice: ``embeddings`` and ``cache``, or ``pcm``. Raises: VoiceUnusable."""
    try:
        tensors = safetensors.torch.load(raw)
    except (safetensors.SafetensorError, ValueError, KeyError) as error:
        raise VoiceUnusable(f"it is no safetensors file: {error}") from error
    if "embeddings" in tensors and "cache" in tensors:
        return check_stored(tensors["embeddings"], tensors["cache"])
    if (pcm := tensors.get("pcm")) is not None and pcm.ndim == 1 and pcm.dtype == torch.float32:
        return check_audio(pcm.numpy())
    raise VoiceUnusable("it is no prepared voice: it has no 'embeddings' with a 'cache'")


def read_bytes(path: Path) -> bytes:
    """All of a file of a sensible size. Raises: VoiceUnusable."""
    try:
        if not path.is_file():
            raise VoiceUnusable("it is no file")
        if (size := path.stat().st_size) > MAX_FILE_BYTES:
            raise VoiceUnusable(f"it is {size >> 20} MiB large; a voice has at most {MAX_FILE_BYTES >> 20} MiB")
        return path.read_bytes()
    except OSError as error:
        raise VoiceUnusable(f"it cannot be read: {error.strerror}") from error


def write_voice(path: Path, voice: StoredVoice | VoiceAudio) -> None:
    """Write a prepared voice. Readers see the old file or the whole new one. Raises: OSError."""
    if isinstance(voice, StoredVoice):
        tensors = {"embeddings": voice.embeddings.contiguous(), "cache": voice.cache.contiguous()}
    else:
        tensors = {"pcm": torch.from_numpy(voice.pcm)}
    unfinished = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        unfinished.write_bytes(safetensors.torch.save(tensors))
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)
