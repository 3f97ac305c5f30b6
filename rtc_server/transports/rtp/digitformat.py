"""How the digits of a call are written as packets (RFC 4733)."""

from __future__ import annotations

from typing import Protocol


class DigitFormat(Protocol):
    """What was agreed on about telephone events."""

    @property
    def payload_type(self) -> int: ...

    @property
    def clock_hz(self) -> int:
        """Of their durations; that of the codec, or 8000."""
