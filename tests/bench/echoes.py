"""An echo in virtual time: the loop as raw samples in RTP packets, so that every delay is known exactly."""

from collections.abc import Callable

import numpy as np

from rtc_server.bench import signals
from rtc_server.bench.analysis import Burst, Echo, ReceivedPacket, mouth_to_ear

FIRST_SEQUENCE = 65_000
FIRST_TIMESTAMP = 2**32 - 5 * 960
START_S = 1000.0


def decode(payload: bytes) -> signals.Samples:
    return np.frombuffer(payload, np.float32)


def packets(seconds: float, delay_s: Callable[[int], float]) -> list[ReceivedPacket]:
    """Each packet comes back `delay_s(number)` after its last sample was captured. Counters wrap on the way."""
    sound = signals.loop()
    made = []
    for number in range(round(seconds / signals.PACKET_S)):
        at = number * signals.PACKET_SAMPLES % signals.LOOP_SAMPLES
        made.append(
            ReceivedPacket(
                sequence=(FIRST_SEQUENCE + number) % 2**16,
                timestamp=(FIRST_TIMESTAMP + 960 * number) % 2**32,
                arrival_s=START_S + (number + 1) * signals.PACKET_S + delay_s(number),
                payload=sound[at : at + signals.PACKET_SAMPLES].tobytes(),
            )
        )
    return made


def spoken(seconds: float) -> list[tuple[int, float]]:
    return [(burst, START_S + at_s) for burst, at_s in signals.bursts_between(0, round(seconds / signals.PACKET_S))]


def heard(received: list[ReceivedPacket], seconds: float) -> list[Burst]:
    return mouth_to_ear(Echo.from_packets(received, decode), spoken(seconds))
