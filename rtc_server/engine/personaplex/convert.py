"""From other people's voice formats to prepared ones.

The only place that unpickles anything, and only tensors: the ``.pt`` files that PersonaPlex publishes its voices as.
"""

from __future__ import annotations

import io
import warnings
import zipfile
from pathlib import Path

import torch
from torch import Tensor

from rtc_server.engine.personaplex.loudness import normalised
from rtc_server.engine.personaplex.voicefiles import (
    MAX_FILE_BYTES,
    SUFFIXES,
    StoredVoice,
    VoiceAudio,
    VoiceUnusable,
    check_audio,
    check_stored,
    from_safetensors,
    read_bytes,
)
from rtc_server.engine.personaplex.wav import read_wav


def voice_from(file: Path, raw: bytes | None = None) -> StoredVoice | VoiceAudio:
    """Whatever a voice file holds; `raw` is its content if that is known already.

    Raises: VoiceUnusable.
    """
    suffix = file.suffix.lower()
    if suffix not in SUFFIXES:
        raise VoiceUnusable(f"it is no voice file: its name ends in {suffix!r}", hint=f"use {', '.join(SUFFIXES)}")
    raw = read_bytes(file) if raw is None else raw
    return {".safetensors": from_safetensors, ".pt": from_pt, ".wav": from_wav}[suffix](raw)


def from_wav(raw: bytes) -> VoiceAudio:
    """The first channel, at 24 kHz and the loudness of the model's own voices. Raises: VoiceUnusable."""
    return VoiceAudio(normalised(check_audio(read_wav(raw)).pcm))


def from_pt(raw: bytes) -> StoredVoice:
    """A dictionary with ``embeddings`` [N, 1, 1, dim] and ``cache`` int64 [1, 17, 4].

    Raises: VoiceUnusable. A file with anything but tensors, numbers and strings in it is refused, not run.
    """
    _check_archive(raw)
    try:
        with warnings.catch_warnings(action="ignore"):
            content = torch.load(io.BytesIO(raw), map_location="cpu", weights_only=True)
    except Exception as error:  # of a broken file anything may come, AssertionError and struct.error too
        raise VoiceUnusable("it is no PyTorch file of plain tensors") from error
    if not isinstance(content, dict) or not {"embeddings", "cache"} <= content.keys():
        raise VoiceUnusable("it is no voice: it has no 'embeddings' with a 'cache'")
    embeddings, cache = content["embeddings"], content["cache"]
    if not isinstance(embeddings, Tensor) or not isinstance(cache, Tensor):
        raise VoiceUnusable("its 'embeddings' and 'cache' are no tensors")
    return check_stored(embeddings.detach(), cache.detach())


def _check_archive(raw: bytes) -> None:
    """A ``.pt`` is a zip. One that grows when it is read was not written by PyTorch."""
    try:
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            unpacked_bytes = sum(member.file_size for member in archive.infolist())
    except (zipfile.BadZipFile, ValueError, EOFError) as error:
        raise VoiceUnusable("it is no PyTorch file, or not all of it", hint="fetch it again") from error
    if unpacked_bytes > MAX_FILE_BYTES:
        raise VoiceUnusable(f"its content is {unpacked_bytes >> 20} MiB large; at most {MAX_FILE_BYTES >> 20} are read")
