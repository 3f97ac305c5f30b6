"""Relays for callers that cannot reach the media port: their addresses, and credentials that soon expire.

The server itself never talks to a TURN server, and never waits for one: it hands out names and passwords, which it and
the TURN server work out from a secret that both know ("A REST API For Access To TURN Services", draft-uberti, which
coturn calls ``use-auth-secret``). A credential is checked when an allocation is made; a call that runs is not ended by
its expiry. Everything here is arithmetic: wall clock and secret are handed in.
"""

from __future__ import annotations

import base64
import hmac
import ipaddress
import re
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from rtc_server.errors import ConfigError

MIN_SECRET_CHARS = 16
MAX_SECRET_CHARS = 256
"""coturn's database holds no longer one."""

_DEFAULT_PORTS = {"stun": 3478, "stuns": 5349, "turn": 3478, "turns": 5349}
_URL = re.compile(
    r"(?P<scheme>[a-z]+):(?P<host>\[[^\]]*\]|[^:?/@\[\]]*)(?::(?P<port>[^?]*))?(?:\?(?P<query>.*))?", re.I
)
_HOST_NAME = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?)*\.?", re.I
)
_USER = re.compile(r"[A-Za-z0-9._-]{1,64}")
_EXAMPLE = "write turn:HOST:3478?transport=udp, turn:HOST:3478?transport=tcp or turns:HOST:443?transport=tcp"


@dataclass(frozen=True, slots=True)
class IceUrl:
    """Where a STUN or TURN server is (RFC 7064, RFC 7065)."""

    scheme: Literal["stun", "stuns", "turn", "turns"]
    host: str
    """A name or an address; IPv6 without brackets."""
    port: int
    transport: Literal["udp", "tcp"]

    @property
    def relays(self) -> bool:
        return self.scheme in ("turn", "turns")

    @property
    def tls(self) -> bool:
        return self.scheme in ("stuns", "turns")

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        query = f"?transport={self.transport}" if self.relays else ""
        return f"{self.scheme}:{host}:{self.port}{query}"


def parse_url(text: str) -> IceUrl:
    """Raises: ConfigError, which says how to write it."""
    if "@" in text:
        raise ConfigError("turn_urls has an @", hint=f"leave names and passwords out, they are made here; {_EXAMPLE}")
    match = _URL.fullmatch(text.strip())
    scheme = match["scheme"].lower() if match else ""
    if match is None or scheme not in _DEFAULT_PORTS:
        raise _bad(text, "is no address of a TURN server")
    relays = scheme in ("turn", "turns")
    transport = _transport(text, match["query"], relays) or ("tcp" if scheme in ("turns", "stuns") else "udp")
    if scheme == "turns" and transport == "udp":
        raise _bad(text, "asks for TURN over DTLS, which no browser speaks", "write ?transport=tcp")
    return IceUrl(
        scheme,  # type: ignore[arg-type]  # one of _DEFAULT_PORTS
        _host(text, match["host"]),
        _port(text, match["port"], _DEFAULT_PORTS[scheme]),
        transport,
    )


def _host(text: str, host: str) -> str:
    if host.startswith("["):
        try:
            return str(ipaddress.IPv6Address(host[1:-1]))
        except ValueError:
            raise _bad(text, f"has no IPv6 address in {host}") from None
    if not _HOST_NAME.fullmatch(host):
        raise _bad(text, f"has no host name in {host!r}")
    return host


def _port(text: str, port: str | None, default: int) -> int:
    if port is None:
        return default
    if not (port.isascii() and port.isdigit() and 1 <= int(port) <= 65535):
        raise _bad(text, f"has no port in {port!r}")
    return int(port)


def _transport(text: str, query: str | None, relays: bool) -> Literal["udp", "tcp"] | None:
    if query is None:
        return None
    if not relays:
        raise _bad(text, "has a query, and addresses of STUN servers have none")
    if query == "transport=udp":
        return "udp"
    if query == "transport=tcp":
        return "tcp"
    raise _bad(text, f"has {query!r} in the place of transport=udp or transport=tcp")


def _bad(text: str, what: str, hint: str = _EXAMPLE) -> ConfigError:
    return ConfigError(f"turn_urls={text.strip()[:80]!r} {what}", hint=hint)


