"""From what a person types to the address of a socket."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, quote, urlencode, urlsplit

from rtc_server.errors import ConfigError
from rtc_server.talk.moshi import MoshiProtocol
from rtc_server.talk.pcm import PcmProtocol

_SCHEMES = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}
_HINT = "write it as http://HOST:PORT"


@dataclass(frozen=True, slots=True)
class Address:
    """A server, or one socket of it."""

    scheme: str
    """``ws`` or ``wss``."""
    netloc: str
    """Host, and port where there is one."""
    prefix: str
    """Of the paths, without a slash at the end; where a server in front has one."""
    path: str | None
    """Of the socket, where the person named it."""
    query: str
    token: str | None
    """The key, where it stood at the end of the address, as the server's own greeting has it."""

    @classmethod
    def of(cls, text: str) -> Address:
        """Raises: ConfigError for what is no address of a web server."""
        parts = _split(text)
        prefix = quote(parts.path.rstrip("/"), safe="/%:@!$&'()*+,;=~")
        path = next((path for path in (MoshiProtocol.path, PcmProtocol.path) if prefix.endswith(path)), None)
        token = parts.fragment.removeprefix("token=") if parts.fragment.startswith("token=") else None
        scheme = _SCHEMES[parts.scheme]
        return cls(scheme, parts.netloc, prefix.removesuffix(path or ""), path, parts.query, token or None)

    def socket(self, path: str, query: Mapping[str, str]) -> str:
        """What to connect to."""
        asked = "&".join(part for part in (self.query, urlencode(query)) if part)
        return f"{self.scheme}://{self.netloc}{self.prefix}{path}{'?' if asked else ''}{asked}"


def _split(text: str) -> SplitResult:
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        usable = parts.scheme in _SCHEMES and parts.hostname and (parts.port or 1) > 0
    except ValueError:  # of a port, or of brackets
        usable = False
    if not usable or any(character.isspace() for character in parts.netloc):
        raise ConfigError(f"--url {text[:200]!r} is no address of a web server", hint=_HINT)
    if "@" in parts.netloc:
        raise ConfigError("--url has a user name in it", hint="a key belongs into RTC_API_KEY, or behind --token")
    return parts
