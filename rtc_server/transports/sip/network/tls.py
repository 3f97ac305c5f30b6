"""Certificates: ours, and those of the servers that we call."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
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


class TlsContexts:
    """Made from the files, and again after they have changed: a renewed certificate needs no restart.

    Files that are no good when a server runs, as in the moment between two of them being written, are left alone until
    they change once more.
    """

    def __init__(self, settings: TlsSettings) -> None:
        self._settings = settings
        self._stamps: tuple[tuple[int, int] | None, ...] = ()
        self._server: ssl.SSLContext | None = None
        self._client: ssl.SSLContext | None = None

    def load(self, listens: bool) -> None:
        """Raises: ConfigError, also for a certificate that is missing where the server `listens`."""
        if listens and self._settings.certificate is None:
            raise ConfigError("SIP over TLS needs a certificate", hint="set tls_cert and tls_key")
        if self._settings.verify_clients and self._settings.ca is None:
            raise ConfigError("nobody vouches for SIP clients", hint="set tls_ca, or do not verify them")
        self._stamps = self._look()
        try:
            server = self._make_server()
            # The system's authorities take tens of milliseconds, which nobody pays for who has nothing to do with TLS.
            client = None if self._settings == TlsSettings() else self._make_client()
        except (ssl.SSLError, OSError) as error:
            raise ConfigError(
                f"cannot use the certificates for SIP: {error}",
                hint="they must be PEM, certificate and key must match, and the key have no pass phrase",
            ) from None
        self._server, self._client = server, client

    def server(self) -> ssl.SSLContext:
        """For a connection that somebody opens to us."""
        self._refresh()
        assert self._server is not None, "listens without a certificate"
        return self._server

    def client(self) -> ssl.SSLContext:
        """For a connection that we open. Raises: OSError where the system's authorities cannot be read."""
        self._refresh()
        if self._client is None:
            self._client = self._make_client()
        return self._client

    def _refresh(self) -> None:
        if self._look() == self._stamps:
            return
        try:
            self.load(listens=self._server is not None)
        except ConfigError as error:
            logger.warning("new certificates for SIP are no good, the old ones stay", reason=error.message)
        else:
            logger.info("certificates for SIP read again")

    def _look(self) -> tuple[tuple[int, int] | None, ...]:
        return tuple(
            _stamp(path) for path in (self._settings.certificate, self._settings.key, self._settings.ca) if path
        )

    def _make_server(self) -> ssl.SSLContext | None:
        if self._settings.certificate is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._show_certificate(context)
        if self._settings.verify_clients:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(self._settings.ca)
        return context

    def _make_client(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=self._settings.ca)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._show_certificate(context)
        if self._settings.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context

    def _show_certificate(self, context: ssl.SSLContext) -> None:
        if self._settings.certificate is not None:
            # Never ask for a pass phrase on the terminal.
            context.load_cert_chain(self._settings.certificate, self._settings.key, password=lambda: "")


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
