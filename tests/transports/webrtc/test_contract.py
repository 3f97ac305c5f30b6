"""What this server takes from aiortc beyond its public classes. When one of these fails, aiortc has moved something."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path

import aiortc
import pytest
from aiortc import RTCCertificate, RTCDtlsFingerprint, RTCDtlsParameters, RTCDtlsTransport, RTCSctpTransport
from aiortc.rtcsctptransport import InitChunk, RTCSctpCapabilities, serialize_packet

import rtc_server
from rtc_server.events import MAX_MESSAGE_BYTES
from rtc_server.transports.webrtc import contract
from rtc_server.transports.webrtc.contract import EventSctp, SecureTransport, is_init, missing_names
from tests.transports.webrtc.pipes import pipe
from tests.transports.webrtc.waiting import eventually


async def test_aiortc_has_every_private_name_that_is_used() -> None:
    missing = missing_names(pipe()[0])
    assert not missing, f"aiortc {aiortc.__version__} has moved: {', '.join(missing)}"


def test_overridden_methods_take_what_they_took() -> None:
    assert list(inspect.signature(RTCDtlsTransport._send_data).parameters) == ["self", "data"]
    assert list(inspect.signature(RTCSctpTransport._handle_data).parameters) == ["self", "data"]
    assert list(inspect.signature(RTCSctpTransport._update_rto).parameters) == ["self", "R"]
    assert list(inspect.signature(RTCCertificate._create_ssl_context).parameters) == ["self", "srtp_profiles"]
    assert inspect.iscoroutinefunction(RTCDtlsTransport._send_data)
    assert inspect.iscoroutinefunction(RTCSctpTransport._handle_data)


@pytest.mark.parametrize(
    "name",
    ["_rx_srtp", "_tx_srtp", "_sack_misordered", "_advertised_rwnd", "_handle_data", "_rto", "_create_ssl_context"],
)
def test_private_names_of_aiortc_stand_in_one_file_only(name: str) -> None:
    root = Path(rtc_server.__file__).parent
    users = [path.name for path in root.rglob("*.py") if name in path.read_text().replace("worst", "")]
    assert users == ["contract.py"]


class InitKeeper(SecureTransport):
    """Remembers the first SCTP INIT that it sends."""

    async def _send_data(self, data: bytes) -> None:
        if is_init(data) and not self.first_init:
            self.first_init = data
        await super()._send_data(data)

    first_init = b""


class Ends:
    """Two DTLS transports over a pipe, ours as the server, and SCTP on them."""

    def __init__(self) -> None:
        self.server_pipe, self.client_pipe = pipe()
        self.server = SecureTransport(self.server_pipe, RTCCertificate.generateCertificate())
        self.client_pipe.role = "controlled"
        self.client = InitKeeper(self.client_pipe, RTCCertificate.generateCertificate())

    async def connect(self) -> None:
        def parameters(of: SecureTransport) -> RTCDtlsParameters:
            return of.getLocalParameters()

        await asyncio.gather(
            self.server.start(parameters(self.client)),
            self.client.start(parameters(self.server)),
        )
        assert (self.server.state, self.client.state) == ("connected", "connected")

    async def associate(self, server: RTCSctpTransport, client: RTCSctpTransport) -> None:
        await asyncio.gather(
            server.start(RTCSctpCapabilities(65536), 5000), client.start(RTCSctpCapabilities(65536), 5000)
        )
        await eventually(lambda: server.state == client.state == "connected")

    async def stop(self) -> None:
        await self.server.stop()
        await self.client.stop()
        self.server_pipe.close()
        self.client_pipe.close()
        await asyncio.sleep(0)


async def test_controlling_side_is_the_dtls_server_and_srtp_keys_match() -> None:
    ends = Ends()
    await ends.connect()
    assert ends.server.rx_srtp is not None and ends.client.tx_srtp is not None
    packet = bytes.fromhex("806f000100000000deadbeef") + b"opus"
    assert ends.server.rx_srtp.unprotect(ends.client.tx_srtp.protect(packet)) == packet
    await ends.stop()


async def test_wrong_fingerprint_fails_the_handshake() -> None:
    ends = Ends()
    wrong = RTCDtlsParameters(fingerprints=[RTCDtlsFingerprint("sha-256", ":".join(["00"] * 32))])
    client = asyncio.ensure_future(ends.client.start(ends.server.getLocalParameters()))
    await ends.server.start(wrong)
    assert ends.server.state == "failed"
    client.cancel()
    await ends.stop()


async def echoes(server: RTCSctpTransport, client: RTCSctpTransport, ends: Ends, sizes: list[int]) -> list[int]:
    """Sizes that came back over a data channel of the client, each within 2 s, with a late INIT before the last."""
    back: asyncio.Queue[bytes] = asyncio.Queue()
    server.on("datachannel", lambda channel: channel.on("message", channel.send))
    channel = aiortc.RTCDataChannel(client, aiortc.RTCDataChannelParameters(label="events"))
    opened = asyncio.Event()
    channel.on("open", opened.set)
    channel.on("message", back.put_nowait)
    await asyncio.wait_for(opened.wait(), 5)
    for _ in range(5):
        channel.send(b"before")
        await asyncio.wait_for(back.get(), 5)
    await ends.client._send_data(ends.client.first_init)
    received = []
    for size in sizes:
        channel.send(bytes(size))
        try:
            received.append(len(await asyncio.wait_for(back.get(), 2)))
        except TimeoutError:
            break
    return received


@pytest.mark.parametrize(("kind", "survives"), [(EventSctp, True), (RTCSctpTransport, False)])
async def test_late_init_does_not_stop_inbound_data(kind: type[RTCSctpTransport], survives: bool) -> None:
    """The second row shows the defect that the guard is for; when it passes, aiortc has mended it."""
    ends = Ends()
    await ends.connect()
    server, client = kind(ends.server), RTCSctpTransport(ends.client)
    await ends.associate(server, client)
    sizes = [10, 60_000, 60_000]
    assert (await echoes(server, client, ends, sizes) == sizes) is survives
    await server.stop()
    await client.stop()
    await ends.stop()


IPV6_PATH_BYTES = 1280
UDP_OVER_IPV6_BYTES = 40 + 8
CHANNEL_DATA_BYTES = 4
"""What TURN puts around a datagram on the way to the client (RFC 8656 section 12.4)."""


async def test_largest_events_fit_every_ipv6_path_and_turn_too() -> None:
    ends = Ends()
    await ends.connect()
    server, client = EventSctp(ends.server), RTCSctpTransport(ends.client)
    await ends.associate(server, client)
    sizes: list[int] = []
    send = ends.server_pipe._send

    async def measuring(data: bytes) -> None:
        sizes.append(len(data))
        await send(data)

    ends.server_pipe._send = measuring  # type: ignore[method-assign]
    messages = [1, 1159, 1160, 1161, 5000, MAX_MESSAGE_BYTES]
    assert await echoes(server, client, ends, messages) == messages
    assert max(sizes) == 1225, "SCTP 1188, DTLS 37"
    assert max(sizes) + CHANNEL_DATA_BYTES + UDP_OVER_IPV6_BYTES <= IPV6_PATH_BYTES
    await server.stop()
    await client.stop()
    await ends.stop()


async def test_longer_packets_that_a_peer_provokes_are_not_sent() -> None:
    ends = Ends()
    await ends.connect()
    sent: list[bytes] = []
    send = ends.server_pipe._send

    async def measuring(data: bytes) -> None:
        sent.append(data)
        await send(data)

    ends.server_pipe._send = measuring  # type: ignore[method-assign]
    await ends.server._send_data(bytes(contract.MAX_PACKET_BYTES + 1))
    assert not sent
    await ends.server._send_data(bytes(contract.MAX_PACKET_BYTES))
    assert len(sent) == 1
    await ends.stop()


async def test_own_init_is_never_copied() -> None:
    ends = Ends()
    await ends.connect()
    assert ends.server_pipe.once == 0
    sctp = EventSctp(ends.server)
    await sctp.start(RTCSctpCapabilities(65536), 5000)
    assert ends.server_pipe.once == 1
    await sctp.stop()
    await ends.stop()


async def test_timers_are_quick() -> None:
    ends = Ends()
    sctp = EventSctp(ends.server)
    assert sctp._rto == contract.RTO_INITIAL_S
    sctp._update_rto(0.001)
    assert sctp._rto == contract.RTO_MIN_S
    sctp._update_rto(100.0)
    assert sctp._rto == contract.RTO_MAX_S


async def test_malformed_chunks_of_a_peer_do_not_end_the_association() -> None:
    ends = Ends()
    await ends.connect()
    server, client = EventSctp(ends.server), RTCSctpTransport(ends.client)
    await ends.associate(server, client)
    open_cut_off = b"\x03\x00\x00\x00\x00\x00\x00\x00\xff\xff\x00\x00\xff\xfe"
    await client._send(7, 50, open_cut_off)  # a DATA_CHANNEL_OPEN whose label is not UTF-8
    await client._send(7, 51, b"\xff\xfe")  # a string that is not UTF-8
    two_inits = serialize_packet(5000, 5000, 0, InitChunk())
    await ends.client._send_data(two_inits + two_inits[12:])
    assert await echoes(server, client, ends, []) == []
    assert server.state == "connected"
    await server.stop()
    await client.stop()
    await ends.stop()


async def test_peer_that_opens_channels_without_end_is_cut_off() -> None:
    ends = Ends()
    await ends.connect()
    server, client = EventSctp(ends.server), RTCSctpTransport(ends.client)
    await ends.associate(server, client)
    for _ in range(contract.MAX_DATA_CHANNELS + 2):
        aiortc.RTCDataChannel(client, aiortc.RTCDataChannelParameters(label="events"))
    await eventually(lambda: server.state == "closed")
    await client.stop()
    await ends.stop()


async def test_sctp_of_a_lost_dtls_is_quiet() -> None:
    ends = Ends()
    await ends.connect()
    server, client = EventSctp(ends.server), RTCSctpTransport(ends.client)
    await ends.associate(server, client)
    ends.server_pipe.close()
    await eventually(lambda: ends.server.state == "closed")
    await server._transmit_reconfig()
    await server._send(1, 51, b"lost")  # what a timer would do
    await server.stop()
    assert server.state == "closed"
    await client.stop()
    await ends.stop()
