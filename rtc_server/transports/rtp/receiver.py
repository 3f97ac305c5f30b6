"""What a peer sends, on its way into the jitter buffer: audio, copies of earlier audio, comfort noise; and its digits.

RFC 3550, 3551, 7587 (Opus), 2198 (RED), 3389 (comfort noise), 4733 (digits).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rtc_server.media import comfortnoise, opuspacket, red
from rtc_server.media.audioformat import AudioFormat
from rtc_server.media.codecs import make_decoder
from rtc_server.media.concealment import AudioDecoder
from rtc_server.media.jitterbuffer import JitterBuffer
from rtc_server.media.rtcp import ReceiverStatistics, ReportBlock
from rtc_server.media.rtp import RtpPacket
from rtc_server.media.telephoneevent import DigitReceiver
from rtc_server.transports.rtp.digitformat import DigitFormat

TOLD_LOSS = 0.05
"""Least loss that we tell a peer without RED on Opus: browsers send no in-band FEC before a loss is reported."""


class RtpReceiver:
    """One stream of packets, decrypted, in the order of their arrival.

    Args:
        audio: what was agreed on first.
        on_digit: hears each digit once, as it ends; see `agree`.
    """

    def __init__(self, audio: AudioFormat, on_digit: Callable[[str], None] = lambda digit: None) -> None:
        self.jitter_buffer = JitterBuffer(lambda: make_decoder(audio), audio.clock_hz)
        self.statistics = ReceiverStatistics(audio.clock_hz)
        self._audio = audio
        self._coming: tuple[AudioFormat, AudioDecoder] | None = None
        """Another codec that was agreed on; what it replaces may still be on its way."""
        self._on_digit = on_digit
        self._digits = DigitReceiver()
        self._digits_payload_type: int | None = None

    def agree(self, audio: AudioFormat, digits: DigitFormat | None = None) -> None:
        """A later offer may have changed everything. Another codec counts from its first packet on, and to that one
        packets of the codec before are taken.

        Raises: MissingLibrary, as `make_decoder`; then nothing has changed.
        """
        if audio.codec == self._audio.codec:
            self._audio, self._coming = audio, None
        else:
            self._coming = audio, make_decoder(audio)
            if audio.payload_type == self._audio.payload_type:
                self._change_codec(*self._coming)
        self._digits_payload_type = None if digits is None else digits.payload_type

    def receive(self, now: float, packet: RtpPacket) -> bool:
        """Take in one packet. Returns: whether it was audio, silence that was told of included.

        Raises:
            MalformedRed: its copies cannot be told apart; nothing of it is used.
        """
        kind = packet.payload_type
        if self._coming is not None and kind == self._coming[0].payload_type:
            self._change_codec(*self._coming)
        audio = self._audio
        if kind not in (audio.payload_type, audio.red_payload_type, audio.comfort_noise_payload_type):
            self.statistics.received_other(packet.sequence_number, packet.ssrc)
            if kind == self._digits_payload_type:
                self._tell(self._digits.receive(now, packet.payload, packet.timestamp))
            return False
        self.statistics.received(now, packet.sequence_number, packet.timestamp, packet.ssrc)
        if kind == audio.payload_type:
            return self._put(now, packet)
        if kind == audio.red_payload_type:
            return self._put_red(now, packet)
        return self._put_noise(now, packet)

    def poll(self, now: float) -> None:
        """Now and then: a digit may be over although its end was lost."""
        if self._digits_payload_type is not None:
            self._tell(self._digits.poll(now))

    def report(self, now: float) -> ReportBlock | None:
        """For our next report; None before the first packet."""
        alone = self._audio.codec == "opus" and self._audio.red_payload_type is None
        return self.statistics.report(now, TOLD_LOSS if alone else 0.0)

    def _change_codec(self, audio: AudioFormat, decoder: AudioDecoder) -> None:
        self._audio, self._coming = audio, None
        self.jitter_buffer.change_codec(decoder, audio.clock_hz)
        self.statistics.change_clock(audio.clock_hz)

    def _tell(self, digit: str | None) -> None:
        if digit is not None:
            self._on_digit(digit)

    def _put(self, now: float, packet: RtpPacket) -> bool:
        if not packet.payload:
            return False
        self.jitter_buffer.put(now, packet.sequence_number, packet.timestamp, packet.payload, packet.ssrc)
        return True

    def _put_noise(self, now: float, packet: RtpPacket) -> bool:
        level_dbov = comfortnoise.level_dbov(packet.payload)
        if level_dbov is None:
            return False
        self.jitter_buffer.comfort_noise(now, packet.sequence_number, packet.timestamp, level_dbov, packet.ssrc)
        return True

    def _put_red(self, now: float, packet: RtpPacket) -> bool:
        primary, *copies = red.unwrap(packet.payload)
        heard = False
        if primary.payload_type == self._audio.payload_type and primary.payload:
            heard = True
            self.jitter_buffer.put(now, packet.sequence_number, packet.timestamp, primary.payload, packet.ssrc)
        mine = [copy for copy in copies if copy.payload_type == self._audio.payload_type]
        for steps, copy in numbered(mine, self._audio.clock_hz):
            heard = True
            sequence_number = (packet.sequence_number - steps) & 0xFFFF
            timestamp = (packet.timestamp - copy.timestamp_offset) & 0xFFFFFFFF
            self.jitter_buffer.put(now, sequence_number, timestamp, copy.payload, packet.ssrc, redundant=True)
        return heard


def numbered(copies: list[red.Block], clock_hz: int) -> Iterator[tuple[int, red.Block]]:
    """How many packets before the primary each copy was sent, newest first; RED does not say (RFC 2198 section 4).

    Between a copy and what followed lies a whole number of its own durations. Where it does not, packets have changed
    their length, there is no telling, and neither it nor what is older is given. A pause of the sender counts as if it
    had been sent: a copy from before it gets too early a number, and is placed by its timestamp all the same.
    """
    steps = later = 0
    for copy in copies:
        duration = round(opuspacket.duration_ms(copy.payload) * clock_hz / 1000)
        distance = copy.timestamp_offset - later
        if duration == 0 or distance <= 0 or distance % duration:
            return
        steps += distance // duration
        later = copy.timestamp_offset
        yield steps, copy
