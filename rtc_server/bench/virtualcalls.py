"""The calls of `losscalls` in virtual time: RTP session and jitter buffer alone, without server, sockets and waiting.

Ticks are on time to the microsecond and no machine is busy, so the figures are those of the algorithms, and the same
each time.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from rtc_server.bench.impairment import NetworkPath
from rtc_server.bench.listener import Recording
from rtc_server.bench.losscalls import STANDSTILL_S, TAIL_S, HeardCall, Script
from rtc_server.bench.sdp import OPUS_PAYLOAD_TYPE, RED_PAYLOAD_TYPE
from rtc_server.bench.signals import PACKET_S
from rtc_server.bench.stream import OutgoingStream
from rtc_server.bench.voice import SpeakingVoice
from rtc_server.engine.stepper import FRAME_S
from rtc_server.media import rtcp, rtp
from rtc_server.media.audioformat import AudioFormat
from rtc_server.media.pcm import to_int16
from rtc_server.transports.rtp.protection import PLAIN_RTP
from rtc_server.transports.rtp.session import RtpSession

BITRATE_BPS = 40_000
"""What our answers ask for."""


def heard_in_virtual_time(script: Script, calls: int) -> list[HeardCall]:
    """Takes about a second a call."""
    return [_VirtualCall(script, number, calls).run() for number in range(calls)]


class _VirtualCall:
    def __init__(self, script: Script, number: int, calls: int) -> None:
        self._script = script
        self._voice = SpeakingVoice(number)
        self._stream = OutgoingStream(self._voice)
        self._path = NetworkPath(script.network, f"{script.seed} {number}")
        self._now = 0.0
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._at_s: list[float] = []
        self._frames: list[NDArray[np.int16]] = []
        self._phase_s = np.random.default_rng(number).random() * FRAME_S
        self._without_pauses = script.without_pauses(number, calls)
        self._speech_at = 0
        self._lost = 0.0
        self._session = self._make_session(RED_PAYLOAD_TYPE if script.red else None)

    def _make_session(self, red_payload_type: int | None) -> RtpSession:
        self._stream.agreed(OPUS_PAYLOAD_TYPE, red_payload_type, BITRATE_BPS)
        session = RtpSession(1, "virtual", self._to_caller, lambda: self._now)
        session.negotiated(
            AudioFormat("opus", OPUS_PAYLOAD_TYPE, 48_000, red_payload_type, max_bitrate_bps=BITRATE_BPS)
        )
        session.start(PLAIN_RTP, PLAIN_RTP)
        return session

    def run(self) -> HeardCall:
        script = self._script
        calm_at_s = script.lead_s + script.speech.seconds + TAIL_S
        standstill_at_s = calm_at_s + script.calm_s
        standstill_end_s = standstill_at_s + STANDSTILL_S
        end_s = standstill_end_s + script.after_s
        self._at(PACKET_S, self._speak)
        self._at(self._phase_s, self._tick)
        self._at(script.lead_s, self._begin_speech)
        self._at(calm_at_s, self._calm_down)
        self._at(standstill_at_s, lambda: self._path.stand_still(self._now, STANDSTILL_S))
        while self._agenda[0][0] <= end_s:
            self._now, _, action = heapq.heappop(self._agenda)
            action()
        return HeardCall(
            clean=self._voice.clean(),
            captured_s=0.0,
            recording=Recording(np.array(self._at_s), np.array(self._frames)),
            speech_at=self._speech_at,
            standstill_end_s=standstill_end_s,
            live_s=(self._phase_s, end_s),
            lost=self._lost,
        )

    def _at(self, when_s: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._agenda, (when_s, next(self._order), action))

    def _speak(self) -> None:
        """A packet leaves when its last sample was captured."""
        packet = self._stream.next_packet()
        for arrival_s in self._path.arrivals(self._now, len(packet)):
            self._at(arrival_s, lambda: self._receive(packet))
        self._at((self._stream.sent + 1) * PACKET_S, self._speak)

    def _receive(self, packet: bytes) -> None:
        self._session.receive(packet)

    def _tick(self) -> None:
        self._at_s.append(self._now)
        self._frames.append(to_int16(self._session.jitter_buffer.take(self._now)))
        self._session.report_when_due(self._now)
        self._at(self._phase_s + len(self._frames) * FRAME_S, self._tick)

    def _to_caller(self, data: bytes) -> bool:
        if rtp.is_rtcp(data):
            self._stream.reported(rtcp.parse(data))
        return True

    def _begin_speech(self) -> None:
        self._speech_at = self._voice.say(self._script.speech.pcm)

    def _calm_down(self) -> None:
        self._lost = self._path.lost / self._path.sent
        self._path = NetworkPath(self._script.calm)
        self._voice.say(self._without_pauses)
