"""Whatever a network or a hostile peer does: one whole frame at each tick, in order, in bounded memory."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rtc_server.media.frames import FRAME_S
from rtc_server.media.jitterbuffer import JitterBuffer
from tests.media.calls import Call
from tests.media.decoders import CountingDecoder
from tests.media.speech import encoded, long_speech

PACKET_S = 0.02
OPUS = encoded(long_speech(2.0))

FATES = st.lists(
    st.one_of(
        st.just(0.02),
        st.just(0.02),
        st.floats(0.0, 0.4),
        st.none(),
    ),
    min_size=20,
    max_size=120,
)
"""For each packet: how long it is under way, or that it is lost."""


@settings(max_examples=60, deadline=None)
@given(FATES, st.lists(st.integers(0, 119), max_size=10), st.floats(0, 0.08))
def test_order_is_never_violated(fates: list[float | None], doubled: list[int], phase_s: float) -> None:
    arrivals = [((k + 1) * PACKET_S + fate, k) for k, fate in enumerate(fates) if fate is not None]
    arrivals += [(at + 0.01, k) for at, k in arrivals if k in doubled]
    arrivals.sort()
    call = Call(JitterBuffer(CountingDecoder))
    at = 0
    for tick in range(int(len(fates) * PACKET_S / FRAME_S) + 8):
        now = phase_s + tick * FRAME_S
        while at < len(arrivals) and arrivals[at][0] <= now:
            arrival, k = arrivals[at]
            call.buffer.put(arrival, k, k * 960, CountingDecoder.payload(k * 480, fec=k % 3 == 0))
            at += 1
        call.tick(now)
    positions = CountingDecoder.positions(call.pcm)
    assert (np.diff(positions) >= 1).all()
    if positions.size:
        assert positions[-1] < 480 * len(fates)


PACKETS = st.lists(
    st.tuples(
        st.floats(0, 0.1),
        st.one_of(st.none(), st.integers(0, 0xFFFF)),
        st.one_of(st.none(), st.integers(0, 0xFFFFFFFF)),
        st.one_of(st.none(), st.binary(max_size=60)),
        st.sampled_from([1, 1, 1, 1, 2, 3]),
    ),
    max_size=80,
)


@settings(max_examples=80, deadline=None)
@given(PACKETS, st.lists(st.floats(0, 0.7), min_size=1, max_size=6))
def test_no_packet_breaks_it(
    packets: list[tuple[float, int | None, int | None, bytes | None, int]], steps: list[float]
) -> None:
    """Any field may be anything; ticks come when they like. Nothing is raised, and the memory stays where it is."""
    call = Call(JitterBuffer())
    now = next_tick = 0.0
    for k, (wait, sequence_number, timestamp, payload, ssrc) in enumerate(packets):
        now += wait
        call.buffer.put(
            now,
            k if sequence_number is None else sequence_number,
            k * 960 if timestamp is None else timestamp,
            OPUS[k % len(OPUS)] if payload is None else payload,
            ssrc,
        )
        if now >= next_tick:
            call.tick(now)
            next_tick = now + steps[k % len(steps)]
    for _ in range(3):
        now += FRAME_S
        call.tick(now)
    counters = call.buffer.counters
    assert counters.packets == len(packets)
    assert counters.frames == len(call.frames)
    assert counters.concealed_samples >= 0
    assert call.buffer.delay_ms < 2000


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**31), st.floats(0, 0.3), st.floats(0, 120))
def test_given_samples_are_the_wall_clocks_at_any_loss(seed: int, loss: float, jitter_ms: float) -> None:
    rng = np.random.default_rng(seed)
    call = Call(JitterBuffer())
    at = np.sort((np.arange(100) + 1) * PACKET_S + rng.random(100) * jitter_ms / 1000)
    lost = rng.random(100) < loss
    k = 0
    for tick in range(25):
        now = 0.01 + tick * FRAME_S
        while k < 100 and at[k] <= now:
            if not lost[k]:
                call.buffer.put(float(at[k]), k, k * 960, OPUS[k])
            k += 1
        call.tick(now)
    assert call.pcm.size == 25 * 1920
    assert np.abs(call.pcm).max() < 2
