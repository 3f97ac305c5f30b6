"""What an application may ask to be called, checked before it costs anything."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from rtc_server.errors import BadRequest, InvalidNumber, NumberNotAllowed
from rtc_server.transports.sip.call.outbound import Dialled
from rtc_server.transports.sip.network.target import Target
from rtc_server.transports.sip.trunk.callers import number_of
from rtc_server.transports.sip.trunk.trunks import Trunk, Trunks

MAX_HEADERS = 16
MAX_HEADER_CHARS = 256

_NAME = re.compile(r"\+?[0-9A-Za-z*#._~-]{1,64}")
_CODE = re.compile(r"[*#][0-9*#]+")
"""What phones dial to ask a PBX for something, as ``*97``: only there a star is itself, and no part of a pattern."""
_HEADER = re.compile(r"X-[0-9A-Za-z-]{1,60}", re.IGNORECASE)
_ANONYMOUS = "sip:anonymous@anonymous.invalid"


@dataclass(frozen=True, slots=True)
class Wish:
    """What `UserAgent.dial` is asked for."""

    to: str
    """A number, or a SIP URI of which the user part counts."""
    from_: str | None
    trunk: str | None
    metadata: Mapping[str, str]
    """Those named X-... become headers of the INVITE."""


@dataclass(frozen=True, slots=True)
class Plan:
    trunk: Trunk
    callee: str
    caller: str | None
    dialled: Dialled


def plan(wish: Wish, trunks: Trunks) -> Plan:
    """Raises: BadRequest, InvalidNumber, NumberNotAllowed."""
    trunk, target = _trunk_for(wish.trunk, trunks)
    callee = _user(number_of(wish.to) or wish.to)
    if not trunk.may_dial(callee):
        raise NumberNotAllowed(
            f"{callee!r} may not be called over the trunk {trunk.name!r}", hint="see `may_dial` in its settings"
        )
    caller = trunk.caller_id if wish.from_ is None else number_of(wish.from_) or wish.from_
    host = f"[{target.host}]" if ":" in target.host else target.host
    from_uri = _ANONYMOUS if caller is None else f"sip:{quote(_user(caller), safe='+*._~-')}@{host}"
    port = "" if target.port is None else f":{target.port}"
    transport = "" if target.transport == "udp" else f";transport={target.transport}"
    uri = f"sip:{quote(callee, safe='+*._~-')}@{host}{port}{transport}"
    return Plan(trunk, callee, caller, Dialled(uri, from_uri, target, _headers(wish.metadata)))


def _trunk_for(name: str | None, trunks: Trunks) -> tuple[Trunk, Target]:
    callable_ = [trunk for trunk in trunks if trunk.target is not None]
    known = ", ".join(trunk.name for trunk in callable_)
    if not callable_:
        raise BadRequest(
            "no call can be made: no trunk of this server has a `target`",
            hint='set target = "udp:HOST:5060" and may_dial in one of its [[sip.trunks]]',
        )
    if name is None and len(callable_) != 1:
        raise BadRequest("`trunk` is missing", hint=f"one of: {known}")
    trunk = callable_[0] if name is None else trunks.named(name)
    if trunk is None or trunk.target is None:
        raise BadRequest(f"there is no trunk {str(name)[:64]!r} to call over", hint=f"there are: {known}")
    return trunk, trunk.target


def _user(text: str) -> str:
    if _NAME.fullmatch(text) is None:
        raise BadRequest(f"{text[:64]!r} is no number", hint="for example +15550100")
    if ("*" in text or "#" in text) and _CODE.fullmatch(text) is None:
        raise InvalidNumber(
            f"{text!r} is a pattern, not a number",
            hint="for example +15550100; * and # are dialled in codes that begin with one of them, such as *97",
        )
    return text


def _headers(metadata: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    chosen = [(name, value) for name, value in metadata.items() if _HEADER.fullmatch(name)]
    if len(chosen) > MAX_HEADERS:
        raise BadRequest(f"{len(chosen)} headers", hint=f"at most {MAX_HEADERS}")
    for name, value in chosen:
        if len(value) > MAX_HEADER_CHARS or not value.isprintable():
            raise BadRequest(
                f"the value of {name} is no header", hint=f"at most {MAX_HEADER_CHARS} characters, one line"
            )
    return tuple(chosen)
