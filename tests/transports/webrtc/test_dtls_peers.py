"""DTLS with peers of different abilities, in both roles: real OpenSSL on both ends of a pipe."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiortc import RTCCertificate
from aiortc.rtcdtlstransport import SRTP_PROFILES, generate_certificate
from cryptography.hazmat.primitives.asymmetric import rsa
from OpenSSL import SSL

from rtc_server.transports.webrtc.contract import Certificate, SecureTransport
from tests.transports.webrtc.pipes import pipe

FINISHES_S = 10.0


class RsaCertificate(Certificate):
    """As GStreamer and older devices have."""

    @classmethod
    def generateCertificate(cls) -> RsaCertificate:  # noqa: N802 - the name of the base class
        key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        return cls(key=key, cert=generate_certificate(key))


class PlainCertificate(RTCCertificate):
    """A peer of which a test changes one thing."""

    ciphers = b"ECDHE-ECDSA-AES128-GCM-SHA256"
    most_version = 0xFEFD
    """DTLS 1.2; 1.0 is 0xFEFF."""

    def _create_ssl_context(self, srtp_profiles: list[Any]) -> SSL.Context:
        context = super()._create_ssl_context(srtp_profiles)
        context.set_cipher_list(self.ciphers)
        context.set_max_proto_version(self.most_version)
        return context


class OldCertificate(PlainCertificate):
    ciphers = b"ALL:@SECLEVEL=0"
    most_version = 0xFEFF


class Peers:
    """Ours with `role` against a peer with `certificate`."""

    def __init__(self, role: str, certificate: RTCCertificate) -> None:
        self.our_pipe, self.peer_pipe = pipe()
        self.our_pipe.role, self.peer_pipe.role = (
            ("controlling", "controlled") if role == "server" else ("controlled", "controlling")
        )
        self.ours = SecureTransport(self.our_pipe, Certificate.generateCertificate())
        self.peer = SecureTransport(self.peer_pipe, certificate)

    async def shake_hands(self) -> None:
        """Returns when ours has decided."""
        ours, peer = self.ours.getLocalParameters(), self.peer.getLocalParameters()
        other = asyncio.ensure_future(self.peer.start(ours))
        await asyncio.wait_for(self.ours.start(peer), FINISHES_S)
        if self.ours.state == "connected":
            await asyncio.wait_for(other, FINISHES_S)
        other.cancel()
        await asyncio.gather(other, return_exceptions=True)

    async def stop(self) -> None:
        await self.ours.stop()
        await self.peer.stop()
        self.our_pipe.close()
        self.peer_pipe.close()
        await asyncio.sleep(0)

    def suite(self) -> str:
        return str(self.ours._ssl.get_cipher_name())


@pytest.mark.parametrize("role", ["server", "client"])
@pytest.mark.parametrize(
    ("kind", "suite_as_client"),
    [
        (PlainCertificate, "ECDHE-ECDSA-AES128-GCM-SHA256"),
        (RsaCertificate, "ECDHE-RSA-AES128-GCM-SHA256"),
        (RTCCertificate, "ECDHE-ECDSA-AES128-GCM-SHA256"),
    ],
)
async def test_peers_with_ecdsa_and_with_rsa_certificates_connect(
    role: str, kind: type[RTCCertificate], suite_as_client: str
) -> None:
    peers = Peers(role, kind.generateCertificate())
    await peers.shake_hands()
    assert (peers.ours.state, peers.peer.state) == ("connected", "connected")
    # The suite names the server's certificate: ours is ECDSA, whatever the client's is.
    assert peers.suite() == ("ECDHE-ECDSA-AES128-GCM-SHA256" if role == "server" else suite_as_client)
    packet = bytes.fromhex("806f000100000000deadbeef") + b"opus"
    assert peers.ours.rx_srtp is not None and peers.peer.tx_srtp is not None
    assert peers.ours.rx_srtp.unprotect(peers.peer.tx_srtp.protect(packet)) == packet
    await peers.stop()


async def test_stock_certificate_cannot_reach_an_rsa_server() -> None:
    """Why there is a subclass; when this fails, it may go."""
    peers = Peers("client", RsaCertificate.generateCertificate())
    peers.ours = SecureTransport(peers.our_pipe, RTCCertificate.generateCertificate())
    await peers.shake_hands()
    assert peers.ours.state == "failed"
    await peers.stop()


@pytest.mark.parametrize("role", ["server", "client"])
async def test_dtls_1_0_is_refused_at_once(role: str) -> None:
    peers = Peers(role, OldCertificate.generateCertificate())
    await peers.shake_hands()
    assert peers.ours.state == "failed"
    await peers.stop()


@pytest.mark.parametrize("profile", [item.openssl_profile.decode() for item in SRTP_PROFILES])
async def test_peer_with_a_single_srtp_profile_connects(profile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    peers = Peers("server", RTCCertificate.generateCertificate())
    only = [item for item in SRTP_PROFILES if item.openssl_profile.decode() == profile]
    monkeypatch.setattr(peers.peer, "_srtp_profiles", only)
    await peers.shake_hands()
    assert peers.ours.state == "connected"
    await peers.stop()


async def test_peer_without_a_common_srtp_profile_fails_and_hangs_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    class Sha1Of32Bits:
        openssl_profile = b"SRTP_AES128_CM_SHA1_32"

    peers = Peers("server", RTCCertificate.generateCertificate())
    monkeypatch.setattr(peers.peer, "_srtp_profiles", [Sha1Of32Bits()])
    await peers.shake_hands()
    assert peers.ours.state == "failed"
    await peers.stop()


async def test_our_client_hello_is_one_small_datagram() -> None:
    """Small devices take no fragmented one, and some paths lose the fragments."""
    peers = Peers("client", RTCCertificate.generateCertificate())
    sizes: list[int] = []
    send = peers.our_pipe._send

    async def counting(data: bytes) -> None:
        sizes.append(len(data))
        await send(data)

    peers.our_pipe._send = counting  # type: ignore[method-assign]
    await peers.shake_hands()
    assert sizes[0] < 300 and max(sizes) < 1200
    await peers.stop()
