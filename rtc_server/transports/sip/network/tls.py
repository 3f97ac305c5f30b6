"""Certificates: ours, and those of the servers that we call."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rtc_server.errors import ConfigError
from rtc_server.log import get_logger

logger = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """PEM files. Without a certificate nobody can call us over TLS, but we can call others."""

    certificate: Path | None = None
    """With the chain that leads to an authority. Shown to servers that we call too, if they ask (mutual TLS)."""
    key: Path | None = None
    """Without a pass phrase."""
    ca: Path | None = None
    """Who vouches for the servers that we call. None: whom the system trusts."""
    verify_clients: bool = False
    """Take connections only from those whom `ca` vouches for."""
    insecure: bool = False
    """Call servers whoever they are: for tests, and for a look at a server whose certificate is wrong."""
    of_hosts: Mapping[str, TlsSettings] = field(default_factory=dict)
    """For calls to these hosts, in lower case, in place of the settings above."""

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple(path for path in (self.certificate, self.key, self.ca) if path is not None)

    @property
    def in_words(self) -> str:
        """Each file with what it is for."""
        named = {"certificate": self.certificate, "key": self.key, "authority": self.ca}
        return ", ".join(f"{name} {path}" for name, path in named.items() if path is not None)


class TlsContexts:
    """Made from the files, and again after they have changed: a renewed certificate needs no restart.

    Reading them takes tens of milliseconds where the system's authorities are among them: a thread does it.

    Files that are no good when a server runs, as in the moment between two of them being written, are left alone until
    they change once more.
    """

    def __init__(self, settings: TlsSettings) -> None:
        self._settings = settings
        self._server = None if settings.certificate is None else _Context(settings, _make_server)
        self._client = _Context(settings, _make_client)
        self._of_hosts = {host: _Context(other, _make_client) for host, other in settings.of_hosts.items()}

    def load(self, listens: bool) -> None:
        """Look at every file. Blocks; for a thread.

        Raises: ConfigError, also for a certificate that is missing where the server `listens`.
        """
        if listens and self._server is None:
            raise ConfigError("SIP over TLS needs a certificate", hint="set tls_cert and tls_key")
        if self._settings.verify_clients and self._settings.ca is None:
            raise ConfigError("nobody vouches for SIP clients", hint="set tls_ca, or do not verify them")
        if self._server is not None:
            self._server.load()
        for client in self._of_hosts.values():
            client.load()
        if self._settings.files:
            # Else those are all that the system trusts, which nobody waits for who has nothing to do with TLS.
            self._client.load()

    async def server(self) -> ssl.SSLContext:
        """For a connection that somebody opens to us."""
        assert self._server is not None, "listens without a certificate"
        return await self._server.get()

    async def client(self, host: str) -> ssl.SSLContext:
        """For a connection that we open. Raises: OSError where the system's authorities cannot be read."""
        return await self._of_hosts.get(host.lower(), self._client).get()


class _Context:
    """One of them, and the state of the files that it was made of."""

    def __init__(self, settings: TlsSettings, make: Callable[[TlsSettings], ssl.SSLContext]) -> None:
        self._settings = settings
        self._make = make
        self._made: ssl.SSLContext | None = None
        self._stamps: tuple[tuple[int, int] | None, ...] = ()
        self._lock = asyncio.Lock()

    def load(self) -> None:
        """Raises: ConfigError."""
        self._stamps = self._look()
        try:
            self._made = self._make(self._settings)
        except ssl.SSLError as error:
            raise ConfigError(
                f"cannot use {self._settings.in_words} for SIP over TLS: {error.reason or error}",
                hint="they must be PEM, certificate and key must match, and the key have no pass phrase",
            ) from None
        except OSError as error:
            raise ConfigError(f"cannot read {error.filename} for SIP over TLS: {error.strerror}") from None

    async def get(self) -> ssl.SSLContext:
        """Raises: OSError, where it was never made."""
        if self._made is None or self._look() != self._stamps:
            async with self._lock:
                await self._renew()
        if self._made is None:
            raise ConnectionError("there are no certificates for TLS")
        return self._made

    async def _renew(self) -> None:
        """Unless somebody else has, meanwhile."""
        if self._made is not None and self._look() == self._stamps:
            return
        renewed = self._made is not None
        try:
            await asyncio.to_thread(self.load)
        except ConfigError as error:
            logger.warning("certificates for SIP are no good", reason=error.message, old_ones_stay=renewed)
        else:
            if renewed:
                logger.info("certificates for SIP read again")

    def _look(self) -> tuple[tuple[int, int] | None, ...]:
        return tuple(_stamp(path) for path in self._settings.files)


def _make_server(settings: TlsSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _show_certificate(context, settings)
    if settings.verify_clients:
        context.verify_mode = ssl.CERT_REQUIRED
        _check_readable(settings.ca)
        context.load_verify_locations(settings.ca)
    return context


def _make_client(settings: TlsSettings) -> ssl.SSLContext:
    _check_readable(settings.ca)
    context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=settings.ca)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _show_certificate(context, settings)
    if settings.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _show_certificate(context: ssl.SSLContext, settings: TlsSettings) -> None:
    if settings.certificate is not None:
        _check_readable(settings.certificate)
        _check_readable(settings.key)
        # Never ask for a pass phrase on the terminal.
        context.load_cert_chain(settings.certificate, settings.key, password=lambda: "")


def _check_readable(path: Path | None) -> None:
    """Raises: OSError with the name of the file, which `ssl` leaves out."""
    if path is not None:
        path.open("rb").close()


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
