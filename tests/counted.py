"""What the server's metrics count during a test."""

from __future__ import annotations

from prometheus_client import Counter


class Counted:
    """What a counter with the label ``reason`` has counted since this was made, by reason."""

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        self._before = self._values()

    def __getitem__(self, reason: str) -> int:
        return int(self._values().get(reason, 0) - self._before.get(reason, 0))

    def _values(self) -> dict[str, float]:
        samples = (sample for metric in self._counter.collect() for sample in metric.samples)
        return {sample.labels["reason"]: sample.value for sample in samples if sample.name.endswith("_total")}
