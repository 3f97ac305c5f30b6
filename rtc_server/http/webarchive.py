"""A web page in a ``.tgz`` archive, read into memory."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from rtc_server.archive import Limits, files_in
from rtc_server.errors import ConfigError

_INDEX = "index.html"


def read_archive(archive: Path, limits: Limits | None = None) -> dict[str, bytes]:
    """The files of a page, by path relative to its ``index.html``, wherever in the archive that lies.

    Raises: ConfigError for an archive that cannot be read, is damaged, hostile or too large, or holds no page.
    """
    members = dict(files_in(archive, _is_visible, limits or Limits()))
    pages = [path.parent for path in members if path.name == _INDEX]
    if not pages:
        raise ConfigError(f"{archive} holds no {_INDEX}, so no page", hint="give --web-ui a folder")
    root = min(pages, key=lambda folder: len(folder.parts))
    return {path.relative_to(root).as_posix(): body for path, body in members.items() if path.is_relative_to(root)}


def _is_visible(path: PurePosixPath) -> bool:
    return not any(part.startswith(".") for part in path.parts)
