#!/usr/bin/env python3
"""Fill turnserver.conf from the environment and print it: turn/fill.py > /etc/turnserver.conf

Needs nothing but Python. It holds no secret: see rotate.py for that.

  TURN_REALM            realm, your domain                                        (needed)
  TURN_MEDIA_IP         addresses of the media server, comma-separated: where relays may lead. Behind 1:1 NAT name
                        both, the public and the inner one                        (needed; else RTC_ADVERTISE_IP)
  TURN_IP               addresses to listen and to relay on                       (all of this machine)
  TURN_EXTERNAL_IP      public address, where 1:1 NAT hides the one TURN_IP
  TURN_PORT             UDP and TCP                                               (3478)
  TURN_TLS_PORT         TLS                                                       (5349)
  TURN_CERT, TURN_KEY   PEM files; without them there is no TLS
  TURN_MIN_PORT, TURN_MAX_PORT  UDP ports of the relays                           (49160, 49999)
  TURN_USER_QUOTA       allocations of one caller                                 (12)
  TURN_TOTAL_QUOTA      allocations of all                                        (600)
  TURN_MAX_BYTES_PER_S  of one allocation, each way                               (64000)
  TURN_DB               coturn's database, which holds the secrets                (/var/lib/turn/turndb)
  TURN_USER             user to become after the start; empty: stay               ()
"""

from __future__ import annotations

import ipaddress
import os
import re
import string
import sys
from collections.abc import Mapping
from pathlib import Path

TEMPLATE = Path(__file__).with_name("turnserver.conf")


class Wrong(Exception):
    """A variable that cannot be used."""


def fill(environment: Mapping[str, str], template: str) -> str:
    """The configuration. Raises: Wrong."""
    values = Environment(environment)
    media = values.addresses("TURN_MEDIA_IP") or values.addresses("RTC_ADVERTISE_IP")
    if not media:
        raise Wrong("TURN_MEDIA_IP is not set: give the addresses of the media server")
    low, high = values.number("TURN_MIN_PORT", 49160, 65535), values.number("TURN_MAX_PORT", 49999, 65535)
    total = values.number("TURN_TOTAL_QUOTA", 600, 1_000_000)
    if high - low + 1 < total:
        raise Wrong(f"TURN_MIN_PORT..TURN_MAX_PORT are {high - low + 1} ports, fewer than TURN_TOTAL_QUOTA={total}")
    return string.Template(template).substitute(
        realm=values.word("TURN_REALM"),
        userdb=values.word("TURN_DB", "/var/lib/turn/turndb"),
        allowed_peers="\n".join(f"allowed-peer-ip={address}" for address in media),
        user_quota=values.number("TURN_USER_QUOTA", 12, 1_000_000),
        total_quota=total,
        max_bytes_per_s=values.number("TURN_MAX_BYTES_PER_S", 64_000, 1_000_000_000),
        addresses=_addresses(values),
        port=values.number("TURN_PORT", 3478, 65535),
        tls_port=values.number("TURN_TLS_PORT", 5349, 65535),
        min_port=low,
        max_port=high,
        tls=_tls(values),
        process=_process(values),
    )


def _addresses(values: Environment) -> str:
    own, outside = values.addresses("TURN_IP"), values.addresses("TURN_EXTERNAL_IP")
    if outside and (len(own), len(outside)) != (1, 1):
        raise Wrong("TURN_EXTERNAL_IP stands for one address: set TURN_IP to the one that it hides")
    lines = [line for address in own for line in (f"listening-ip={address}", f"relay-ip={address}")]
    lines += [f"external-ip={outside[0]}/{own[0]}"] if outside else []
    return "\n".join(lines) or "# all of this machine"


def _tls(values: Environment) -> str:
    cert, key = values.word("TURN_CERT", ""), values.word("TURN_KEY", "")
    if bool(cert) != bool(key):
        raise Wrong("only one of TURN_CERT and TURN_KEY is set: give both")
    if not cert:
        return "no-tls"
    return f"cert={cert}\npkey={key}\nno-tlsv1\nno-tlsv1_1"


def _process(values: Environment) -> str:
    user = values.word("TURN_USER", "")
    return f"proc-user={user}\nproc-group={user}" if user else "# runs as who starts it"


class Environment:
    """Reads variables; none of their values can add a line of its own to the file."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def word(self, name: str, default: str | None = None) -> str:
        value = self._environment.get(name, "").strip() or default
        if value is None:
            raise Wrong(f"{name} is not set")
        if not re.fullmatch(r"[\w./@:+-]*", value, re.ASCII):
            raise Wrong(f"{name}={value!r} has characters that have no place there")
        return value

    def number(self, name: str, default: int, most: int) -> int:
        value = self.word(name, str(default))
        if not value.isdigit() or not 1 <= int(value) <= most:
            raise Wrong(f"{name}={value} must be 1..{most}")
        return int(value)

    def addresses(self, name: str) -> list[str]:
        found = []
        for text in filter(None, map(str.strip, self._environment.get(name, "").split(","))):
            try:
                found.append(str(ipaddress.ip_address(text)))
            except ValueError:
                raise Wrong(f"{name}={text!r} is no IP address") from None
        return found


if __name__ == "__main__":
    try:
        sys.stdout.write(fill(os.environ, TEMPLATE.read_text(encoding="utf-8")))
    except Wrong as error:
        sys.exit(f"fill.py: {error}")
