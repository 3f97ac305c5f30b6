"""Browsers that hide their addresses: every candidate in the offer is a ``.local`` name that nobody can resolve."""

from __future__ import annotations

from typing import Any

import pytest

from tests.e2e.conftest import OpenChromium, OpenFirefox, Serve

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(90, method="signal")]

LISTEN_ONLY = """(async () => {
    const peer = new RTCPeerConnection({ bundlePolicy: 'max-bundle' });
    peer.addTransceiver('audio', { direction: 'recvonly' });
    const events = peer.createDataChannel('events');
    // A channel may be open before the connection says that it is connected.
    const opened = Promise.all([
        new Promise((resolve) => events.addEventListener('open', resolve)),
        new Promise((resolve) => peer.addEventListener('connectionstatechange', () => {
            if (peer.connectionState === 'connected') resolve();
        })),
    ]);
    const gathered = new Promise((resolve) => peer.addEventListener('icegatheringstatechange', () => {
        if (peer.iceGatheringState === 'complete') resolve();
    }));
    await peer.setLocalDescription();
    await gathered;
    const offer = peer.localDescription.sdp;
    const postedMs = performance.now();
    const response = await fetch('/v1/sessions', {
        method: 'POST', headers: { 'Content-Type': 'application/sdp' }, body: offer,
    });
    await peer.setRemoteDescription({ type: 'answer', sdp: await response.text() });
    await Promise.race([opened, new Promise((resolve) => setTimeout(resolve, 10000))]);
    const connectedMs = performance.now() - postedMs;
    const { connectionState } = peer;
    await fetch(response.headers.get('Location'), { method: 'DELETE' });
    peer.close();
    return {
        candidates: offer.split('\\r\\n').filter((line) => line.startsWith('a=candidate')),
        endOfCandidates: offer.includes('a=end-of-candidates'), connectionState, connectedMs,
    };
})()"""


def assert_connected_although_hidden(call: dict[str, Any]) -> None:
    assert call["candidates"]
    assert all(".local " in candidate for candidate in call["candidates"])
    assert call["connectionState"] == "connected"
    # Resolving such a name fails after a second; whoever waits for that is over it.
    assert call["connectedMs"] < 1500


async def test_chromium_without_microphone_permission_connects_at_once(
    serve: Serve, open_chromium: OpenChromium
) -> None:
    page = await (await open_chromium(await serve("echo"), allowed=False)).open()
    assert_connected_although_hidden(await page.evaluate(LISTEN_ONLY))


async def test_firefox_that_obfuscates_its_addresses_connects_at_once(serve: Serve, open_firefox: OpenFirefox) -> None:
    server = await serve("echo")
    firefox = await open_firefox({"media.peerconnection.ice.obfuscate_host_addresses": True})
    await firefox.open(server.url)
    call = await firefox.evaluate(LISTEN_ONLY)
    assert_connected_although_hidden(call)
    assert call["endOfCandidates"]
