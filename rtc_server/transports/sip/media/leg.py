"""One caller on the phone, as far as audio goes: RTP over a pair of ports, to and from a session."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

import numpy as np

from rtc_server import metrics
from rtc_server.engine.client import Live
from rtc_server.errors import BadRequest, NotConnected
from rtc_server.events import Numbered
from rtc_server.log import get_logger
from rtc_server.media.frames import FRAME_SAMPLES, SAMPLE_RATE, SAMPLES_PER_MS
from rtc_server.media.playout import Playout
from rtc_server.session.leg import FloatFrame, Flushed, LegHandler, LegStats
from rtc_server.transports.pacer import Pacer
from rtc_server.transports.rtp.session import RtpSession
from rtc_server.transports.sip.flow import Address
from rtc_server.transports.sip.media.latch import Latch
from rtc_server.transports.sip.media.rtpport import RtpPort
from rtc_server.transports.sip.media.srtp import SrtpContexts
from rtc_server.transports.sip.negotiation.agreedmedia import AgreedMedia
from rtc_server.transports.sip.sparselog import SparseLog

EVENT_ROOM = 64
"""Events that are taken at once. Who hears them has a bound of its own."""
LINES = 3
"""Of the log, a minute, about where the audio of one call comes from."""

logger = get_logger(__name__)


class SipLeg:
    """A `session.leg.Leg` over RTP or SRTP. The dialog that belongs to it is somebody else's.

    `agree` comes first, and again behind each offer and answer; audio flows from `answer` on. The leg owns its port
    and frees it when it ends.

    Args:
        port: bound, and unused.
        believed_s: how long the dialog is taken to stand without any proof. A session timer, or the probe of the call,
            ends it before.
        on_event: hears every event of the session.
        on_close: the leg has ended, because the session has closed it or by a defect.
    """

    kind = "sip"

    def __init__(
        self,
        port: RtpPort,
        pacer: Pacer,
        clock: Callable[[], float] = time.monotonic,
        *,
        believed_s: float,
        on_event: Callable[[Numbered], None],
        on_close: Callable[[str], None],
    ) -> None:
        self.id = secrets.token_hex(4)
        self.handler: LegHandler
        """Hears digits, and of an end by itself. To be set at once."""
        self._port = port
        self._pacer = pacer
        self._clock = clock
        self._believed_s = believed_s
        self._on_event = on_event
        self._on_close = on_close
        self._started_s = self._proved_s = clock()
        self._ended_s: float | None = None
        self._answered = False
        self._held = False
        """What the other end plays meanwhile is music, not speech."""
        self._agreed: AgreedMedia | None = None
        self._latch = Latch(port.former)
        self._lines = SparseLog(logger, LINES, LINES)
        self._contexts = SrtpContexts()
        self._playout = Playout()
        self._rtp = RtpSession(
            secrets.randbits(32) or 1,
            secrets.token_hex(8),
            self._send_rtp,
            clock,
            send_rtcp=self._send_rtcp,
            on_digit=self._hear_digit,
        )
        port.listen(self._receive_rtp, self._receive_rtcp)

    # ---- the call ----------------------------------------------------------------------------------------------------

    def agree(self, agreed: AgreedMedia, peer_host: str | None = None) -> None:
        """Send and receive this from now on.

        Args:
            peer_host: where the signalling comes from, an IP literal: its RTP may come from there at any time, and a
                private address in the description of a host that is none is not sent to.

        Raises: MissingLibrary, for Opus without libopus; then all stays as it was.
        """
        was_silent = not self.expects_audio
        self._rtp.negotiated(agreed.audio, agreed.telephone_event, agreed.ptime_ms)
        self._agreed = agreed
        self._rtp.start(*self._contexts.of(agreed.srtp))
        self._latch.negotiated(
            self._clock(),
            agreed.remote_rtp,
            agreed.remote_rtcp,
            _payload_types(agreed),
            authenticated=agreed.srtp is not None,
            muxed=agreed.rtcp_mux,
            peer_host=peer_host,
        )
        if was_silent and self._answered:
            self._rtp.last_audio_s = self._clock()  # silence counts from here

    def hold(self, held: bool) -> None:
        """Whether the other end has put the call on hold: then the agent hears silence, whatever comes."""
        if self._held and not held:
            self._rtp.last_audio_s = self._clock()
        self._held = held

    def answer(self) -> None:
        """The call is answered: audio flows both ways. May be called twice."""
        if self._answered or self._ended_s is not None:
            return
        self._answered = True
        self._rtp.last_audio_s = self._proved_s = self._clock()
        self._pacer.add(self)

    def keep_alive(self) -> None:
        """The dialog has just proved to stand: a request in it, a refresh, an answer to a question of ours."""
        self._proved_s = self._clock()

    def send_digits(self, digits: str) -> None:
        """Send them as telephone events, one after the other; the agent is not heard meanwhile.

        Raises: BadRequest, for what is no key of a phone, or where the other end takes no telephone events;
            NotConnected; DigitsPending.
        """
        if self._agreed is None:
            raise NotConnected("the call has no media yet", hint="send digits a moment later")
        if self._agreed.telephone_event is None:
            hint = "its phone or trunk has to offer telephone-event (RFC 4733)"
            raise BadRequest("cannot send digits: the other end takes no telephone events", hint=hint)
        try:
            self._rtp.send_digits(digits)
        except ValueError as error:
            raise BadRequest(f"cannot send digits: {error}", hint="keys are 0-9, A-D, * and #") from error

    # ---- session.leg.Leg ---------------------------------------------------------------------------------------------

    @property
    def expects_audio(self) -> bool:
        agreed = self._agreed
        return self._answered and agreed is not None and agreed.expects_audio and not self._held

    @property
    def last_audio_s(self) -> float:
        return self._rtp.last_audio_s or self._started_s

    @property
    def last_sign_of_life_s(self) -> float:
        """Now, while the dialog counts as standing, as its session timer says; a muted phone sends nothing."""
        now = self._clock() if self._ended_s is None else self._ended_s
        return now if now - self._proved_s < self._believed_s else self._proved_s

    @property
    def live(self) -> Live:
        return Live.YES if self._answered and self._ended_s is None else Live.NO

    @property
    def input_ended(self) -> bool:
        return False

    def take(self, now: float) -> FloatFrame:
        """Silence on hold, and while an answer is still to come (RFC 3264: it may come with the ACK)."""
        if self._agreed is None:
            return np.zeros(FRAME_SAMPLES, np.float32)
        frame = self._rtp.jitter_buffer.take(now)
        return np.zeros_like(frame) if self._held else frame

    def skip(self, frames: int) -> int:
        if self._agreed is not None:
            self._rtp.jitter_buffer.skip(frames)
        return frames

    def write(self, now: float, pcm: FloatFrame) -> int | None:
        timestamp = self._playout.write(now, pcm)
        return None if self._agreed is None else self._rtp.timestamp(timestamp)

    def flush(self, now: float) -> Flushed:
        played, dropped = self._playout.flush(now)
        return Flushed(played_ms=played // SAMPLES_PER_MS, dropped_ms=dropped // SAMPLES_PER_MS)

    def played_ms(self) -> int:
        return self._playout.played_samples // SAMPLES_PER_MS

    @property
    def has_events(self) -> bool:
        return True

    @property
    def event_room(self) -> int:
        return EVENT_ROOM

    def send_event(self, numbered: Numbered) -> None:
        self._on_event(numbered)

    def stats(self) -> LegStats:
        if self._agreed is None:
            return LegStats()
        buffer, round_trip_s = self._rtp.jitter_buffer, self._rtp.round_trip_s
        return LegStats(
            loss=self._rtp.loss,
            jitter_delay_ms=buffer.delay_ms,
            concealed_ms=buffer.counters.concealed_samples // SAMPLES_PER_MS,
            round_trip_ms=None if round_trip_s is None else round_trip_s * 1000,
            playout_delay_ms=max(0, self._playout.queued_samples - FRAME_SAMPLES) / SAMPLES_PER_MS,
            lateness_ms=self._rtp.take_worst_lateness_s() * 1000,
        )

    async def close(self, reason: str) -> None:
        """Say goodbye (RTCP BYE) and free everything. May be called twice."""
        if self._free(reason):
            self._on_close(reason)

    # ---- transports.pacer.PacketSender -------------------------------------------------------------------------------

    def send_packet(self, slot_s: float) -> None:
        packet = self._playout.next_packet(slot_s)
        if self._agreed is None or self._agreed.direction == "inactive":
            return
        if self._agreed.sends_audio and self._latch.destination is not None:
            self._rtp.send_audio(slot_s, packet)
        self._rtp.report_when_due(self._clock())

    def fail(self, reason: str) -> None:
        """A defect of this leg: the call ends, its neighbours go on."""
        if self._free(reason):
            self.handler.on_leg_closed(reason)
            self._on_close(reason)

    # ---- datagrams ---------------------------------------------------------------------------------------------------

    def _receive_rtp(self, datagram: bytes, source: Address) -> None:
        if self._agreed is None:
            return _drop("early_rtp")
        now, source_before = self._clock(), self._latch.source
        packets = self._latch.admit(now, source, datagram)
        if not packets:
            return _drop("rtp_stranger")
        muxed = self._agreed.rtcp_mux
        for packet in packets:
            if self._take_in(packet, rtcp=None if muxed else False):
                self._latch.heard(now, source)
        if self._latch.source != source_before and self._latch.is_found:
            event = "audio comes from another address than was described"
            self._lines.info(self.id, event, now, leg=self.id, host_named_by=self._latch.host_named_by)
        return None

    def _receive_rtcp(self, datagram: bytes, source: Address) -> None:
        if self._agreed is None or not self._latch.admits_rtcp(source):
            return _drop("rtcp_stranger")
        if self._take_in(datagram, rtcp=True):
            self._latch.heard_rtcp(source)
        return None

    def _take_in(self, datagram: bytes, rtcp: bool | None) -> bool:
        try:
            return self._rtp.receive(datagram, rtcp)
        except Exception:
            # A defect of ours: whatever a datagram holds, nobody but this call may suffer.
            logger.exception("leg cannot receive", leg=self.id)
            self.fail("internal_error")
            return False

    def _send_rtp(self, datagram: bytes) -> bool:
        destination = self._latch.destination
        return destination is not None and self._port.send_rtp(datagram, destination)

    def _send_rtcp(self, datagram: bytes) -> bool:
        destination = self._latch.rtcp_destination
        if destination is None or self._agreed is None:
            return False
        send = self._port.send_rtp if self._agreed.rtcp_mux else self._port.send_rtcp
        return send(datagram, destination)

    def _hear_digit(self, digit: str) -> None:
        if self._answered:
            self.handler.on_digit(digit)

    # ---- the end -----------------------------------------------------------------------------------------------------

    def _free(self, reason: str) -> bool:
        """False where that was done before."""
        if self._ended_s is not None:
            return False
        self._ended_s = self._clock()
        self._pacer.remove(self)
        if self._answered and self._agreed is not None and self._agreed.direction != "inactive":
            self._rtp.send_bye()
        self._port.close(self._latch.stream)
        if self._agreed is not None:
            counters = self._rtp.jitter_buffer.counters
            metrics.PACKETS_RECOVERED.inc(counters.recovered_packets)
            metrics.FEC_SECONDS.inc(counters.fec_samples / SAMPLE_RATE)
            metrics.CONCEALED_SECONDS.inc(counters.concealed_samples / SAMPLE_RATE)
        logger.info("leg closed", leg=self.id, reason=reason)
        return True


def _payload_types(agreed: AgreedMedia) -> frozenset[int]:
    """What the other end may send."""
    audio, digits = agreed.audio, agreed.telephone_event
    beside = (audio.comfort_noise_payload_type, None if digits is None else digits.payload_type)
    return frozenset(number for number in (audio.payload_type, *beside) if number is not None)


def _drop(reason: str) -> None:
    metrics.DATAGRAMS_DROPPED.labels(reason).inc()
