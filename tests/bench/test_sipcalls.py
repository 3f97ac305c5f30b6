"""Light phone calls against an exchange of a few lines, and through the whole server."""

from __future__ import annotations

import asyncio
import socket
from collections import Counter
from collections.abc import AsyncIterator, Callable

import pytest

from rtc_server.bench import servers, signals
from rtc_server.bench.client import ClientSpec
from rtc_server.bench.impairment import Uplink
from rtc_server.bench.loadrun import run_client
from rtc_server.bench.sipcall import SipCall
from rtc_server.bench.sipline import SipLine, sip_line
from rtc_server.bench.sipsignaling import SipSignaling, target_of
from rtc_server.bench.voice import LoopVoice
from rtc_server.errors import ConfigError, PeerError
from rtc_server.media import rtp
from rtc_server.transports.sip.message.message import Request, parse
from rtc_server.transports.sip.negotiation.agreedmedia import LocalMedia, MediaPolicy
from rtc_server.transports.sip.negotiation.offeranswer import MediaNegotiation
from rtc_server.transports.sip.transaction.derived import response_to

HOST = "127.0.0.1"
PACKETS = 5


class Exchange(asyncio.DatagramProtocol):
    """Takes every call with `statuses`, and says each packet back on a port of its own."""

    def __init__(self, *statuses: int, answers_cancelled: bool = False) -> None:
        self.statuses = statuses
        self.answers_cancelled = answers_cancelled
        """A CANCEL crosses the 200."""
        self.requests: Counter[str] = Counter()
        self.heard: list[bytes] = []
        self.echo = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.echo.bind((HOST, 0))
        self.echo.setblocking(False)

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self.transport, _ = await loop.create_datagram_endpoint(lambda: self, local_addr=(HOST, 0))
        loop.add_reader(self.echo, self._say_back)

    @property
    def url(self) -> str:
        return f"sip:100@{HOST}:{self.transport.get_extra_info('sockname')[1]}"

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self.echo)
        self.echo.close()
        self.transport.close()

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
        request = parse(data)
        assert isinstance(request, Request)
        self.requests[request.method] += 1
        if request.method == "ACK":
            return
        if request.method == "INVITE":
            self.invite = request
        for status in self.statuses if request.method == "INVITE" else (200,):
            self._respond(request, status, address)
        if request.method == "CANCEL" and self.answers_cancelled:
            self._respond(self.invite, 200, address)

    def _respond(self, request: Request, status: int, address: tuple[str, int]) -> None:
        response = response_to(request, status, "theirs")
        if request.method == "INVITE" and status == 200:
            media = LocalMedia(HOST, self.echo.getsockname()[1], 9)
            response.headers.set("Contact", f"<{self.url}>")
            response.headers.set("Content-Type", "application/sdp")
            response.body = MediaNegotiation(media, MediaPolicy(("PCMU",), "never")).answer_offer(request.body)
        self.transport.sendto(response.to_bytes(), address)

    def _say_back(self) -> None:
        data, source = self.echo.recvfrom(2048)
        self.heard.append(data)
        self.echo.sendto(data, source)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not holds():
            await asyncio.sleep(0.005)


@pytest.fixture
async def exchange() -> AsyncIterator[Exchange]:
    made = Exchange(100, 180, 200)
    await made.start()
    yield made
    made.close()


async def test_a_call_is_acknowledged_heard_and_hung_up(exchange: Exchange) -> None:
    async with sip_line(exchange.url) as line:
        call = await line.dial(7, Uplink())
        for number in range(PACKETS):
            call.send_packet(100.0 + number * signals.PACKET_S)
            await until(lambda: len(exchange.heard) == call.stream.sent)
        await call.first_packet()
        await until(lambda: len(call._raw) == PACKETS)
        received = call.received()
        await call.close()
        await call.close()
    assert exchange.requests == {"INVITE": 1, "ACK": 1, "BYE": 1}
    assert len({packet.sequence for packet in received}) == PACKETS
    assert {b.timestamp - a.timestamp for a, b in zip(received, received[1:], strict=False)} == {160}
    assert {len(packet.payload) for packet in received} == {160}
    assert call.setup.posted_s <= call.setup.answered_s <= call.setup.first_packet_s
    assert call.first_capture_s == 100.0 - signals.PACKET_S


