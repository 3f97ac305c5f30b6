"""Takes the place of a jitter buffer, and remembers what it was given."""

from __future__ import annotations

from typing import NamedTuple


class Put(NamedTuple):
    sequence_number: int
    timestamp: int
    payload: bytes
    redundant: bool = False


class Noise(NamedTuple):
    sequence_number: int
    timestamp: int
    level_dbov: int


class Sink:
    def __init__(self) -> None:
        self.puts: list[Put] = []
        self.noises: list[Noise] = []
        self.ssrcs: set[int] = set()

    def put(
        self, now: float, sequence_number: int, timestamp: int, payload: bytes, ssrc: int, redundant: bool = False
    ) -> None:
        self.ssrcs.add(ssrc)
        self.puts.append(Put(sequence_number, timestamp, payload, redundant))

    def comfort_noise(self, now: float, sequence_number: int, timestamp: int, level_dbov: int, ssrc: int) -> None:
        self.ssrcs.add(ssrc)
        self.noises.append(Noise(sequence_number, timestamp, level_dbov))
