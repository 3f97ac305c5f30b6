from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from rtc_server.config import HttpSettings
from rtc_server.errors import ConfigError
from rtc_server.http.tls import self_signed, ssl_context


def test_certificate_is_kept_and_private(tmp_path: Path) -> None:
    certificate, key = self_signed(["192.0.2.1"], tmp_path / "tls")
    before = certificate.read_bytes()
    assert key.stat().st_mode & 0o077 == 0
    self_signed(["192.0.2.1"], tmp_path / "tls")
    assert certificate.read_bytes() == before


def test_new_address_makes_a_new_certificate(tmp_path: Path) -> None:
    certificate, _ = self_signed(["192.0.2.1"], tmp_path)
    before = certificate.read_bytes()
    self_signed(["192.0.2.2", "2001:db8::1"], tmp_path)
    assert certificate.read_bytes() != before


def test_damaged_certificate_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "certificate.pem").write_text("nonsense")
    certificate, key = self_signed([], tmp_path)
    ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key)


def test_plain_http_has_no_context() -> None:
    assert ssl_context(HttpSettings(), []) is None


def test_own_certificate_is_used_or_named_as_wrong(tmp_path: Path) -> None:
    certificate, key = self_signed([], tmp_path)
    assert ssl_context(HttpSettings(tls_cert=certificate, tls_key=key), []) is not None
    with pytest.raises(ConfigError, match="must be PEM"):
        ssl_context(HttpSettings(tls_cert=key, tls_key=key), [])


def test_key_of_another_certificate_is_replaced(tmp_path: Path) -> None:
    _, other_key = self_signed([], tmp_path / "other")
    certificate, key = self_signed([], tmp_path / "tls")
    key.write_bytes(other_key.read_bytes())
    certificate, key = self_signed([], tmp_path / "tls")
    ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key)
