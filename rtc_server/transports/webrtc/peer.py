"""One caller over WebRTC: connects by itself, carries audio and events, frees everything whatever happens."""

from __future__ import annotations

import asyncio
import dataclasses
import secrets
from collections.abc import Callable, Sequence

from aiortc import RTCCertificate

from rtc_server import metrics
from rtc_server.engine.client import Live
from rtc_server.errors import BadOffer, PeerError
from rtc_server.events import Numbered
from rtc_server.log import get_logger
from rtc_server.media.frames import FRAME_SAMPLES, SAMPLE_RATE, SAMPLES_PER_MS
from rtc_server.media.jitterbuffer import JitterBuffer
from rtc_server.media.playout import Playout
from rtc_server.session.leg import FloatFrame, Flushed, LegHandler, LegStats
from rtc_server.transports.pacer import Pacer
from rtc_server.transports.rtp.session import RtpSession
from rtc_server.transports.webrtc.connection import Connection
from rtc_server.transports.webrtc.datachannel import EventChannel
from rtc_server.transports.webrtc.ice import Credentials
from rtc_server.transports.webrtc.negotiation import answer_offer
from rtc_server.transports.webrtc.ourside import describe
from rtc_server.transports.webrtc.sdp import Negotiated
from rtc_server.transports.webrtc.tracks import AgentAudioTrack, UserAudioTrack
from rtc_server.transports.webrtc.udp_mux import UdpMux

GOODBYE_S = 0.1
"""How long the last events may take to leave before the association is torn down."""

logger = get_logger(__name__)


