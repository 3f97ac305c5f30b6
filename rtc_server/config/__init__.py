"""Settings: flags > environment (``RTC_*``) > TOML file > defaults. One frozen model per layer of the server.

A setting has one name everywhere: ``--udp-port``, ``RTC_UDP_PORT``, and ``udp_port`` in the section ``[webrtc]`` of the
file; what belongs to phone calls is told apart as ``--sip-listen`` and ``RTC_SIP_LISTEN`` from ``listen`` in ``[sip]``.
Secrets come from the environment or the file, never from a flag: flags show in process lists.
"""

from __future__ import annotations

import ipaddress
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator

from rtc_server.config.section import CommaSeparated, Section, did_you_mean, merge
from rtc_server.config.sip import SipSettings, check_sip
from rtc_server.errors import ConfigError


class HttpSettings(Section):
    """The web server: page and API."""

    secrets: ClassVar[frozenset[str]] = frozenset({"api_key"})

    host: str = "127.0.0.1"
    port: int = Field(default=8124, ge=0, le=65535)
    auth: Literal["key", "none"] | None = None
    """None: ``key`` where an API key is set, else ``none``, which only a loopback `host` may have unasked."""
    api_key: SecretStr | None = None
    allow_origin: CommaSeparated = ()
    tls: Literal["off", "self-signed"] = "off"
    tls_cert: Path | None = None
    tls_key: Path | None = None
    metrics_port: int | None = Field(default=None, ge=1, le=65535)
    """Prometheus metrics on 127.0.0.1 at this port."""
    web_ui: str = Field(default="own", min_length=1)
    """The page at ``/``: ``own``, ``personaplex`` for the official client, or a folder with another one."""

    @field_validator("allow_origin")
    @classmethod
    def _origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for origin in value:
            parts = urlsplit(origin)
            if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/"):
                raise ValueError(f"{origin!r} is no origin; write it as https://example.org")
        return tuple(origin.rstrip("/") for origin in value)

    @property
    def loopback(self) -> bool:
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def needs_key(self) -> bool:
        return self.api_key is not None and self.auth != "none"

    @property
    def secure(self) -> bool:
        return self.tls == "self-signed" or self.tls_cert is not None


