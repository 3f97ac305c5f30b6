"""Log lines about what others send: some of each source, and never one for each datagram of a flood."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from rtc_server.log import Logger
from rtc_server.transports.ratelimit import RateLimit

MAX_SOURCES = 1024
"""Remembered at once; the one not heard of for longest is forgotten."""


class SparseLog:
    """Writes at most so many lines a minute, of one source and of all; the next one says how many were left out.

    Args:
        of_each: lines a minute of one source, and at once.
        of_all: the same of all sources together, since there may be very many.
    """

    def __init__(self, log: Logger, of_each: int, of_all: int) -> None:
        self._log = log
        self._of_each = of_each
        self._all = _per_minute(of_all)
        self._sources: OrderedDict[str, RateLimit] = OrderedDict()
        self._left_out = 0

    def info(self, source: str, event: str, now: float, **fields: Any) -> None:
        """`source`: who has caused it; it is not written. `now`: monotonic seconds."""
        if not (self._of(source).allow(now) and self._all.allow(now)):
            self._left_out += 1
            return
        left_out, self._left_out = self._left_out, 0
        self._log.info(event, **fields, **({"left_out": left_out} if left_out else {}))

    def _of(self, source: str) -> RateLimit:
        limit = self._sources.get(source)
        if limit is None:
            limit = self._sources[source] = _per_minute(self._of_each)
            if len(self._sources) > MAX_SOURCES:
                self._sources.popitem(last=False)
        else:
            self._sources.move_to_end(source)
        return limit


def _per_minute(lines: int) -> RateLimit:
    return RateLimit(lines / 60, lines)
