"""Files that appear under their names whole, or not at all."""

from __future__ import annotations

import contextlib
import secrets
from pathlib import Path
from typing import BinaryIO, Self

from rtc_server.errors import ConfigError


class StagedFile:
    """Written beside its target, and moved there by `keep`. Leaving the ``with`` block without `keep` removes it."""

    def __init__(self, target: Path) -> None:
        """Raises: ConfigError when nothing can be written there."""
        if not target.parent.is_dir():
            raise ConfigError(f"cannot write {target}: there is no folder {target.parent}", hint="make it first")
        if target.exists() and not target.is_file():
            raise ConfigError(f"cannot write {target}: it is there, and no file", hint="choose another name")
        self._target = target
        self._path = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}.part")
        try:
            self.stream: BinaryIO = self._path.open("xb")
        except OSError as error:
            raise ConfigError(f"cannot write {target}: {error.strerror}", hint="choose another place") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):  # a full disk is told by the write that met it
            self.stream.close()
        self._path.unlink(missing_ok=True)

    def keep(self) -> None:
        """Raises: OSError when the disk is full."""
        self.stream.close()
        self._path.replace(self._target)