class WebRtcSettings(Section):
    """The media port."""

    udp_port: int = Field(default=8125, ge=0, le=65535)
    advertise_ip: CommaSeparated = ()
    """Addresses for the answer instead of this machine's own; for servers behind 1:1 NAT."""
    dtx: bool = False
    """Send next to nothing while the agent is silent (Opus DTX)."""

    @field_validator("advertise_ip")
    @classmethod
    def _addresses(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        addresses = [ipaddress.ip_address(address) for address in value]
        for address in addresses:
            if address.is_unspecified or address.is_multicast:
                raise ValueError(f"{address} is no address of a machine")
        return tuple(str(address) for address in addresses)


class TurnSettings(Section):
    """Relays that callers may use who cannot reach the media port themselves."""

    secrets: ClassVar[frozenset[str]] = frozenset({"turn_secret"})

    turn_urls: CommaSeparated = ()
    """``turn:HOST:3478?transport=udp``, ``turns:HOST:5349?transport=tcp``; for callers, never used by the server."""
    turn_secret: SecretStr | None = None
    """What the TURN server knows too; from it the short-lived credentials are made."""
    turn_secret_file: Path | None = None
    """The same in a file, which is read again when it changes, so that the secret can be rotated under live calls."""
    turn_ttl_s: int = Field(default=3600, ge=60, le=86_400)
    """How long a credential is good for making a connection."""


class EngineSettings(Section):
    """Which engine, and how many conversations at once."""

    engine: str = "auto"
    slots: int = Field(default=4, ge=1, le=512)
    asr_model: Path | None = None
    persona: str | None = None
    voice: str | None = None
    engine_process: Literal["auto", "on", "off"] = "auto"
    """The engine in a process of its own. auto: where the engine is a model that fills a processor."""
    model: str | None = None
    revision: str | None = None
    device: str | None = None
    dtype: Literal["bf16", "f16", "f32"] | None = None
    voices: Path | None = None
    depformer_steps: Literal[8, 16] = 8
    max_context: int | None = Field(default=None, ge=32)
    pin_prompt: bool = False
    weights: Literal["full", "int8"] = "full"
    kv: Literal["full", "int8"] = "full"
    threads: int | None = Field(default=None, ge=1, le=1024)


class SessionSettings(Section):
    """Limits of a conversation."""

    max_half_open: int = Field(default=64, ge=1, le=4096)
    idle_limit_s: float = Field(default=300.0, gt=0)
    resume_s: float = Field(default=10.0, ge=0, le=600)
    """How long a conversation waits for its caller to come back after the connection was closed. 0: not at all."""
    drain_s: float = Field(default=5.0, ge=0)
    """How long live calls may go on after SIGTERM."""


class LogSettings(Section):
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["auto", "json", "text"] = "auto"


class Settings(BaseModel):
    model_config = ConfigDict(frozen=True)

    http: HttpSettings
    webrtc: WebRtcSettings
    turn: TurnSettings
    sip: SipSettings
    engine: EngineSettings
    session: SessionSettings
    log: LogSettings


_SECTIONS: dict[str, type[Section]] = {
    "http": HttpSettings,
    "webrtc": WebRtcSettings,
    "turn": TurnSettings,
    "sip": SipSettings,
    "engine": EngineSettings,
    "session": SessionSettings,
    "log": LogSettings,
}


def load(flags: Mapping[str, Any] | None = None, config_file: Path | None = None) -> Settings:
    """Settings from all four sources. `flags` holds only what was given, by field name.

    Raises: ConfigError, which names the setting, its value and what is possible.
    """
    flags = {name: value for name, value in (flags or {}).items() if value is not None}
    file = _read(config_file) if config_file is not None else {}
    sections: dict[str, Any] = {}
    for name, model in _SECTIONS.items():
        sections[name] = merge(name, model, flags, file.get(name, {}))
    settings = Settings(**sections)
    _check(settings)
    check_sip(settings.sip)
    return settings


def _read(path: Path) -> dict[str, dict[str, Any]]:
    try:
        with path.open("rb") as stream:
            content = tomllib.load(stream)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None
    for name, value in content.items():
        if name not in _SECTIONS or not isinstance(value, dict):
            section = next((title for title, model in _SECTIONS.items() if name in model.model_fields), None)
            hint = f"put {name} under [{section}]" if section else did_you_mean(name, list(_SECTIONS))
            raise ConfigError(f"{path}: [{name}] is no section", hint=hint)
    return content


def _check(settings: Settings) -> None:
    http = settings.http
    if (http.tls_cert is None) != (http.tls_key is None):
        raise ConfigError("only one of tls_cert and tls_key is set", hint="give both --tls-cert and --tls-key")
    if http.tls_cert is not None and http.tls == "self-signed":
        raise ConfigError("--tls self-signed and --tls-cert exclude each other", hint="give one of them")
    for path in (http.tls_cert, http.tls_key):
        if path is not None and not path.is_file():
            raise ConfigError(f"{path} is no file", hint="give the PEM files of certificate and key")
    key = http.api_key.get_secret_value() if http.api_key else ""
    if http.api_key is not None and len(key) < 16:
        raise ConfigError("RTC_API_KEY is shorter than 16 characters", hint="make one: openssl rand -hex 16")
    if http.auth == "key" and not key:
        raise ConfigError("--auth key needs a key", hint="set RTC_API_KEY")
    if not http.loopback and not key and http.auth != "none":
        raise ConfigError(
            f"host {http.host} can be reached from outside, and there is no API key",
            hint="set RTC_API_KEY (16 characters or more), or say --auth none to let everybody in",
        )
