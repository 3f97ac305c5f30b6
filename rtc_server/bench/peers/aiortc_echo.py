"""A stock aiortc server that echoes in blocks of 80 ms: what one gets from `RTCPeerConnection` as it comes.

The remote track is read and resampled to 24 kHz, collected into blocks of 1920 samples as a clocked model needs them,
and sent back as 20 ms frames of 48 kHz at absolute deadlines; silence where nothing is ready. ``POST /offer`` takes and
gives JSON {sdp, type}; ``GET /readyz``. Run as ``python -m rtc_server.bench.peers.aiortc_echo --port 9000``.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
import fractions
import time

import aioice.ice
import numpy as np
from aiohttp import web
from aiortc import MediaStreamTrack, RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.mediastreams import MediaStreamError
from av import AudioFrame, AudioResampler
from numpy.typing import NDArray

ENGINE_HZ = 24_000
BLOCK_SAMPLES = 1920
OUTPUT_HZ = 48_000
OUTPUT_SAMPLES = 960
PACKET_S = 0.020
MAX_QUEUED_FRAMES = 500
HOST = "127.0.0.1"


class EchoTrack(MediaStreamTrack):
    """Gives back what `source` says, a block of 80 ms at a time. Keeps at most 10 s and drops the oldest."""

    kind = "audio"

    def __init__(self, source: MediaStreamTrack) -> None:
        super().__init__()
        self._source = source
        self._to_engine = AudioResampler(format="s16", layout="mono", rate=ENGINE_HZ)
        self._to_output = AudioResampler(format="s16", layout="mono", rate=OUTPUT_HZ, frame_size=OUTPUT_SAMPLES)
        self._block = np.empty(0, np.int16)
        self._frames: collections.deque[NDArray[np.int16]] = collections.deque(maxlen=MAX_QUEUED_FRAMES)
        self._start_s: float | None = None
        self._sent = 0
        self._reader = asyncio.create_task(self._read(), name="echo reader")

    async def _read(self) -> None:
        try:
            while True:
                frame = await self._source.recv()
                assert isinstance(frame, AudioFrame)
                for resampled in self._to_engine.resample(frame):
                    self._block = np.concatenate([self._block, resampled.to_ndarray().reshape(-1)])
                while self._block.size >= BLOCK_SAMPLES:
                    self._answer(self._block[:BLOCK_SAMPLES])
                    self._block = self._block[BLOCK_SAMPLES:]
        except MediaStreamError:
            return

    def _answer(self, block: NDArray[np.int16]) -> None:
        frame = AudioFrame.from_ndarray(block[None, :].copy(), format="s16", layout="mono")
        frame.sample_rate = ENGINE_HZ
        for resampled in self._to_output.resample(frame):
            self._frames.append(resampled.to_ndarray().reshape(-1).astype(np.int16))

    async def recv(self) -> AudioFrame:
        if self.readyState != "live":
            raise MediaStreamError
        if self._start_s is None:
            self._start_s = time.monotonic()
        await asyncio.sleep(max(0.0, self._start_s + self._sent * PACKET_S - time.monotonic()))
        samples = self._frames.popleft() if self._frames else np.zeros(OUTPUT_SAMPLES, np.int16)
        frame = AudioFrame.from_ndarray(samples[None, :], format="s16", layout="mono")
        frame.sample_rate = OUTPUT_HZ
        frame.pts = self._sent * OUTPUT_SAMPLES
        frame.time_base = fractions.Fraction(1, OUTPUT_HZ)
        self._sent += 1
        return frame

    def stop(self) -> None:
        super().stop()
        self._reader.cancel()


class EchoServer:
    def __init__(self) -> None:
        self._connections: set[RTCPeerConnection] = set()

    def application(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/offer", self._offer)
        app.router.add_get("/readyz", self._ready)
        app.on_shutdown.append(self._close_all)
        return app

    async def _ready(self, _request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def _offer(self, request: web.Request) -> web.Response:
        offer = await request.json()
        connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self._connections.add(connection)

        @connection.on("track")
        def on_track(track: MediaStreamTrack) -> None:
            connection.addTrack(EchoTrack(track))

        @connection.on("connectionstatechange")
        async def on_change() -> None:
            if connection.connectionState in ("failed", "closed"):
                self._connections.discard(connection)
                await connection.close()

        await connection.setRemoteDescription(RTCSessionDescription(offer["sdp"], offer["type"]))
        await connection.setLocalDescription(await connection.createAnswer())
        answer = connection.localDescription
        return web.json_response({"sdp": answer.sdp, "type": answer.type})

    async def _close_all(self, _app: web.Application) -> None:
        await asyncio.gather(*(connection.close() for connection in list(self._connections)))


def offer_loopback_only() -> None:
    """aioice leaves 127.0.0.1 out of its candidates; a benchmark on one machine wants exactly that one."""
    aioice.ice.get_host_addresses = lambda use_ipv4, use_ipv6: [HOST] if use_ipv4 else []


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--port", type=int, default=9000)
    options = parser.parse_args()
    offer_loopback_only()
    web.run_app(EchoServer().application(), host=HOST, port=options.port, print=None)


if __name__ == "__main__":
    main()
