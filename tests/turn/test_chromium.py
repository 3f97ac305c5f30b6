"""Chromium calls through the relay: with a connection of its own, and with our page."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.chromium import Chromium, running_chromium
from tests.e2e.page import TalkPage
from tests.e2e.server import ServerProcess
from tests.e2e.speech import tone, write_microphone
from tests.turn.conftest import Serve
from tests.turn.coturn import TCP, TLS, UDP, Coturn
from tests.turn.network import NOWHERE, Network

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120, method="signal")]

CALL = """
async ({ policy }) => {
  const { ice_servers: iceServers } = await (await fetch('/v1/config')).json();
  const peer = new RTCPeerConnection({ iceServers, iceTransportPolicy: policy });
  const context = new AudioContext();
  const oscillator = new OscillatorNode(context);
  const microphone = new MediaStreamAudioDestinationNode(context);
  oscillator.connect(microphone);
  oscillator.start();
  peer.addTrack(microphone.stream.getAudioTracks()[0], microphone.stream);
  const spoken = new Promise((resolve) => {
    peer.createDataChannel('events').onmessage = ({ data }) => {
      const events = [JSON.parse(data)].flat();
      if (events.some(({ type }) => type === 'response.created')) resolve();
    };
  });
  await peer.setLocalDescription();
  const started = performance.now();
  const response = await fetch('/v1/sessions', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ sdp: peer.localDescription.sdp, type: 'offer' }),
  });
  const answer = await response.json();
  const answered_s = (performance.now() - started) / 1000;
  await peer.setRemoteDescription({ type: 'answer', sdp: answer.sdp });
  await spoken;
  let stats;
  for (let tries = 0; tries < 50; tries += 1) {
    stats = [...(await peer.getStats()).values()];
    if ((stats.find(({ type }) => type === 'inbound-rtp')?.packetsReceived ?? 0) > 50) break;
    await new Promise((resolve) => { setTimeout(resolve, 200); });
  }
  const transport = stats.find(({ type }) => type === 'transport');
  const pair = stats.find(({ id }) => id === transport.selectedCandidatePairId);
  const local = stats.find(({ id }) => id === pair.localCandidateId);
  const heard = stats.find(({ type }) => type === 'inbound-rtp')?.packetsReceived ?? 0;
  await fetch(`/v1/sessions/${answer.id}`, { method: 'DELETE' });
  peer.close();
  return { kind: local.candidateType, relayed: local.relayProtocol ?? '', heard, answered_s };
}
"""
AT_ONCE_S = 3.0


@contextlib.asynccontextmanager
async def browsing(
    folder: Path, server: ServerProcess, *flags: str, microphone: Path | None = None
) -> AsyncIterator[Chromium]:
    # The certificate is our own, and autoplay here is a page's script that nobody clicks.
    known = ("--ignore-certificate-errors", "--autoplay-policy=no-user-gesture-required")
    async with running_chromium(
        folder / "chromium", server.url, flags=(*known, *flags), microphone=microphone, allowed=microphone is not None
    ) as chromium:
        yield chromium


async def call(chromium: Chromium, policy: str = "relay") -> dict[str, Any]:
    """One call from a bare page of our origin, with what `/v1/config` tells."""
    chromium.expected_errors.append("favicon.ico")
    page = await chromium.open("/health")
    told: dict[str, Any] = await page.evaluate(CALL, {"policy": policy})
    return told


@pytest.mark.parametrize(("url", "protocol"), [(UDP, "udp"), (TCP, "tcp"), (TLS, "tls")], ids=["udp", "tcp", "tls"])
async def test_a_call_goes_through_the_relay(
    coturn: Coturn, serve: Serve, tmp_path: Path, url: str, protocol: str
) -> None:
    server = await serve(coturn, url)
    async with browsing(tmp_path, server) as chromium:
        told = await call(chromium)
    assert (told["kind"], told["relayed"]) == ("relay", protocol)
    assert told["heard"] > 50


async def test_a_caller_without_udp_is_relayed_without_being_asked(
    network: Network, coturn: Coturn, serve: Serve, tmp_path: Path
) -> None:
    server = await serve(coturn)
    network.block_udp()
    async with browsing(tmp_path, server) as chromium:
        told = await call(chromium, "all")
    assert told["kind"] in ("relay", "prflx")
    assert told["relayed"] in ("tcp", "tls", "")
    assert told["heard"] > 50


async def test_a_black_hole_delays_neither_answer_nor_direct_call(
    network: Network, serve: Serve, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_text("a-secret-for-tests")
    holes = (f"turn:{NOWHERE}?transport=udp", f"turn:{NOWHERE}?transport=tcp", f"turns:{NOWHERE}:443")
    server = await serve(None, *holes, flags=("--turn-secret-file", str(secret)))
    async with browsing(tmp_path, server) as chromium:
        told = await call(chromium, "all")
    assert told["kind"] in ("host", "prflx")
    assert told["relayed"] == ""
    assert told["answered_s"] < AT_ONCE_S
    assert told["heard"] > 50


async def test_our_page_talks_where_udp_is_blocked(
    network: Network, coturn: Coturn, serve: Serve, tmp_path: Path
) -> None:
    server = await serve(coturn)
    microphone = write_microphone(tmp_path / "tone.wav", tone(20))
    network.block_udp()
    secure = f"--unsafely-treat-insecure-origin-as-secure={server.url}"
    async with browsing(tmp_path, server, secure, microphone=microphone) as chromium:
        page = TalkPage(await chromium.open())
        await page.start()
        await page.call.click()


"""The page ended its call itself."""