class WebRtcLeg:
    """A `session.leg.Leg` over ICE-lite, DTLS-SRTP and a data channel."""

    kind = "webrtc"

    def __init__(
        self,
        *,
        mux: UdpMux,
        pacer: Pacer,
        certificate: RTCCertificate,
        addresses: Sequence[str],
        peers_on_loopback: bool,
        handler: LegHandler,
        ice_timeout_s: float,
        dtls_timeout_s: float,
        dtx: bool,
        clock: Callable[[], float],
    ) -> None:
        self.id = secrets.token_hex(4)
        self.agent_audio = AgentAudioTrack(Playout(), paced=True, clock=clock)
        self._local = describe(certificate, addresses, mux.port, peers_on_loopback)
        self.connection = Connection(mux, certificate, self._local.credentials, self._on_lost, self._on_defect, clock)
        self._pacer = pacer
        self._handler = handler
        self._ice_timeout_s = ice_timeout_s
        self._dtls_timeout_s = dtls_timeout_s
        self._clock = clock
        self._started_s = clock()
        self._connected_s: float | None = None
        self._rtp = RtpSession(self._local.ssrc, self._local.cname, self.connection.send, clock, dtx)
        self.user_audio: UserAudioTrack
        self._events = EventChannel(handler.on_message, self._on_events_lost, clock)
        self._negotiated: Negotiated | None = None
        self._on_freed: Callable[[WebRtcLeg], None] = lambda leg: None
        self._connecting: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None

    # ---- offers ------------------------------------------------------------------------------------------------------

    def open(self, offer_sdp: str, on_freed: Callable[[WebRtcLeg], None]) -> str:
        """Answer the first offer, and wait for the peer in a task of its own.

        Raises: BadOffer, UnsupportedOffer; the leg then holds nothing and must not be used.
        """
        self._adopt(answer_offer(offer_sdp, self._local))
        self.user_audio = UserAudioTrack(self.jitter_buffer)
        self._on_freed = on_freed
        self.connection.listen(self._agreed)
        self._connecting = asyncio.get_running_loop().create_task(self._connect(), name=f"webrtc-connect {self.id}")
        return self._agreed.answer_sdp

    async def renegotiate(self, offer_sdp: str) -> str:
        """Answer a later offer of the same call. Audio goes on without a gap.

        Raises: BadOffer, UnsupportedOffer; the call then goes on as it was.
        """
        if self._closing is not None:
            raise BadOffer("the call has ended", hint="start a new session")
        was_silent = not self.expects_audio
        agreed = answer_offer(offer_sdp, self._local, self._agreed)
        self._adopt(agreed)
        if agreed.restarts_ice:
            self._restart_ice()
        if was_silent and self.expects_audio:
            self._rtp.last_audio_s = self._clock()  # off hold: silence counts from here
        if self._connected_s is not None:
            await self._start_events()
        return agreed.answer_sdp

    def _restart_ice(self) -> None:
        """The answer has said our fresh credentials: use them, and have others for the next restart."""
        credentials = self._local.fresh_credentials
        self._local = dataclasses.replace(self._local, credentials=credentials, fresh_credentials=Credentials.random())
        self.connection.restart_ice(credentials, self._agreed)

    @property
    def _agreed(self) -> Negotiated:
        assert self._negotiated is not None
        return self._negotiated

    def _adopt(self, negotiated: Negotiated) -> None:
        self._negotiated = negotiated
        self._rtp.negotiated(negotiated.audio)

    @property
    def jitter_buffer(self) -> JitterBuffer:
        return self._rtp.jitter_buffer

    # ---- session.leg.Leg ---------------------------------------------------------------------------------------------

    @property
    def expects_audio(self) -> bool:
        return self._agreed.expects_audio

    @property
    def last_audio_s(self) -> float:
        return self._rtp.last_audio_s or self._connected_s or self._started_s

    @property
    def last_sign_of_life_s(self) -> float:
        """The last authenticated check, or message on the event channel."""
        return max(self.connection.agent.last_check_s or self._started_s, self._events.last_message_s)

    @property
    def live(self) -> Live:
        return Live.YES

    @property
    def input_ended(self) -> bool:
        return False

    def take(self, now: float) -> FloatFrame:
        return self.user_audio.take(now)

    def skip(self, frames: int) -> int:
        self.user_audio.skip(frames)
        return frames

    def write(self, now: float, pcm: FloatFrame) -> int:
        return self._rtp.timestamp(self.agent_audio.write(now, pcm))

    def flush(self, now: float) -> Flushed:
        played, dropped = self.agent_audio.flush(now)
        return Flushed(played_ms=played // SAMPLES_PER_MS, dropped_ms=dropped // SAMPLES_PER_MS)

    def played_ms(self) -> int:
        return self.agent_audio.playout.played_samples // SAMPLES_PER_MS

    @property
    def has_events(self) -> bool:
        return self._agreed.sctp is not None

    @property
    def event_room(self) -> int:
        return self._events.room

    def send_event(self, numbered: Numbered) -> None:
        if self.has_events:
            self._events.send(numbered)

    def stats(self) -> LegStats:
        playout, counters = self.agent_audio.playout, self.jitter_buffer.counters
        round_trip_s = self._rtp.round_trip_s
        return LegStats(
            loss=self._rtp.loss,
            jitter_delay_ms=self.jitter_buffer.delay_ms,
            concealed_ms=counters.concealed_samples // SAMPLES_PER_MS,
            round_trip_ms=None if round_trip_s is None else round_trip_s * 1000,
            playout_delay_ms=max(0, playout.queued_samples - FRAME_SAMPLES) / SAMPLES_PER_MS,
            lateness_ms=self._rtp.take_worst_lateness_s() * 1000,
        )

    async def close(self, reason: str) -> None:
        """Say goodbye (RTCP BYE, SCTP ABORT, DTLS close_notify) and free everything. May be called twice."""
        if self._closing is None:
            loop = asyncio.get_running_loop()
            self._closing = loop.create_task(self._shut_down(reason), name=f"webrtc-close {self.id}")
        await asyncio.shield(self._closing)

    # ---- transports.pacer.PacketSender -------------------------------------------------------------------------------

    def send_packet(self, slot_s: float) -> None:
        packet = self.agent_audio.next_packet(slot_s)
        if self._agreed.sends_audio:
            self._rtp.send_audio(slot_s, packet)
        self._rtp.report_when_due(self._clock())

    def fail(self, reason: str) -> None:
        self._end(reason)

    # ---- connecting --------------------------------------------------------------------------------------------------

    async def _connect(self) -> None:
        try:
            await self.connection.connect(self._agreed.remote_fingerprints, self._ice_timeout_s, self._dtls_timeout_s)
            self._go_live()
            await self._start_events()
        except PeerError as error:
            logger.info("leg did not connect", leg=self.id, code=error.code)
            self._end(error.code)
        except Exception:
            logger.exception("leg failed while connecting", leg=self.id)
            self._end("internal_error")

    def _go_live(self) -> None:
        self._connected_s = self._clock()
        self._rtp.start(*self.connection.srtp_sessions())
        self.connection.receive_media(self._rtp.receive)
        self._pacer.add(self)
        self._handler.on_connected()

    async def _start_events(self) -> None:
        """Start SCTP if it is agreed on. The channel itself is the client's to open."""
        if self._agreed.sctp is not None:
            await self.connection.associate(self._agreed.sctp, self._events.attach)

    # ---- the end -----------------------------------------------------------------------------------------------------

    def _on_lost(self) -> None:
        self._end("peer_closed")

    def _on_events_lost(self) -> None:
        # A closed channel is the client's choice; a closed association is its goodbye (SCTP ABORT).
        if not self.connection.associated:
            self._end("peer_closed")

    def _on_defect(self, error: Exception) -> None:
        if self._closing is None and self._ending is None:
            logger.error("leg cannot receive", leg=self.id, exc_info=error)
            self._end("internal_error")

    def _end(self, reason: str) -> None:
        """Close by ourselves, and tell."""
        if self._closing is None and self._ending is None:
            loop = asyncio.get_running_loop()
            self._ending = loop.create_task(self._close_and_tell(reason), name=f"webrtc-end {self.id}")

    async def _close_and_tell(self, reason: str) -> None:
        asked_for = self._closing is not None
        await self.close(reason)
        if not asked_for:
            self._handler.on_leg_closed(reason)

    async def _shut_down(self, reason: str) -> None:
        self._pacer.remove(self)
        if self._connecting is not None:
            self._connecting.cancel()
        try:
            if self.connection.connected:
                self._rtp.send_bye()
                await self._events.drain(GOODBYE_S)
            await self.connection.close()
        except Exception:
            logger.exception("leg did not say goodbye", leg=self.id)
        finally:
            self.user_audio.stop()
            self.agent_audio.stop()
            self._on_freed(self)
        self._count_repairs()
        await asyncio.sleep(0)  # the tasks cancelled above get their last turn
        logger.info("leg closed", leg=self.id, reason=reason, path_switches=self.connection.agent.path_switches)

    def _count_repairs(self) -> None:
        counters = self.jitter_buffer.counters
        metrics.PACKETS_RECOVERED.inc(counters.recovered_packets)
        metrics.FEC_SECONDS.inc(counters.fec_samples / SAMPLE_RATE)
        metrics.CONCEALED_SECONDS.inc(counters.concealed_samples / SAMPLE_RATE)
