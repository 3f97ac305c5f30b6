"""Who may prefill next, and for how long, so that no neighbour's frame is late. Sans-IO.

With live neighbours the time up to the next tick is available, less a margin; without any, the whole period. The next
tick comes before its edge by as much as the last ones did: when every frame is in. Prompts
take turns, and each is asked once a period: a stepper that returns early has nothing to do at the moment.
"""

from __future__ import annotations

from collections.abc import Sequence

MIN_BUDGET_S = 0.002
"""Less is not worth a call."""
MIN_MARGIN_S = 0.005
STEP_SHARE = 0.25
"""Of the recent worst step: a machine whose steps take long is also late by more."""
DECAY = 0.95
"""A tick; a worst case is half forgotten after a second."""


class SpareTime:
    """The time between a tick and the next edge."""

    def __init__(self) -> None:
        self._worst_step_s = 0.0
        self._worst_overrun_s = 0.0
        self._lead_s = 0.0
        self._last_index = -1
        self._asked: set[int] = set()
        self._asked_in_period = -1

    @property
    def margin_s(self) -> float:
        """Kept free before an edge: the spread of the step, and what prefill lately took beyond its budget."""
        return max(MIN_MARGIN_S, STEP_SHARE * self._worst_step_s) + self._worst_overrun_s

    def ticked(self, lead_s: float) -> None:
        """A tick began `lead_s` before its edge."""
        self._lead_s = max(lead_s, DECAY * self._lead_s)

    def stepped(self, step_s: float) -> None:
        self._worst_step_s = max(step_s, DECAY * self._worst_step_s)
        self._worst_overrun_s *= DECAY

    def prefilled(self, budget_s: float, took_s: float) -> None:
        self._worst_overrun_s = max(self._worst_overrun_s, took_s - budget_s)

    def next(
        self, waiting: Sequence[int], due_s: float, now: float, period: int, *, neighbours: bool
    ) -> tuple[int | None, float]:
        """(slot, budget in seconds) of the next call to `prefill`, or (None, 0) when there is no time for one.

        `waiting` are the slots in prefill, `period` is the number of the next edge, which lies at `due_s`.
        """
        if period != self._asked_in_period:
            self._asked.clear()
            self._asked_in_period = period
        budget_s = due_s - now - (self.margin_s + self._lead_s if neighbours else 0.0)
        if budget_s < MIN_BUDGET_S:
            return None, 0.0
        candidates = [index for index in waiting if index not in self._asked]
        if not candidates:
            return None, 0.0
        return min(candidates, key=lambda index: (index <= self._last_index, index)), budget_s

    def asked(self, index: int) -> None:
        self._last_index = index
        self._asked.add(index)