async def test_each_call_says_the_loop_from_its_own_place_on(exchange: Exchange) -> None:
    async with sip_line(exchange.url) as line:
        first, second = await line.dial(0, Uplink()), await line.dial(1, Uplink())
        for call in (first, first, second):
            call.send_packet(1.0)
        await until(lambda: len(exchange.heard) == 3)
        await asyncio.gather(first.close(), second.close())
    _, said_second, said_by_other = [rtp.RtpPacket.parse(packet).payload for packet in exchange.heard]
    assert said_second == said_by_other


async def test_what_the_uplink_loses_is_never_sent(exchange: Exchange) -> None:
    uplink = Uplink(loss=0.999999)
    async with sip_line(exchange.url) as line:
        call = await line.dial(0, uplink)
        uplink.begin(0.0)
        call.send_packet(1.0)
        await call.close()
    assert (call.stream.sent, uplink.dropped, exchange.heard) == (1, 1, [])


async def test_a_decoder_gives_20_ms_for_each_packet_and_nothing_for_none(exchange: Exchange) -> None:
    signaling = SipSignaling(exchange.url)
    decode = SipLine(signaling).make_decoder()
    assert (decode(bytes(160)).size, decode(b"").size) == (480, 0)
    await signaling.close()


async def test_a_refusal_is_one_clear_message_and_is_acknowledged() -> None:
    busy = Exchange(486)
    await busy.start()
    async with sip_line(busy.url) as line:
        with pytest.raises(PeerError, match="refused the call: 486"):
            await line.dial(0, Uplink())
        await until(lambda: busy.requests["ACK"] == 1)
    assert busy.requests == {"INVITE": 1, "ACK": 1}
    busy.close()


async def test_a_200_that_comes_when_nobody_waits_any_more_is_acknowledged_and_hung_up() -> None:
    slow = Exchange(180, answers_cancelled=True)
    await slow.start()
    async with sip_line(slow.url) as line:
        dialling = asyncio.create_task(line.dial(0, Uplink()))
        await until(lambda: slow.requests["INVITE"] == 1)
        dialling.cancel()
        await asyncio.gather(dialling, return_exceptions=True)
        await until(lambda: slow.requests["BYE"] == 1)
    assert slow.requests == {"INVITE": 1, "CANCEL": 1, "ACK": 1, "BYE": 1}
    slow.close()


def test_a_url_that_is_no_sip_uri_is_a_wrong_setting() -> None:
    assert target_of("sip:100@127.0.0.1:5070;transport=tcp").transport == "tcp"
    for url in ("http://127.0.0.1", "sip:", "tel:+1555"):
        with pytest.raises(ConfigError, match="--url"):
            target_of(url)


async def test_a_call_that_was_never_up_sends_nothing_and_closes() -> None:
    signaling = SipSignaling("sip:100@127.0.0.1:5060")
    call = SipCall(signaling, LoopVoice([b"x"]))
    call.send_packet(1.0)
    assert call.received() == []
    await call.close()
    await signaling.close()


@pytest.mark.e2e
def test_a_server_of_our_own_is_measured_over_phone_calls() -> None:
    with servers.own_phone_server(3, None) as target:
        figures = run_client(target, ClientSpec(calls=2, seconds=4, connects=1))
    assert (figures["calls"], figures["connects"], figures["silent_calls"]) == (2, 3, 0)
    assert isinstance(figures["bursts"], int) and figures["bursts"] >= 4
    m2e_ms = figures["m2e_p50_ms"]
    assert isinstance(m2e_ms, float) and m2e_ms > 36  # a packet, and four resamplers
