"""A web page in a ``.tgz`` archive, read into memory.

An archive is input from outside: a link, a device or a path that leads out of it condemns all of it, and so does a
limit exceeded. Nothing is written to the disk.
"""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from rtc_server.errors import ConfigError

_INDEX = "index.html"
_DAMAGED = (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, ValueError, OverflowError, RecursionError)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a web page may need."""

    members: int = 5_000
    """Files and folders."""
    total_bytes: int = 64 << 20
    """Of all files; of an archive unpacked, with its headers."""


def read_archive(archive: Path, limits: Limits | None = None) -> dict[str, bytes]:
    """The files of a page, by path relative to its ``index.html``, wherever in the archive that lies.

    Raises: ConfigError for an archive that cannot be read, is damaged, hostile or too large, or holds no page.
    """
    if not hasattr(tarfile, "data_filter"):
        raise ConfigError("this Python cannot unpack an archive safely", hint="use Python 3.11.4 or later")
    try:
        members = _members(archive, limits or Limits())
    except _DAMAGED as error:
        raise ConfigError(
            f"{archive} is no whole .tgz archive: {error}", hint="delete it, to fetch it again"
        ) from error
    except OSError as error:
        raise ConfigError(f"{archive} cannot be read: {error.strerror}") from error
    pages = [path.parent for path in members if path.name == _INDEX]
    if not pages:
        raise ConfigError(f"{archive} holds no {_INDEX}, so no page", hint="give --web-ui a folder")
    root = min(pages, key=lambda folder: len(folder.parts))
    return {path.relative_to(root).as_posix(): body for path, body in members.items() if path.is_relative_to(root)}


def _members(archive: Path, limits: Limits) -> dict[PurePosixPath, bytes]:
    files: dict[PurePosixPath, bytes] = {}
    with (
        gzip.open(archive) as unzipped,
        tarfile.open(fileobj=_Bounded(unzipped, archive, limits.total_bytes), mode="r|") as tar,
    ):
        for number, member in enumerate(tar, 1):
            if number > limits.members:
                raise ConfigError(f"{archive} has more than {limits.members} members")
            path = _checked(archive, member)
            content = tar.extractfile(member)
            if content is not None and not any(part.startswith(".") for part in path.parts):
                files[path] = content.read()
    return files


def _checked(archive: Path, member: tarfile.TarInfo) -> PurePosixPath:
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts:
        raise ConfigError(f"{archive} wants to write to {member.name[:80]!r}, outside its own folder")
    if member.issparse() or not (member.isfile() or member.isdir()):
        raise ConfigError(f"{archive} holds {member.name[:80]!r}, which is neither a plain file nor a folder")
    tarfile.data_filter(member, str(archive.parent))
    return path


class _Bounded(io.RawIOBase):
    """A stream that refuses to go on for ever: a small archive may unpack to any size, its headers too."""

    def __init__(self, stream: io.BufferedIOBase, archive: Path, most_bytes: int) -> None:
        self._stream, self._archive, self._most_bytes, self._left_bytes = stream, archive, most_bytes, most_bytes

    def read(self, size: int = -1) -> bytes:
        part = self._stream.read(min(size, self._left_bytes + 1) if size >= 0 else self._left_bytes + 1)
        self._left_bytes -= len(part)
        if self._left_bytes < 0:
            raise ConfigError(f"{self._archive} unpacks to more than {self._most_bytes} bytes")
        return part
