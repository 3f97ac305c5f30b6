"""The figures of one run, out of what its calls recorded. Sans-IO."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from rtc_server.bench import analysis
from rtc_server.bench.analysis import Burst, Decode, Echo, ReceivedPacket
from rtc_server.bench.procstat import Usage
from rtc_server.bench.signals import PACKET_S

Figures = dict[str, float | int | str | bool | None]

MAX_LISTENED_CALLS = 8
"""Echoes are decoded and searched in so many calls at most; packets are counted in all."""
EDGE_S = 10.0
"""The first and the last so many seconds are compared, to see what a long call does."""


@dataclass(slots=True)
class Setup:
    """When the stages of a call's set-up were reached."""

    posted_s: float = 0.0
    answered_s: float = 0.0
    dtls_s: float | None = None
    """None where there is no DTLS."""
    first_packet_s: float = 0.0


@dataclass(frozen=True, slots=True)
class CallRecord:
    """What one call left behind."""

    packets: Sequence[ReceivedPacket]
    """From its beginning to its end, in order of arrival."""
    spoken: Sequence[tuple[int, float]]
    """(burst number, capture time) of the bursts whose echo is looked for."""
    dropped: int = 0
    """Uplink packets that the impairment took."""


@dataclass(frozen=True, slots=True)
class Window:
    """The stretch of time that is measured, and what the processes used in it."""

    begin_s: float
    end_s: float
    server_before: Usage | None = None
    server_after: Usage | None = None
    client_cpu_s: float = 0.0
    send_lateness_ms: Sequence[float] = field(default=())

    @property
    def length_s(self) -> float:
        return self.end_s - self.begin_s


def setup_figures(setups: Sequence[Setup]) -> Figures:
    """Medians, each from the moment the offer was posted; `connect` ends with the first agent packet."""
    answer_ms = [(setup.answered_s - setup.posted_s) * 1e3 for setup in setups]
    dtls_ms = [(setup.dtls_s - setup.posted_s) * 1e3 for setup in setups if setup.dtls_s is not None]
    connect_ms = [(setup.first_packet_s - setup.posted_s) * 1e3 for setup in setups]
    return {
        "connects": len(setups),
        "answer_p50_ms": rounded(analysis.percentile(answer_ms, 50)),
        "dtls_p50_ms": rounded(analysis.percentile(dtls_ms, 50)),
        "connect_p50_ms": rounded(analysis.percentile(connect_ms, 50)),
        "connect_max_ms": rounded(analysis.percentile(connect_ms, 100)),
    }


def packet_figures(records: Sequence[CallRecord], window: Window, clock_hz: int = analysis.OPUS_CLOCK_HZ) -> Figures:
    """Lateness, gaps and loss over all calls, of packets that arrived within the window.

    Args:
        clock_hz: of their timestamps.
    """
    inside = [[p for p in r.packets if window.begin_s <= p.arrival_s < window.end_s] for r in records]
    late_ms = [analysis.lateness_ms(packets, clock_hz) for packets in inside]
    pooled_ms = np.concatenate(late_ms) if late_ms else np.empty(0)
    gaps_ms = [analysis.received_gaps_ms(packets) for packets in inside if packets]
    expected = len(records) * window.length_s / PACKET_S
    return {
        "late_p50_ms": rounded(analysis.percentile(pooled_ms, 50)),
        "late_p99_ms": rounded(analysis.percentile(pooled_ms, 99)),
        "late_max_ms": rounded(analysis.percentile(pooled_ms, 100)),
        "received_gap_p99_ms": rounded(analysis.percentile(np.concatenate(gaps_ms) if gaps_ms else [], 99)),
        "lost": sum(map(analysis.lost_packets, inside)),
        "received_share": rounded(sum(map(len, inside)) / expected if expected else None, 4),
        "silent_calls": sum(not packets for packets in inside),
    }


def echo_figures(
    records: Sequence[CallRecord], window: Window, drops_s: Sequence[float], decoder: Callable[[], Decode]
) -> Figures:
    """Mouth to ear over the first `MAX_LISTENED_CALLS` calls, and with `drops_s` what the drops did to it.

    Args:
        decoder: makes a fresh decoder per call.
    """
    heard = [
        analysis.mouth_to_ear(Echo.from_packets(record.packets, decoder()), record.spoken)
        for record in records[:MAX_LISTENED_CALLS]
    ]
    bursts = [burst for call in heard for burst in call]
    m2e_ms = [burst.m2e_ms for burst in bursts if burst.m2e_ms is not None]
    drifts = [drift for call in heard if (drift := analysis.drift_ms_per_min(call)) is not None]
    figures: Figures = {
        "m2e_p50_ms": rounded(analysis.percentile(m2e_ms, 50)),
        "m2e_p95_ms": rounded(analysis.percentile(m2e_ms, 95)),
        "m2e_max_ms": rounded(analysis.percentile(m2e_ms, 100)),
        "m2e_first_ms": rounded(_median_between(bursts, window.begin_s, window.begin_s + EDGE_S)),
        "m2e_last_ms": rounded(_median_between(bursts, window.end_s - EDGE_S, window.end_s)),
        "drift_ms_per_min": rounded(analysis.percentile(drifts, 50)),
        "bursts": len(m2e_ms),
        "missed": len(bursts) - len(m2e_ms),
        "dropped": sum(record.dropped for record in records),
    }
    if drops_s:
        recoveries = [analysis.recovery(call, drops_s) for call in heard]
        for name in analysis.Recovery._fields:
            values = [value for recovery in recoveries if (value := getattr(recovery, name)) is not None]
            figures[name] = rounded(analysis.percentile(values, 50))
    return figures


def cost_figures(calls: int, window: Window) -> Figures:
    """What the server and the client used; None for a server whose process is not ours to look at."""
    cpu_s = rss_mb = None
    if window.server_before is not None and window.server_after is not None:
        cpu_s = window.server_after.cpu_s - window.server_before.cpu_s
        rss_mb = window.server_after.rss_mb
    return {
        "cpu_s_per_call_min": rounded(cpu_s / window.length_s * 60 / calls if cpu_s is not None else None, 3),
        "server_cpu_util": rounded(cpu_s / window.length_s if cpu_s is not None else None, 3),
        "client_cpu_util": rounded(window.client_cpu_s / window.length_s, 3),
        "rss_mb": rounded(rss_mb, 1),
        "send_late_p99_ms": rounded(analysis.percentile(window.send_lateness_ms, 99)),
    }


def _median_between(bursts: Sequence[Burst], begin_s: float, end_s: float) -> float | None:
    return analysis.percentile(
        [b.m2e_ms for b in bursts if b.m2e_ms is not None and begin_s <= b.captured_s < end_s], 50
    )


def rounded(value: float | None, digits: int = 2) -> float | None:
    return None if value is None else round(float(value), digits)


def ratios(theirs: Figures, ours: Figures, names: Sequence[str]) -> Figures:
    """Theirs over ours, of figures where less is better; None where one is missing or ours is 0."""
    return {name: _ratio(theirs.get(name), ours.get(name)) for name in names}


def _ratio(theirs: float | int | str | bool | None, ours: float | int | str | bool | None) -> float | None:
    if not isinstance(theirs, int | float) or not isinstance(ours, int | float) or not ours:
        return None
    return round(theirs / ours, 2)