def check_secret(secret: str, where: str) -> str:
    """The secret as it was. Raises: ConfigError, which names `where` it stands but never what it is."""
    if not MIN_SECRET_CHARS <= len(secret) <= MAX_SECRET_CHARS:
        wrong = f"does not have {MIN_SECRET_CHARS} to {MAX_SECRET_CHARS} characters"
    elif not (secret.isascii() and secret.isprintable() and " " not in secret):
        wrong = "has characters beside printable ASCII"
    else:
        return secret
    raise ConfigError(f"the TURN secret in {where} {wrong}", hint="make one: openssl rand -hex 32")


@dataclass(frozen=True, slots=True)
class Credential:
    """What a caller shows to the TURN server."""

    username: str
    password: str = field(repr=False)
    expires_at_s: int
    """Seconds since 1970."""


def make_credential(secret: str, user: str, expires_at_s: int) -> Credential:
    """coturn counts its quota per `user`, the part after the colon. Raises: ConfigError for an unusable name."""
    if not _USER.fullmatch(user):
        raise ConfigError(
            f"user {user[:80]!r} is no name", hint="1 to 64 letters, digits, dots, dashes and underscores"
        )
    username = f"{expires_at_s}:{user}"
    digest = hmac.digest(secret.encode(), username.encode(), "sha1")
    return Credential(username, base64.b64encode(digest).decode(), expires_at_s)


@dataclass(frozen=True, slots=True)
class IceServer:
    """One entry of a browser's ``iceServers``; STUN servers ask for no credential."""

    urls: tuple[str, ...]
    credential: Credential | None = None

    def to_json(self) -> dict[str, Any]:
        """An ``RTCIceServer``."""
        body: dict[str, Any] = {"urls": list(self.urls)}
        if self.credential is not None:
            body |= {"username": self.credential.username, "credential": self.credential.password}
        return body

    def links(self) -> list[str]:
        """Values of ``Link`` headers, one for each address (RFC 9725 section 4.6)."""
        proof = ""
        if self.credential is not None:
            proof = f'; username="{self.credential.username}"; credential="{self.credential.password}"'
            proof += '; credential-type="password"'
        return [f'<{url}>; rel="ice-server"{proof}' for url in self.urls]


class IceServers:
    """Hands out the servers that callers may use, with credentials made for the occasion."""

    def __init__(
        self,
        urls: Iterable[str] = (),
        secret: Callable[[], str] | None = None,
        ttl_s: int = 3600,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """`secret` is asked each time, so that it may change. Raises: ConfigError for addresses that cannot work."""
        self.urls: Sequence[IceUrl] = tuple(parse_url(url) for url in urls)
        self._secret = secret
        self._ttl_s = ttl_s
        self._wall_clock = wall_clock
        relay = next((url for url in self.urls if url.relays), None)
        if relay is not None and secret is None:
            raise ConfigError(
                f"turn_urls has {relay}, but there is no secret to make credentials from",
                hint="set RTC_TURN_SECRET, or --turn-secret-file, to what coturn knows",
            )

    def issue(self) -> tuple[IceServer, ...]:
        """What one caller gets. The name is random, so each credential has a quota of its own and tells nothing."""
        relays = any(url.relays for url in self.urls)
        return self.servers_with(self.credential(secrets.token_hex(8)) if relays else None)

    def servers_with(self, credential: Credential | None) -> tuple[IceServer, ...]:
        """All servers, those that relay with this credential."""
        plain = tuple(str(url) for url in self.urls if not url.relays)
        relays = tuple(str(url) for url in self.urls if url.relays)
        servers = (IceServer(plain),) if plain else ()
        return (*servers, IceServer(relays, credential)) if relays else servers

    def credential(self, user: str) -> Credential:
        """Good for the time to live from now on. Raises: ConfigError when there is no secret, or for a bad name."""
        if self._secret is None:
            raise ConfigError("there is no TURN secret", hint="set RTC_TURN_SECRET, or --turn-secret-file")
        return make_credential(self._secret(), user, int(self._wall_clock()) + self._ttl_s)
