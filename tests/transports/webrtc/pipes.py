"""A perfect network between two DTLS transports: what RTCDtlsTransport takes for an ICE transport, without ICE."""

from __future__ import annotations

import asyncio


class PipeEnd:
    def __init__(self) -> None:
        self.role = "controlling"
        self.state = "completed"
        self.other: PipeEnd | None = None
        self.once = 0
        """How often the DTLS transport asked not to copy a record."""
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue()

    def next_record_once(self) -> None:
        self.once += 1

    def close(self) -> None:
        self._queue.put_nowait(None)

    async def _recv(self) -> bytes:
        data = await self._queue.get()
        if data is None:
            raise ConnectionError
        return data

    async def _send(self, data: bytes) -> None:
        assert self.other is not None
        self.other._queue.put_nowait(data)


def pipe() -> tuple[PipeEnd, PipeEnd]:
    left, right = PipeEnd(), PipeEnd()
    left.other, right.other = right, left
    return left, right
