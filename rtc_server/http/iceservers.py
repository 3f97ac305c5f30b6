"""From settings to what callers are told about STUN and TURN; the secret may change under live calls."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from rtc_server.config import TurnSettings
from rtc_server.errors import ConfigError
from rtc_server.log import get_logger
from rtc_server.transports.webrtc.turn import IceServers, check_secret

log = get_logger(__name__)


def ice_servers(settings: TurnSettings, wall_clock: Callable[[], float] = time.time) -> IceServers:
    """Raises: ConfigError, which never holds the secret."""
    return IceServers(settings.turn_urls, _secret(settings), settings.turn_ttl_s, wall_clock)


def _secret(settings: TurnSettings) -> Callable[[], str] | None:
    if settings.turn_secret_file is not None:
        if settings.turn_secret is not None:
            raise ConfigError("turn_secret and turn_secret_file are both set", hint="keep one of them")
        return SecretFile(settings.turn_secret_file)
    if settings.turn_secret is None:
        return None
    secret = check_secret(settings.turn_secret.get_secret_value(), "RTC_TURN_SECRET")
    return lambda: secret


class SecretFile:
    """The secret as it stands in a file now: when the file is replaced, the next caller's credential is made from it.

    A file that has become unusable is warned about once, and the last good secret stays in use: calls go on.
    Loop thread; reads a few local bytes, and only when the file has changed.
    """

    def __init__(self, path: Path) -> None:
        """Raises: ConfigError."""
        self._path = path
        self._version = self._stat()
        try:
            self._secret = self._read()
        except OSError as error:
            raise ConfigError(f"cannot read {path}: {error.strerror}", hint="check turn_secret_file") from None

    def __call__(self) -> str:
        version = self._stat()
        if version != self._version:
            self._version = version
            try:
                self._secret = self._read()
                log.info("turn secret changed")
            except (OSError, ConfigError) as error:
                log.warning("turn secret file unusable; the last secret stays in use", error=str(error))
        return self._secret

    def _stat(self) -> tuple[int, int, int] | None:
        """Changes with the file; None when there is none."""
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def _read(self) -> str:
        with self._path.open("rb") as stream:
            content = stream.read(4096)
        return check_secret(content.decode(errors="replace").strip(), str(self._path))
