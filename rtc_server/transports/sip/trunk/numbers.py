"""Which rule a called number falls under, and who may call it."""

from __future__ import annotations

from dataclasses import dataclass

from rtc_server.transports.sip.trunk.patterns import Pattern

ANONYMOUS = "anonymous"
"""Among the allowed callers: those that withhold their number, or have none."""


@dataclass(frozen=True, slots=True)
class NumberRule:
    """What a caller of these numbers gets."""

    pattern: Pattern
    persona: str | None = None
    voice: str | None = None
    max_calls: int | None = None
    """At once, on all numbers of the rule together; None: no limit of its own."""
    allow_callers: tuple[Pattern, ...] = ()
    """Empty: everybody."""

    def admits(self, caller: str | None) -> bool:
        """Whether this number may call. None: it is withheld."""
        return not self.allow_callers or fits_one(self.allow_callers, ANONYMOUS if caller is None else caller)


def fits_one(patterns: tuple[Pattern, ...], number: str) -> bool:
    return any(pattern.matches(number) for pattern in patterns)
