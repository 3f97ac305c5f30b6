"""Metrics of the engine process, added to those of the server, so that one address shows them all.

Every metric of `rtc_server.metrics` whose name begins with ``engine_`` is forwarded. What travels are totals: a
snapshot that is late or lost costs nothing, the next one has everything.
"""

from __future__ import annotations

from typing import TypeVar

from prometheus_client import Counter, Gauge, Histogram

from rtc_server import metrics

Samples = dict[str, list[tuple[str, dict[str, str], float]]]
"""By the metric's name in `rtc_server.metrics`: (sample, labels, total)."""

_Metric = TypeVar("_Metric", Counter, Gauge, Histogram)

_FORWARDED: dict[str, Counter | Gauge | Histogram] = {
    name: metric
    for name, metric in vars(metrics).items()
    if isinstance(metric, Counter | Gauge | Histogram)
    if all(family.name.startswith("engine_") for family in metric.describe())
}


def snapshot() -> Samples:
    """What this process counted so far."""
    return {
        name: [(sample.name, dict(sample.labels), sample.value) for sample in family.samples]
        for name, metric in _FORWARDED.items()
        for family in metric.collect()
    }


class ForwardedMetrics:
    """The totals of one engine process, as far as this process's metrics have them already."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}

    def update(self, samples: Samples) -> None:
        """Add what is new in a snapshot. Raises: ValueError for labels that a metric does not have."""
        for name, own in samples.items():
            metric = _FORWARDED.get(name)
            below = 0.0
            for sample, labels, total in own:
                new = self._new(sample, labels, total)
                match metric:
                    case Gauge():
                        _labelled(metric, labels).inc(new)
                    case Counter() if sample.endswith("_total"):
                        _labelled(metric, labels).inc(new)
                    case Histogram():
                        below = _observe(metric, sample, labels, new, below)

    def end(self) -> None:
        """The process is gone, and what it was at, too. What it counted stays."""
        for gauge in (metric for metric in _FORWARDED.values() if isinstance(metric, Gauge)):
            names = {family.name for family in gauge.describe()}
            for name, labels in [key for key in self._known if key[0] in names]:
                _labelled(gauge, dict(labels)).dec(self._known.pop((name, labels)))

    def _new(self, sample: str, labels: dict[str, str], total: float) -> float:
        key = sample, frozenset(labels.items())
        new = total - self._known.get(key, 0.0)
        self._known[key] = total
        return new


def _labelled(metric: _Metric, labels: dict[str, str]) -> _Metric:
    return metric.labels(**labels) if labels else metric


def _observe(histogram: Histogram, sample: str, labels: dict[str, str], new: float, below: float) -> float:
    """Add `new` observations of one sample; `below` of them are in lower buckets. Returns `below` of the next bucket.

    A histogram takes single values only. To add many with their exact sum, its own cells have to be reached for.
    """
    own = _labelled(histogram, {name: value for name, value in labels.items() if name != "le"})
    if sample.endswith("_sum"):
        own._sum.inc(new)
    elif sample.endswith("_bucket"):
        index = own._upper_bounds.index(float(labels["le"]))
        own._buckets[index].inc(new - (below if index else 0.0))
        return new
    return 0.0
