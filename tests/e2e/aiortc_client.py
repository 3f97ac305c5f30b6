"""A stock aiortc ``RTCPeerConnection`` as caller. As a module (``-m tests.e2e.aiortc_client URL``) it can be killed.

aioice gathers no loopback addresses, so media runs over this machine's own address.
"""

from __future__ import annotations

import asyncio
import contextlib
import fractions
import json
import sys
from typing import Any

import aiohttp
import av
import numpy as np
from aiortc import (
    MediaStreamTrack,
    RTCConfiguration,
    RTCPeerConnection,
    RTCSessionDescription,
)
from aiortc.mediastreams import MediaStreamError

from tests.e2e.listen import Recording
from tests.e2e.speech import RATE_HZ, Pcm, silence, tone

PACKET_SAMPLES = RATE_HZ // 50
CONNECT_WITHIN_S = 15.0


class PcmTrack(MediaStreamTrack):
    """Plays samples at 48 kHz in real time, then silence."""

    kind = "audio"

    def __init__(self, pcm: Pcm) -> None:
        super().__init__()
        self.began_s: float | None = None
        """When the first sample was sent, on the loop's clock."""
        self._pcm = pcm
        self._sent = 0

    async def recv(self) -> av.AudioFrame:
        loop = asyncio.get_running_loop()
        if self.began_s is None:
            self.began_s = loop.time()
        await asyncio.sleep(max(0.0, self.began_s + self._sent / RATE_HZ - loop.time()))
        chunk = self._pcm[self._sent : self._sent + PACKET_SAMPLES]
        chunk = np.concatenate([chunk, silence(0.02)])[:PACKET_SAMPLES]
        frame = av.AudioFrame.from_ndarray((chunk * 32767).astype(np.int16)[None], format="s16", layout="mono")
        frame.sample_rate = RATE_HZ
        frame.pts = self._sent
        frame.time_base = fractions.Fraction(1, RATE_HZ)
        self._sent += PACKET_SAMPLES
        return frame


class AiortcClient:
    """One call: offers over HTTP, keeps the events and the sound that come back."""

    def __init__(self, url: str, pcm: Pcm, configuration: RTCConfiguration | None = None) -> None:
        self.url = url
        self.peer = RTCPeerConnection(configuration or RTCConfiguration(iceServers=[]))
        self.microphone = PcmTrack(pcm)
        self.events: list[dict[str, Any]] = []
        self.session_id = ""
        self._blocks: list[Pcm] = []
        self._heard_since_s = 0.0
        self._listener: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self.peer.addTrack(self.microphone)
        self.channel = self.peer.createDataChannel("events")
        self.channel.on("message", self._on_message)
        self.peer.on("track", self._on_track)
        self.peer.on("connectionstatechange", self._news.set)

    async def connect(self, **prompt: Any) -> None:
        """Offer, answer, and wait until the session is live."""
        status, body, _ = await self.request("POST", "/v1/sessions", json=await self.offer() | prompt)
        assert status == 201, body
        self.session_id = body["id"]
        await self.accept(body)
        await self.wait_event("response.created")

    async def offer(self) -> dict[str, str]:
        await self.peer.setLocalDescription(await self.peer.createOffer())
        return {"sdp": self.peer.localDescription.sdp, "type": "offer"}

    async def accept(self, answer: dict[str, str]) -> None:
        await self.peer.setRemoteDescription(RTCSessionDescription(answer["sdp"], answer["type"]))

    async def renegotiate(self) -> dict[str, str]:
        """A second offer by PATCH; returns the answer after it was taken."""
        status, body, _ = await self.request("PATCH", f"/v1/sessions/{self.session_id}", json=await self.offer())
        assert status == 200, body
        await self.accept(body)
        answer: dict[str, str] = body
        return answer

    async def request(self, method: str, path: str, **arguments: Any) -> tuple[int, Any, Any]:
        """Status, body (parsed where it is JSON), headers."""
        timeout = aiohttp.ClientTimeout(total=15)
        async with (
            aiohttp.ClientSession(timeout=timeout) as http,
            http.request(method, self.url + path, **arguments) as response,
        ):
            text = await response.text()
            is_json = response.content_type == "application/json"
            return response.status, json.loads(text) if is_json else text, response.headers

    async def wait_event(self, kind: str, within_s: float = CONNECT_WITHIN_S) -> dict[str, Any]:
        """The first event of a type, come or to come."""
        async with asyncio.timeout(within_s):
            while True:
                for event in self.events:
                    if event["type"] == kind:
                        return event
                self._news.clear()
                await self._news.wait()

    async def wait_closed(self, within_s: float = 10.0) -> None:
        async with asyncio.timeout(within_s):
            while self.peer.connectionState not in ("closed", "failed"):
                self._news.clear()
                await self._news.wait()

    def heard(self) -> Recording:
        """All sound so far; its start and `sent` share the loop's clock."""
        pcm = np.concatenate(self._blocks) if self._blocks else silence(0)
        return Recording(pcm, RATE_HZ, self._heard_since_s)

    def sent(self) -> Recording:
        return Recording(self.microphone._pcm, RATE_HZ, self.microphone.began_s or 0.0)

    async def close(self) -> None:
        """Say goodbye: a connection that is only closed has its slot kept for a while."""
        session_id, self.session_id = self.session_id, ""
        if session_id:
            with contextlib.suppress(aiohttp.ClientError):  # the server may have gone first
                await self.request("DELETE", f"/v1/sessions/{session_id}")
        await self.peer.close()
        if self._listener is not None:
            self._listener.cancel()  # where nothing ever came, nothing ends it
            await asyncio.gather(self._listener, return_exceptions=True)

    def _on_message(self, message: str) -> None:
        value = json.loads(message)
        self.events += value if isinstance(value, list) else [value]
        self._news.set()

    def _on_track(self, track: MediaStreamTrack) -> None:
        self._listener = asyncio.create_task(self._listen(track), name="aiortc-listener")

    async def _listen(self, track: MediaStreamTrack) -> None:
        try:
            while True:
                frame = await track.recv()
                if not self._blocks:
                    self._heard_since_s = asyncio.get_running_loop().time() - frame.samples / RATE_HZ
                stereo = frame.to_ndarray().reshape(-1, len(frame.layout.channels))
                self._blocks.append(stereo[:, 0].astype(np.float32) / 32768)
        except MediaStreamError:
            return


async def _call(url: str) -> None:
    """Call, say the session's id, and talk until killed."""
    client = AiortcClient(url, tone(600.0))
    await client.connect()
    print(client.session_id, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_call(sys.argv[1]))
