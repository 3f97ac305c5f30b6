"""``voices.tgz``, the archive that PersonaPlex publishes its voices in, unpacked once into a folder of voice files.

An archive is input from outside. Of its members only regular files with the name of a voice are written, under their
bare names; a link, a device or a path that leads out of the archive condemns all of it, and so does a limit exceeded.
The folder appears complete or not at all, and a note in it says which archive it came from.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from rtc_server.engine.personaplex.voicefiles import MAX_FILE_BYTES, VoiceUnusable, name_of

NOTE = "unpacked.json"
"""In the folder: size and digest of the archive."""

_DAMAGED = (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, ValueError, OverflowError, RecursionError)


@dataclass(frozen=True, slots=True)
class Limits:
    """What an archive of voices may need."""

    members: int = 5_000
    file_bytes: int = MAX_FILE_BYTES
    total_bytes: int = 512 << 20
    """Of the unpacked archive, with its headers and what is skipped."""


def unpack_voices(archive: Path, folder: Path, limits: Limits | None = None) -> None:
    """Make `folder` hold the voices of `archive`; nothing is done where it does already.

    A folder that came from another archive is replaced, one with files of other origin is left alone. Several processes
    may do this at once.

    Raises: VoiceUnusable for an archive that is damaged, hostile or too large, and for a folder that cannot be written.
    """
    if not hasattr(tarfile, "data_filter"):
        raise VoiceUnusable("this Python cannot unpack an archive safely", hint="use Python 3.11.4 or later")
    note = _note(archive)
    if _came_from(folder, note):
        return
    try:
        if folder.exists() and any(folder.iterdir()) and not (folder / NOTE).is_file():
            raise VoiceUnusable(f"{folder} holds other files than those of an archive", hint="name another folder")
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".unpacking-", dir=folder.parent) as temporary:
            fresh = Path(temporary, "fresh")
            fresh.mkdir()
            _extract(archive, fresh, limits or Limits())
            (fresh / NOTE).write_text(json.dumps(note))
            if _came_from(folder, note):  # another process was quicker
                return
            if folder.exists():
                os.rename(folder, Path(temporary, "old"))
            os.rename(fresh, folder)
    except OSError as error:
        if not _came_from(folder, note):  # else it came in between
            raise VoiceUnusable(
                f"{archive.name} cannot be unpacked into {folder}: {error.strerror}",
                hint="set XDG_CACHE_HOME to a folder that can be written",
            ) from error


def unpacked(archive: Path, cache: Path) -> Path:
    """The folder with the voices of an archive, in `cache` under the archive's digest. Raises: VoiceUnusable."""
    folder = cache / str(_note(archive)["sha256"])[:32]
    unpack_voices(archive, folder)
    return folder


def _note(archive: Path) -> dict[str, int | str]:
    if archive.exists() and not archive.is_file():  # reading a pipe would wait for ever
        raise VoiceUnusable(f"{archive} is no file")
    try:
        with archive.open("rb") as file:
            return {"bytes": archive.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
    except OSError as error:
        raise VoiceUnusable(f"{archive} cannot be read: {error.strerror}") from error


def _came_from(folder: Path, note: dict[str, int | str]) -> bool:
    try:
        return bool(json.loads((folder / NOTE).read_text()) == note)
    except (OSError, ValueError):
        return False


def _extract(archive: Path, folder: Path, limits: Limits) -> None:
    """Write the voices of the archive into an empty folder."""
    found = 0
    try:
        with (
            gzip.open(archive) as unzipped,
            tarfile.open(fileobj=_Bounded(unzipped, archive.name, limits.total_bytes), mode="r|") as tar,
        ):
            for number, member in enumerate(tar, 1):
                if number > limits.members:
                    raise VoiceUnusable(f"{archive.name} has more than {limits.members} members")
                _check(archive.name, member, limits)
                name = PurePosixPath(member.name).name
                if member.isfile() and name_of(name) is not None:
                    tar.extract(member.replace(name=name, deep=False), folder, filter="data")
                    found += 1
    except _DAMAGED as error:
        raise VoiceUnusable(f"{archive.name} is no whole .tgz archive: {error}", hint="fetch it again") from error
    if not found:
        raise VoiceUnusable(f"{archive.name} holds no voices")


def _check(archive: str, member: tarfile.TarInfo, limits: Limits) -> None:
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts:
        raise VoiceUnusable(f"{archive} wants to write to {member.name[:80]!r}, outside its own folder")
    if member.issparse() or not (member.isfile() or member.isdir()):
        raise VoiceUnusable(f"{archive} holds {member.name[:80]!r}, which is neither a plain file nor a folder")
    if member.size > limits.file_bytes:
        raise VoiceUnusable(f"{archive} holds {member.name[:80]!r} of {member.size} bytes, over {limits.file_bytes}")


class _Bounded(io.RawIOBase):
    """A stream that refuses to go on for ever: a small archive may unpack to any size, its headers too."""

    def __init__(self, stream: io.BufferedIOBase, name: str, most_bytes: int) -> None:
        self._stream, self._name, self._most_bytes, self._left_bytes = stream, name, most_bytes, most_bytes

    def read(self, size: int = -1) -> bytes:
        part = self._stream.read(min(size, self._left_bytes + 1) if size >= 0 else self._left_bytes + 1)
        self._left_bytes -= len(part)
        if self._left_bytes < 0:
            raise VoiceUnusable(f"{self._name} unpacks to more than {self._most_bytes} bytes")
        return part
