"""A phone in the test's own process: its signalling is a script, its audio PCMU over a real port.

When packets arrive is what the kernel says: a test that is late is not taken for a server that is.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import Counter, deque
from dataclasses import dataclass
from typing import Self

import numpy as np

from rtc_server.bench.stampedsocket import Address, StampedSocket
from rtc_server.media.frames import SAMPLE_RATE
from rtc_server.media.g711 import RATE_HZ, G711Encoder, levels
from rtc_server.media.rtp import RtpPacket, write_packet
from rtc_server.transports.sip.flow import Flow
from rtc_server.transports.sip.message.message import Request
from rtc_server.transports.sip.negotiation.sdp import read_description
from tests.e2e import speech
from tests.e2e.listen import Recording
from tests.e2e.speech import Pcm, resampled
from tests.transports.sip.call.phone import Phone, sdp

WITHIN_S = 10.0
PACKET_S = 0.02
PCMU = 0
_FRAME_SAMPLES = round(SAMPLE_RATE * PACKET_S)
_PACKET_SAMPLES = round(RATE_HZ * PACKET_S)
_GRANTED = ("BYE", "OPTIONS", "UPDATE")


@dataclass(frozen=True, slots=True)
class Arrival:
    at_s: float
    packet: RtpPacket


class LivePhone(Phone):
    """One call. To be closed; what it hears and says is mono.

    Args:
        server: where its SIP goes.
        number: whom it calls.
        host: its own address.
        port: where its SIP comes; any that is free by default.
    """

    def __init__(self, server: Address, number: str, host: str = "127.0.0.1", port: int = 0) -> None:
        self._sip = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._sip.setblocking(False)
        self._sip.bind((host, port))
        self._rtp = StampedSocket(host)
        self.server = server
        super().__init__(lambda data, flow: self._give(data), Flow("udp", server, self._sip.getsockname()))
        self.target = f"sip:{number}@{server[0]}:{server[1]}"
        self._to = f"<{self.target}>"
        self.offer = sdp("0 PCMU/8000", "101 telephone-event/8000", port=self._rtp.port, address=host)
        self.arrivals: list[Arrival] = []
        self._names: deque[str] = deque()
        self._news = asyncio.Event()
        self._words: deque[Pcm] = deque()
        self._talking: asyncio.Task[None] | None = None
        loop = asyncio.get_running_loop()
        loop.add_reader(self._sip, self._read_sip)
        loop.add_reader(self._rtp.fileno(), self._read_rtp)

    @property
    def place(self) -> Address:
        """Where its SIP leaves and comes."""
        host, port = self.flow.remote
        return host, port

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Without a goodbye; may be called twice."""
        if self._talking is not None:
            self._talking.cancel()
            await asyncio.gather(self._talking, return_exceptions=True)
        if self._sip.fileno() >= 0:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._sip)
            loop.remove_reader(self._rtp.fileno())
            self._sip.close()
            self._rtp.close()

    # ---- signalling --------------------------------------------------------------------------------------------------

    async def until(self, *names: str, within_s: float = WITHIN_S) -> str:
        """The next message that is one of these methods or statuses; what comes before it is passed over."""
        try:
            async with asyncio.timeout(within_s):
                while True:
                    while self._names:
                        if (name := self._names.popleft()) in names:
                            return name
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            came = [line.to_bytes().split(b"\r\n")[0].decode() for line in self.received[-20:]]
            raise AssertionError(f"no {' or '.join(names)} within {within_s} s, but {came}") from None

    async def call(self, says: Pcm | None = None) -> None:
        """Be answered, and begin to speak."""
        self.invite(self.offer)
        await self.until("200")
        self.ack()
        self.talk()
        if says is not None:
            self.say(says)

    async def hang_up(self) -> None:
        self.send("BYE")
        await self.until("200")
        if self._talking is not None:
            self._talking.cancel()

    def receive(self, datagram: bytes) -> None:
        super().receive(datagram)
        message = self.received[-1]
        if isinstance(message, Request):
            if message.method in _GRANTED and not self.mute:
                self.answer(200, to=message.method)
            self._names.append(message.method)
        else:
            self._names.append(str(message.status))
        self._news.set()

    def _read_sip(self) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionError):
            while True:
                self.receive(self._sip.recv(65_535))

    def _give(self, data: bytes) -> None:
        self._sip.sendto(data, self.server)

    # ---- audio -------------------------------------------------------------------------------------------------------

    def talk(self) -> None:
        """Send a packet every 20 ms from now on: what is said, and silence."""
        self._talking = asyncio.create_task(self._talk(self.remote), name="live-phone")

    @property
    def remote(self) -> Address:
        """Where the server takes its audio."""
        body = next(message.body for message in reversed(self.received) if message.body)
        (section,) = [section for section in read_description(body) if section.kind == "audio"]
        return self.server[0], section.port

    def say(self, pcm: Pcm) -> float:
        """Behind what is being said already: samples at 48 kHz. How many seconds they take."""
        frames = resampled(pcm, speech.RATE_HZ, SAMPLE_RATE)
        self._words.extend(frames[: len(frames) // _FRAME_SAMPLES * _FRAME_SAMPLES].reshape(-1, _FRAME_SAMPLES))
        return len(pcm) / speech.RATE_HZ

    async def _talk(self, remote: Address) -> None:
        loop, encoder, number = asyncio.get_running_loop(), G711Encoder("PCMU"), 0
        began_s, nothing = loop.time(), np.zeros(_FRAME_SAMPLES, np.float32)
        while True:
            payload = encoder.encode(self._words.popleft() if self._words else nothing)
            with contextlib.suppress(OSError):
                self._rtp.send(write_packet(PCMU, number, number * _PACKET_SAMPLES, 7, payload, number == 0), remote)
            number += 1
            await asyncio.sleep(max(0.0, began_s + number * PACKET_S - loop.time()))

    def _read_rtp(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                arrival = self._rtp.receive()
                self.arrivals.append(Arrival(arrival.at_s, RtpPacket.parse(arrival.data)))

    def heard(self) -> Recording:
        """All sound so far, each packet where its timestamp puts it; `start_s` is on the loop's clock."""
        audio = [arrival for arrival in self.arrivals if arrival.packet.payload_type == PCMU]
        if not audio:
            return Recording(np.zeros(0, np.float32), RATE_HZ)
        first = audio[0].packet.timestamp
        places = [(arrival.packet.timestamp - first) % (1 << 32) for arrival in audio]
        pcm = np.zeros(max(places) + _PACKET_SAMPLES, np.float32)
        for place, arrival in zip(places, audio, strict=True):
            sound = levels("PCMU")[np.frombuffer(arrival.packet.payload, np.uint8)]
            pcm[place : place + len(sound)] = sound
        return Recording(pcm, RATE_HZ, audio[0].at_s - PACKET_S)

    def gaps_s(self, since_s: float = 0.0) -> Pcm:
        """Between one packet's arrival and the next one's."""
        return np.diff([arrival.at_s for arrival in self.arrivals if arrival.at_s >= since_s])

    def assert_whole(self) -> None:
        """No packet is missing, none came twice, none of somebody else's."""
        assert len({arrival.packet.ssrc for arrival in self.arrivals}) == 1
        numbers = [arrival.packet.sequence_number for arrival in self.arrivals]
        steps = Counter((after - before) % (1 << 16) for before, after in zip(numbers, numbers[1:], strict=False))
        assert set(steps) == {1}, steps


def share_at(heard: Recording, hz: float, width_hz: float = 30.0) -> float:
    """How much of the energy lies around a frequency, 0..1."""
    power = np.square(np.abs(np.fft.rfft(heard.pcm * np.hanning(len(heard.pcm)))))
    frequencies = np.fft.rfftfreq(len(heard.pcm), 1 / heard.rate_hz)
    return float(power[np.abs(frequencies - hz) < width_hz].sum() / power.sum())
