"""What ``rtc-server check`` says of one thing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """`ok` None: not there, but not needed either; or to be looked at, though the server can do its work."""

    subject: str
    ok: bool | None
    found: str
    advice: str = ""
