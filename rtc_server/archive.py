"""A ``.tgz`` archive from outside, read file by file. Nothing is written to the disk here.

A link, a device or a path that leads out of the archive condemns all of it, and so does a limit exceeded.
"""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from rtc_server.errors import ConfigError

_DAMAGED = (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError, ValueError, OverflowError, RecursionError)


@dataclass(frozen=True, slots=True)
class Limits:
    """What an archive may need."""

    members: int = 5_000
    """Files and folders."""
    file_bytes: int = 64 << 20
    """Of one file."""
    total_bytes: int = 64 << 20
    """Of the unpacked archive, with its headers and what nobody wants."""


def files_in(
    archive: Path, wanted: Callable[[PurePosixPath], bool], limits: Limits
) -> Iterator[tuple[PurePosixPath, bytes]]:
    """Paths and contents of the files that are `wanted`, in their order. The others are checked as well.

    Raises, where it comes upon it: ConfigError for an archive that cannot be read, is damaged, hostile or too large. So
    what came before is only good when the end is reached.
    """
    if not hasattr(tarfile, "data_filter"):
        raise ConfigError("this Python cannot unpack an archive safely", hint="use Python 3.11.4 or later")
    try:
        with (
            gzip.open(archive) as unzipped,
            tarfile.open(fileobj=_Bounded(unzipped, archive, limits.total_bytes), mode="r|") as tar,
        ):
            for number, member in enumerate(tar, 1):
                if number > limits.members:
                    raise ConfigError(f"{archive} has more than {limits.members} members")
                path = _checked(archive, member, limits)
                content = tar.extractfile(member) if wanted(path) else None
                if content is not None:
                    yield path, content.read()
    except _DAMAGED as error:
        raise ConfigError(
            f"{archive} is no whole .tgz archive: {error}", hint="delete it, to fetch it again"
        ) from error
    except OSError as error:
        raise ConfigError(f"{archive} cannot be read: {error.strerror}") from error


def _checked(archive: Path, member: tarfile.TarInfo, limits: Limits) -> PurePosixPath:
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts:
        raise ConfigError(f"{archive} wants to write to {member.name[:80]!r}, outside its own folder")
    if member.issparse() or not (member.isfile() or member.isdir()):
        raise ConfigError(f"{archive} holds {member.name[:80]!r}, which is neither a plain file nor a folder")
    if member.size > limits.file_bytes:
        raise ConfigError(f"{archive} holds {member.name[:80]!r} of {member.size} bytes, over {limits.file_bytes}")
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
