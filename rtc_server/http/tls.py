"""A certificate for the page: microphones need a secure context anywhere but on localhost."""

from __future__ import annotations

import datetime
import ipaddress
import os
import ssl
from collections.abc import Sequence
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from rtc_server.config import HttpSettings
from rtc_server.errors import ConfigError

_VALID_DAYS = 397
"""Browsers refuse certificates that are valid for longer."""


def ssl_context(settings: HttpSettings, addresses: Sequence[str]) -> ssl.SSLContext | None:
    """The context for the web server, or None for plain HTTP. Raises: ConfigError."""
    if not settings.secure:
        return None
    if settings.tls_cert is not None and settings.tls_key is not None:
        certificate, key = settings.tls_cert, settings.tls_key
    else:
        try:
            certificate, key = self_signed(addresses)
        except OSError as error:
            raise ConfigError(f"cannot keep a certificate: {error}", hint="set XDG_CACHE_HOME to a folder") from None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, key, password=lambda: "")  # never ask on the terminal
    except (ssl.SSLError, OSError) as error:
        raise ConfigError(
            f"cannot use {certificate} and {key}: {error}", hint="both must be PEM, match, and have no pass phrase"
        ) from None
    return context


def self_signed(addresses: Sequence[str], directory: Path | None = None) -> tuple[Path, Path]:
    """Certificate and key for localhost and `addresses`; kept, so that a browser's exception holds over restarts."""
    directory = directory or _cache_dir()
    certificate_path, key_path = directory / "certificate.pem", directory / "key.pem"
    wanted = {"127.0.0.1", "::1", *addresses}
    if not _still_good(certificate_path, key_path, wanted):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        certificate, key = _make(wanted)
        _write_private(key_path, key)
        certificate_path.write_bytes(certificate)
    return certificate_path, key_path


def _cache_dir() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "rtc_server" / "tls"


def _still_good(certificate_path: Path, key_path: Path, wanted: set[str]) -> bool:
    try:
        certificate = x509.load_pem_x509_certificate(certificate_path.read_bytes())
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        key = serialization.load_pem_private_key(key_path.read_bytes(), password=None)
    except (OSError, ValueError, TypeError, x509.ExtensionNotFound):
        return False
    # Written one after the other: a crash in between, or two servers at once, leaves two that do not belong together.
    if certificate.public_key() != key.public_key():
        return False
    covered = {str(address) for address in names.get_values_for_type(x509.IPAddress)}
    left = certificate.not_valid_after_utc - datetime.datetime.now(datetime.UTC)
    return wanted <= covered and left > datetime.timedelta(days=7)


def _make(addresses: set[str]) -> tuple[bytes, bytes]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "rtc-server, self-signed")])
    now = datetime.datetime.now(datetime.UTC)
    names: list[x509.GeneralName] = [x509.DNSName("localhost")]
    names += [x509.IPAddress(ipaddress.ip_address(address)) for address in sorted(addresses)]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=_VALID_DAYS))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    key_bytes = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return certificate.public_bytes(pem), key_bytes


def _write_private(path: Path, content: bytes) -> None:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
