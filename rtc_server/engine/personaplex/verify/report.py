"""What a comparison found: groups of values with one limit each. Plain data, without torch."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Group:
    """One line of the report."""

    name: str
    limit: float | None = None
    """Of the absolute error. None: there are only tokens, which must be equal."""
    max_error: float = 0.0
    """NaN once anything was not finite."""
    values: int = 0
    tokens: int = 0
    tokens_wrong: int = 0
    first_wrong: str = ""
    """Where the first wrong token stands, and what is there instead."""
    problems: list[str] = field(default_factory=list)
    """Whatever else does not fit."""
    skipped: str = ""
    """Why it could not be compared; such a group counts neither way."""
    binding: bool = True
    """False: errors and wrong tokens are told, and nothing is asked but finite values."""

    @property
    def ok(self) -> bool:
        if self.problems or math.isnan(self.max_error):
            return False
        within = self.limit is None or self.max_error <= self.limit
        return not self.binding or (within and not self.tokens_wrong)

    def add_error(self, error: float, values: int) -> None:
        self.values += values
        if math.isnan(error) or error > self.max_error:
            self.max_error = error

    def add_tokens(self, tokens: int, wrong: int, first: str) -> None:
        self.tokens += tokens
        if wrong and not self.tokens_wrong:
            self.first_wrong = first
        self.tokens_wrong += wrong

    def to_json(self) -> dict[str, Any]:
        """NaN becomes None, which JSON has."""
        if self.skipped:
            return {"group": self.name, "skipped": self.skipped, "ok": None}
        line: dict[str, Any] = {
            "group": self.name,
            "max_error": self.max_error if math.isfinite(self.max_error) else None,
            "limit": self.limit if self.binding else None,
            "tokens": self.tokens,
            "tokens_wrong": self.tokens_wrong,
            "ok": self.ok,
        }
        if self.first_wrong:
            line["first_wrong"] = self.first_wrong
        if self.problems:
            line["problems"] = self.problems
        return line


@dataclass(slots=True)
class Report:
    """Groups in the order of their first value."""

    subject: dict[str, str] = field(default_factory=dict)
    """What was compared: device, dtype, torch."""
    notes: list[str] = field(default_factory=list)
    """What a person should know beside the groups."""
    binding: bool = True
    """Of the groups that are made."""
    _groups: dict[str, Group] = field(default_factory=dict)

    @property
    def groups(self) -> tuple[Group, ...]:
        return tuple(self._groups.values())

    @property
    def compared(self) -> tuple[Group, ...]:
        return tuple(group for group in self.groups if not group.skipped)

    @property
    def missed(self) -> tuple[Group, ...]:
        return tuple(group for group in self.compared if not group.ok)

    @property
    def ok(self) -> bool:
        """Something was compared, and all of it holds."""
        return bool(self.compared) and not self.missed

    def group(self, name: str, limit: float | None = None) -> Group:
        """The group of this name, made with this limit if it is new."""
        return self._groups.setdefault(name, Group(name, limit, binding=self.binding))

    def skip(self, name: str, why: str) -> None:
        self._groups[name] = Group(name, skipped=why)

    def to_json(self) -> dict[str, Any]:
        """The summary."""
        return {
            **self.subject,
            "groups": len(self.compared),
            "missed": [group.name for group in self.missed],
            "skipped": [group.name for group in self.groups if group.skipped],
            "notes": self.notes,
            "ok": self.ok,
        }
