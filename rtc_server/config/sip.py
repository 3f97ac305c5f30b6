"""Settings of phone calls: where SIP is spoken, with which trunks, and which numbers reach which persona.

Trunks and their numbers are lists of tables, ``[[sip.trunks]]`` and ``[[sip.trunks.numbers]]``, which stand in the file
only. A password of theirs may stand beside them, in a file of its own, or in the environment.
"""

from __future__ import annotations

import ipaddress
import re
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    field_validator,
    model_validator,
)
from pydantic_settings import SettingsConfigDict

from rtc_server.config.section import CommaSeparated, Section
from rtc_server.errors import ConfigError

Codec = Literal["opus", "G722", "PCMU", "PCMA"]
CODECS: tuple[Codec, ...] = ("opus", "G722", "PCMU", "PCMA")

DIGEST_ALGORITHMS = ("SHA-256", "MD5")

MAX_WEBHOOK_S = 3.0
"""A caller hears nothing before the webhook has answered."""
MIN_SECRET_CHARS = 16
SECRET_HINT = (
    f"put {MIN_SECRET_CHARS} characters or more (openssl rand -hex 32) into a file, and set webhook_secret_file to its"
    " path; or set RTC_SIP_WEBHOOK_SECRET"
)
_LISTEN = re.compile(r"(udp|tcp|tls):(\[[0-9a-fA-F:.]+\]|[0-9]+(?:\.[0-9]+){3})(?::([0-9]{1,5}))?")
_TARGET = re.compile(r"(udp|tcp|tls):(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]{1,253})(?::([0-9]{1,5}))?")
_EXTENSION_HEADER = re.compile(r"X-[A-Za-z0-9-]{1,62}", re.IGNORECASE)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def _port_range(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    first, dash, last = value.partition("-")
    if not (dash and first.strip().isdecimal() and last.strip().isdecimal()):
        raise ValueError("write it as 20000-20999")
    return int(first), int(last)


def _check_port_range(value: tuple[int, int]) -> tuple[int, int]:
    first, last = value
    if first == last:
        raise ValueError("a call needs two ports")
    if not 1024 <= first < last <= 65535:
        raise ValueError("ports go from 1024 to 65535, the lower one first")
    return value


PortRange = Annotated[tuple[int, int], BeforeValidator(_port_range), AfterValidator(_check_port_range)]
"""First and last UDP port; written ``20000-20999``."""


def _codec(value: Any) -> Any:
    return next((codec for codec in CODECS if isinstance(value, str) and value.lower() == codec.lower()), value)


def _ip(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    return ipaddress.ip_address(address.removeprefix("[").removesuffix("]"))


def _network_meant(address: str) -> str:
    """What to write instead of an address with the length of its network: ``192.0.2.7/24``; else empty."""
    try:
        return f"the network is {ipaddress.ip_network(address, strict=False)}"
    except ValueError:
        return ""


def parse_listen(text: str) -> tuple[str, str, int | None]:
    """Name of the transport, address without brackets, and port. Raises: ValueError."""
    match = _LISTEN.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no place to listen on; write it as udp:0.0.0.0:5060 or tls:[::]:5061")
    port = None if match[3] is None else int(match[3])
    if port is not None and port > 65535:
        raise ValueError(f"{port} is no port")
    return match[1], str(_ip(match[2])), port


def parse_target(text: str) -> tuple[str, str, int | None]:
    """Name of the transport, host, and port. The host is without brackets, and without the dot that may end a name: no
    certificate has it.

    Raises: ValueError.
    """
    match = _TARGET.fullmatch(text)
    if match is None:
        raise ValueError("write it as udp:sip.example.com, tcp:192.0.2.1:5060 or tls:[2001:db8::1]:5061")
    host = str(_ip(match[2])) if match[2].startswith("[") else match[2].removesuffix(".")
    if not host:
        raise ValueError(f"{text!r} names no host")
    port = None if match[3] is None else int(match[3])
    if port is not None and not 1 <= port <= 65535:
        raise ValueError(f"{port} is no port")
    return match[1], host, port


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class SipNumberSettings(_Table):
    """``[[sip.trunks.numbers]]``: what a caller of these numbers gets. The first rule that fits counts."""

    pattern: str = Field(min_length=1, max_length=128)
    """``+15550100``, ``+1555*``, or between slashes a regular expression without groups: ``/[+]?1555\\d{4}/``."""
    persona: str | None = None
    """As long as the engine takes, which is looked at when it is there."""
    voice: str | None = Field(default=None, min_length=1, max_length=256)
    max_calls: int | None = Field(default=None, ge=1)
    allow_callers: tuple[str, ...] = Field(default=(), max_length=1000)
    """Patterns of who may call; ``anonymous`` for callers that withhold their number. Empty: everybody."""


class SipTrunkSettings(_Table):
    """``[[sip.trunks]]``: another SIP server that sends calls here, takes calls from here, or both."""

    name: str = Field(pattern=r"^[A-Za-z0-9._-]{1,40}$")
    addresses: tuple[str, ...] = Field(default=(), max_length=256)
    """Addresses and networks whose requests are this trunk's, without a password."""
    username: str | None = Field(default=None, min_length=1, max_length=128)
    """Of requests from elsewhere, which must prove that they know the password (digest)."""
    password: SecretStr | None = None
    password_env: str | None = None
    password_file: Path | None = None
    target: str | None = None
    """Where calls to this trunk go: ``udp:sip.example.com``, ``tls:192.0.2.1:5061``."""
    target_username: str | None = Field(default=None, min_length=1, max_length=128)
    """What we answer when the target asks for a digest."""
    target_password: SecretStr | None = None
    target_password_env: str | None = None
    target_password_file: Path | None = None
    tls_ca: Path | None = None
    """Who vouches for the target, where that is not who vouches for the others."""
    tls_cert: Path | None = None
    """Shown to the target, if it asks, in place of the certificate that callers see."""
    tls_key: Path | None = None
    caller_id: str | None = Field(default=None, pattern=r"^[A-Za-z0-9+*#._-]{1,64}$")
    """The number that we call from, where the application names none."""
    may_dial: tuple[str, ...] = Field(default=(), max_length=1000)
    """Patterns of numbers that ``POST /v1/calls`` may dial here. Empty: none."""
    codecs: tuple[Annotated[Codec, BeforeValidator(_codec)], ...] = Field(default=CODECS, min_length=1)
    """What may be spoken; in our own offers, in this order."""
    srtp: Literal["never", "accept", "require"] = "accept"
    max_calls: int | None = Field(default=None, ge=1)
    refer: Literal["refuse", "accept"] = "refuse"
    """Whether the other end may transfer a call (REFER)."""
    headers: tuple[str, ...] = Field(default=(), max_length=16)
    """``X-`` headers of the INVITE that become metadata of the call."""
    trust_identity: bool = False
    """Believe the P-Asserted-Identity of this trunk (RFC 3325)."""
    numbers: tuple[SipNumberSettings, ...] = Field(default=(), max_length=10_000)

    @property
    def has_own_tls(self) -> bool:
        return self.tls_ca is not None or self.tls_cert is not None

    @field_validator("addresses")
    @classmethod
    def _networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for text in value:
            try:
                ipaddress.ip_network(text)
            except ValueError as error:
                raise ValueError(f"{text!r} is no address or network: {_network_meant(text) or error}") from None
        return value

    @field_validator("target")
    @classmethod
    def _host_of_target(cls, value: str | None) -> str | None:
        if value is not None:
            parse_target(value)
        return value

    @field_validator("codecs", "headers")
    @classmethod
    def _each_once(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if len({name.lower() for name in value}) != len(value):
            raise ValueError("something is named twice")
        return value

    @field_validator("headers")
    @classmethod
    def _extension_headers(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if not _EXTENSION_HEADER.fullmatch(name):
                raise ValueError(f"{name!r} is no header of an application; their names begin with X-")
        return value

    @model_validator(mode="after")
    def _whole_trunk(self) -> Self:
        for name in ("", "target_"):
            kinds = (f"{name}password", f"{name}password_env", f"{name}password_file")
            given = [kind for kind in kinds if getattr(self, kind) is not None]
            user = getattr(self, f"{name}username")
            if len(given) > 1:
                raise ValueError(f"{given[0]} and {given[1]} are both set; keep one of them")
            if (user is None) != (not given):
                raise ValueError(f"{name}username and {name}password go together")
            variable = getattr(self, kinds[1])
            if variable is not None and not _VARIABLE.fullmatch(variable):
                raise ValueError(f"{kinds[1]} is no name of an environment variable")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ValueError("tls_cert and tls_key go together")
        if self.has_own_tls and (self.target is None or not self.target.startswith("tls:")):
            raise ValueError("tls_ca and tls_cert are for a target such as tls:sip.example.com")
        if self.target is None:
            needless = [field for field in ("target_username", "may_dial") if getattr(self, field)]
            if needless:
                raise ValueError(f"{needless[0]} needs a target")
            if not self.addresses and self.username is None:
                raise ValueError("no call can come or go: set addresses, username and password, or target")
        return self


class SipSettings(Section):
    """Phone calls. Off, unless there is something to listen on."""

    model_config = SettingsConfigDict(env_prefix="RTC_SIP_")
    flag_prefix: ClassVar[str] = "sip_"
    secrets: ClassVar[frozenset[str]] = frozenset({"webhook_secret", "password", "target_password"})
    tables: ClassVar[frozenset[str]] = frozenset({"trunks"})
    with_flag: ClassVar[frozenset[str] | None] = frozenset({"listen", "advertise_ip", "rtp_ports", "max_calls"})

    listen: CommaSeparated = ()
    """``udp:0.0.0.0:5060``, ``tcp:0.0.0.0:5060``, ``tls:[::]:5061``."""
    advertise_ip: str | None = None
    """Address of this machine as trunks see it, for servers behind 1:1 NAT."""
    rtp_ports: PortRange = (20_000, 20_999)
    """UDP ports for audio; a call has two of them."""
    realm: str = Field(default="rtc_server", pattern=r'^[^"\\\x00-\x1f\x7f]{1,64}$')
    """What a digest is asked for in the name of."""
    digest_algorithms: Annotated[CommaSeparated, Field(min_length=1)] = ("MD5",)
    """What a digest may be made with, best first: ``SHA-256``, ``MD5``. Many phones give up where SHA-256 is named at
    all, or look at what stands first alone; over TLS nobody can overhear an MD5 digest."""
    tls_cert: Path | None = None
    tls_key: Path | None = None
    tls_ca: Path | None = None
    """Who vouches for the servers that we call over TLS. None: whom the system trusts."""
    tls_verify_clients: bool = False
    """Take TLS connections only from peers with a certificate that `tls_ca` vouches for."""
    max_calls: int | None = Field(default=None, ge=1)
    """On all trunks together; the engine's slots are the limit in any case."""
    ring_s: float = Field(default=60.0, ge=1, le=600)
    """How long a call of ours rings before we give it up."""
    session_expires_s: int = Field(default=1800, ge=90, le=86_400)
    """After which the end of a call is noticed that nobody has told us of (RFC 4028)."""
    unknown_callers: Literal["drop", "challenge", "forbid"] | None = None
    """What is done with INVITEs of no trunk. None: ``challenge`` where a trunk has a username, else ``drop``."""
    webhook_url: str | None = None
    """Asked about each incoming call: accept or reject."""
    webhook_secret: SecretStr | None = None
    """Signs what the webhook is asked."""
    webhook_secret_file: Path | None = None
    webhook_timeout_s: float = Field(default=MAX_WEBHOOK_S, gt=0, le=MAX_WEBHOOK_S)
    webhook_on_failure: Literal["accept", "reject"] = "reject"
    """What becomes of a call when the webhook gives no good answer in time."""
    trunks: tuple[SipTrunkSettings, ...] = Field(default=(), max_length=256)

    @property
    def unknown_policy(self) -> Literal["drop", "challenge", "forbid"]:
        if self.unknown_callers is not None:
            return self.unknown_callers
        return "challenge" if any(trunk.username is not None for trunk in self.trunks) else "drop"

    @field_validator("listen")
    @classmethod
    def _places(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for text in value:
            parse_listen(text)
        if len(set(value)) != len(value):
            raise ValueError("something is named twice")
        return value

    @field_validator("digest_algorithms")
    @classmethod
    def _known_algorithms(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if name not in DIGEST_ALGORITHMS:
                raise ValueError(f"{name!r} is unknown; there are {', '.join(DIGEST_ALGORITHMS)}")
        return value

    @field_validator("advertise_ip")
    @classmethod
    def _address(cls, value: str | None) -> str | None:
        if value is None:
            return None
        address = ipaddress.ip_address(value)
        if address.is_unspecified or address.is_multicast:
            raise ValueError(f"{address} is no address of a machine")
        return str(address)

    @field_validator("webhook_url")
    @classmethod
    def _url(cls, value: str | None) -> str | None:
        if value is None:
            return None
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
            raise ValueError("write it as https://example.org/calls")
        try:
            parts.hostname.encode("idna")
        except UnicodeError:
            raise ValueError("its host is no name: a label is empty, or over 63 characters") from None
        return value

    @field_validator("trunks", mode="before")
    @classmethod
    def _from_the_file(cls, value: Any) -> Any:
        if isinstance(value, str):
            raise ValueError("trunks are tables of the settings file")
        return value


def check_sip(sip: SipSettings) -> None:
    """What settings have to do with each other. Raises: ConfigError."""
    if (sip.tls_cert is None) != (sip.tls_key is None):
        raise ConfigError("[sip] only one of tls_cert and tls_key is set", hint="give both")
    if sip.tls_cert is None and any(place.startswith("tls:") for place in sip.listen):
        raise ConfigError("[sip] listen has tls, and there is no certificate", hint="set tls_cert and tls_key")
    _check_pem_files("[sip]", sip)
    if sip.tls_verify_clients and sip.tls_ca is None:
        raise ConfigError("[sip] tls_verify_clients is set without tls_ca", hint="say who vouches for the clients")
    if sip.webhook_secret is not None and sip.webhook_secret_file is not None:
        raise ConfigError("[sip] webhook_secret and webhook_secret_file are both set", hint="keep one of them")
    if sip.webhook_url is not None and sip.webhook_secret is None and sip.webhook_secret_file is None:
        raise ConfigError("[sip] webhook_url is set without a secret", hint=SECRET_HINT)
    _check_trunks(sip)


def _check_pem_files(place: str, settings: SipSettings | SipTrunkSettings) -> None:
    for name in ("tls_cert", "tls_key", "tls_ca"):
        path: Path | None = getattr(settings, name)
        try:
            if path is not None:
                path.open("rb").close()
        except OSError as error:
            raise ConfigError(
                f"{place} {name}: cannot read {path}: {error.strerror}",
                hint="give the PEM files of certificate, key and authority, which the user of the server may read",
            ) from None


def _check_trunks(sip: SipSettings) -> None:
    for field in ("name", "username"):
        seen: dict[str, str] = {}
        for trunk in sip.trunks:
            value = getattr(trunk, field)
            if value in seen:
                raise ConfigError(f"[sip] trunks[{trunk.name}].{field}={value!r}: trunk {seen[value]!r} has it too")
            if value is not None:
                seen[value] = trunk.name
    for trunk in sip.trunks:
        _check_pem_files(f"[sip] trunks[{trunk.name}]", trunk)
        if trunk.username is not None and not trunk.addresses and sip.unknown_policy != "challenge":
            raise ConfigError(
                f"[sip] trunks[{trunk.name}].username: nobody is asked for a digest,"
                f" since unknown_callers is {sip.unknown_policy}",
                hint="set unknown_callers to challenge, or give the trunk addresses",
            )
    _check_tls_targets(sip)
    networks = [(ipaddress.ip_network(text), trunk.name) for trunk in sip.trunks for text in trunk.addresses]
    # In this order, a network that overlaps another one overlaps its neighbour.
    networks.sort(key=lambda item: (item[0].version, int(item[0].network_address), item[0].prefixlen))
    for (network, name), (follower, owner) in pairwise(networks):
        if network.version == follower.version and int(follower.network_address) <= int(network.broadcast_address):
            raise ConfigError(f"[sip] trunks[{owner}].addresses: {follower} overlaps {network} of trunk {name!r}")


def _check_tls_targets(sip: SipSettings) -> None:
    """A host is called with one certificate and one authority, whichever port and trunk it is for."""
    seen: dict[str, SipTrunkSettings] = {}
    for trunk in sip.trunks:
        if trunk.target is None or not trunk.target.startswith("tls:"):
            continue
        _, host, _ = parse_target(trunk.target)
        other = seen.setdefault(host.lower(), trunk)
        for name in ("tls_ca", "tls_cert", "tls_key"):
            ours, theirs = (getattr(each, name) or getattr(sip, name) for each in (trunk, other))
            if ours != theirs:
                raise ConfigError(
                    f"[sip] trunks[{trunk.name}].{name}: it is {ours or 'not set'}, and trunk {other.name!r}, which"
                    f" calls {host} too, has {theirs or 'none'}",
                    hint=f"give both the same {name}, or call the host by another of its names",
                )
