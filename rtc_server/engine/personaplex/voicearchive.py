"""``voices.tgz``, the archive that PersonaPlex publishes its voices in, unpacked once into a folder of voice files.

Of an archive's members only files with the name of a voice are written, under their bare names; `rtc_server.archive`
says what condemns all of it. The folder appears complete or not at all, and a note in it says which archive it came
from.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path

from rtc_server.archive import Limits, files_in
from rtc_server.engine.personaplex.voicefiles import MAX_FILE_BYTES, VoiceUnusable, name_of
from rtc_server.errors import ConfigError

NOTE = "unpacked.json"
"""In the folder: size and digest of the archive."""
LIMITS = Limits(file_bytes=MAX_FILE_BYTES, total_bytes=512 << 20)


def unpack_voices(archive: Path, folder: Path, limits: Limits = LIMITS) -> None:
    """Make `folder` hold the voices of `archive`; nothing is done where it does already.

    A folder that came from another archive is replaced, one with files of other origin is left alone. Several processes
    may do this at once.

    Raises: VoiceUnusable for an archive that is damaged, hostile or too large, and for a folder that cannot be written.
    """
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
            _extract(archive, fresh, limits)
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
    """Write the voices of the archive into an empty folder. Raises: VoiceUnusable, OSError."""
    found = 0
    try:
        for path, content in files_in(archive, lambda path: name_of(path.name) is not None, limits):
            (folder / path.name).write_bytes(content)
            found += 1
    except ConfigError as error:
        raise VoiceUnusable(error.message, hint=error.hint) from error
    if not found:
        raise VoiceUnusable(f"{archive.name} holds no voices")
