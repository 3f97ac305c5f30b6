"""Calls that move: ICE restarts and new addresses in mid-call, and the audio that was missing on either side."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import aiohttp
import numpy as np
from aiortc import RTCCertificate

from rtc_server.bench import analysis, servers
from rtc_server.bench.analysis import ReceivedPacket
from rtc_server.bench.call import Call
from rtc_server.bench.impairment import Impairment
from rtc_server.bench.pacer import Pacer
from rtc_server.bench.relay import running_relay
from rtc_server.bench.signaling import TIMEOUT_S, Signaling
from rtc_server.bench.signals import PACKET_S
from rtc_server.bench.voice import LoopVoice

SETTLE_S = 3.0
AFTER_S = 1.0
"""What a move did is over by then."""
OTHER_ADDRESSES = ("127.0.0.2", "127.0.0.1")
"""Two networks to go to and fro between."""


@dataclass(frozen=True, slots=True)
class Move:
    """What one move cost."""

    gap_ms: float
    """Of the agent's voice at the client: the longest wait for a packet, beyond the 20 ms between any two."""
    concealed_ms: float
    """Of the caller's voice at the server: what it had to invent."""
    lost_down: int
    """Packets that never came..."""
    lost_up: int
    """...and such that never reached the server."""
    took_ms: float
    """From the decision to move until the client sends by the new path."""

    @property
    def missing_ms(self) -> float:
        return max(self.gap_ms, self.concealed_ms)

    @property
    def lost(self) -> int:
        return self.lost_down + self.lost_up


async def moves(
    target: servers.Target, network: Impairment, times: int, payloads: Sequence[bytes]
) -> tuple[list[Move], list[Move]]:
    """`times` restarts, then as many new addresses, of one call. Raises: PeerError when it breaks."""
    assert target.udp_port is not None
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    async with contextlib.AsyncExitStack() as stack:
        http = await stack.enter_async_context(aiohttp.ClientSession(timeout=timeout))
        relay = await stack.enter_async_context(running_relay((servers.HOST, target.udp_port), network, network))
        pacer = Pacer()
        pacer.start()
        stack.push_async_callback(pacer.stop)
        call = Call(LoopVoice(payloads), via=(relay.host, relay.port))
        stack.push_async_callback(call.close)
        signaling = Signaling(http, target.url, target.adapter)
        await call.connect(signaling, RTCCertificate.generateCertificate(), events=True)
        pacer.add(call)
        await call.event("session.ready")
        await asyncio.sleep(SETTLE_S)
        addresses = iter(OTHER_ADDRESSES * times)

        async def change_address() -> None:
            relay.rebind(next(addresses))
            call.network_changed()

        restarts = [await _move(call, call.restart_ice) for _ in range(times)]
        changes = [await _move(call, change_address) for _ in range(times)]
    return restarts, changes


async def _move(call: Call, move: Callable[[], Awaitable[None]]) -> Move:
    before = await _next_stats(call)
    lost_up = call.stream.lost
    call.received()  # what came so far
    begin_s = time.monotonic()
    await move()
    took_ms = (time.monotonic() - begin_s) * 1000
    await asyncio.sleep(AFTER_S)
    received = call.received()
    after = await _next_stats(call)
    return Move(
        gap_ms=longest_gap_ms(received),
        concealed_ms=float(after["concealed_ms"] - before["concealed_ms"]),
        lost_down=analysis.lost_packets(received),
        lost_up=call.stream.lost - lost_up,
        took_ms=took_ms,
    )


async def _next_stats(call: Call) -> dict[str, float]:
    """Measured after this moment."""
    stats = call.latest("session.stats")
    return await call.event("session.stats", later_than=-1 if stats is None else int(stats["seq"]))


def longest_gap_ms(packets: Sequence[ReceivedPacket]) -> float:
    """How long a player without a buffer would have been silent at most; packets that come twice count once."""
    first_arrivals: dict[int, float] = {}
    for packet in packets:
        first_arrivals.setdefault(packet.sequence, packet.arrival_s)
    arrivals_s = np.sort(np.array(list(first_arrivals.values())))
    return max(0.0, float(np.diff(arrivals_s).max() - PACKET_S) * 1000) if arrivals_s.size > 1 else 0.0
