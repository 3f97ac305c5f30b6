"""Packets as they come in, one row of samples out: decoded in order, since codecs decode in sequence.

Where a codec lets them, packets in a row are decoded together, once their samples are wanted: that costs little more
than one of them. Packets behind a gap wait undecoded too. When their samples are wanted the gap is given up: in-band
FEC of the packet behind it, else concealment, and where the sender had announced silence, that. Positions are samples
at 24 kHz on the sender's time line.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

from rtc_server.media.concealment import AudioDecoder, Concealer
from rtc_server.media.frames import FRAME_SAMPLES, SAMPLES_PER_MS, FloatSamples
from rtc_server.media.jitterconfig import JitterConfig
from rtc_server.media.jittercounters import JitterCounters
from rtc_server.media.samplestore import SampleStore
from rtc_server.media.timescale import BLOCK_SAMPLES, SpeechLevel, join

_NOTHING = np.zeros(0, np.float32)
_LONGEST_FILL = 500 * SAMPLES_PER_MS
_REMEMBERED_COPIES = 64


class Packet(NamedTuple):
    position: int
    duration: int
    """Samples; 0 for comfort noise, which says what follows."""
    sequence_number: int
    payload: bytes
    redundant: bool = False
    """A copy that a later packet carried."""
    noise_level: float | None = None
    """Comfort noise: its root mean square in [0, 1]."""


class Reassembly:
    """One source's packets and samples. Bounds: `held_packets` that wait, `store_ms` of samples. One thread."""

    def __init__(
        self, decoder: AudioDecoder, level: SpeechLevel, counters: JitterCounters, config: JitterConfig
    ) -> None:
        self.store = SampleStore(config.store_ms * SAMPLES_PER_MS)
        self.concealer = Concealer(decoder, level)
        self.in_silence = False
        """The sender has announced that nothing follows for now."""
        self.real_from = 0
        """Before this position the store has nothing that could be played late."""
        self.provisional_samples = 0
        """Concealed since the store's end: they were agreed silence after all, if the next packet says so."""
        self._decoder = decoder
        self._counters = counters
        self._held_at_most = config.held_packets
        self._held: dict[int, Packet] = {}
        """Packets behind a gap, by position; not yet decoded."""
        self._row: list[Packet] = []
        """Packets that follow on the newest sample, one on the other, and are to be decoded together."""
        self._row_samples = 0
        self._decoded_sequence_number: int | None = None
        self._recovered: deque[int] = deque(maxlen=_REMEMBERED_COPIES)
        self._fade_from = _NOTHING
        """How the sound went on before the next decoded sample: it is crossfaded from there."""

    @property
    def waiting(self) -> int:
        """Packets behind a gap."""
        return len(self._held)

    @property
    def end(self) -> int:
        """Behind the newest sample of all packets without a gap, decoded or not."""
        return self.store.end + self._row_samples

    def recovered(self, position: int) -> bool:
        """Has a copy of the packet at `position` been decoded lately?"""
        return position in self._recovered

    def put(self, packet: Packet) -> None:
        """Take in a packet that does not lie in front of `end`."""
        if packet.position == self.end and self._decoder.joins_packets and packet.duration and not self._held:
            self._row.append(packet)
            self._row_samples += packet.duration
            if self._row_samples >= FRAME_SAMPLES:
                self.decode_row()
            return
        self.decode_row()
        if packet.noise_level is not None and self.in_silence and not self._held:
            self._decode(packet)  # tells no more than how loud the silence goes on
            return
        if packet.position == self.store.end and not self._held:
            self._decode(packet)
            return
        held = self._held.get(packet.position)
        if held is not None and (packet.redundant or packet.duration < held.duration):
            return
        self._held[packet.position] = packet
        self._decode_ready()
        if len(self._held) > self._held_at_most:
            self._counters.overflow += 1
            del self._held[min(self._held)]

    def fill(self, up_to: int | None, read_at: int | None) -> None:
        """Decode what can be; give up gaps that a later packet has passed, where they reach in front of `up_to`.

        What lies before `read_at` has been given out, concealed.
        """
        self.decode_row()
        while self._held and (up_to is None or self.store.end < up_to):
            packet = self._held[min(self._held)]
            if packet.position > self.store.end:
                if up_to is not None and packet.position - packet.duration >= up_to:
                    return
                self._close_gap(packet, read_at)
            self._decode_ready()

    def begin_anew(self, read_at: int | None, new_source: bool) -> None:
        """The time line has moved. What waits goes out first; then the sound is faded over to what comes now."""
        self.fill(None, read_at)
        self._fade_from = self._decoder.conceal(BLOCK_SAMPLES)[:BLOCK_SAMPLES]
        if new_source:
            self._decoder.reset()

    def change_decoder(self, decoder: AudioDecoder, read_at: int | None) -> None:
        """The codec has changed. What waits goes out first; then the sound is faded over to what comes now."""
        self.begin_anew(read_at, new_source=False)
        self._decoder = decoder
        self.concealer.change_decoder(decoder)

    def conceal(self, n_samples: int, silence: bool) -> FloatSamples:
        """Sound for the next `n_samples` of a gap, counted; `silence` where the sender left them out on purpose."""
        if silence:
            self._counters.dtx_samples += n_samples
        else:
            self._counters.concealed_samples += n_samples
        return self.concealer.fill(n_samples, silence)

    def decode_row(self) -> None:
        """Have everything in the store that can be decoded without giving up a gap."""
        row, self._row, self._row_samples = self._row, [], 0
        if len(row) == 1:
            self._decode(row[0])
        elif row:
            first, last = row[0], row[-1]
            duration = last.position + last.duration - first.position
            payload = b"".join([packet.payload for packet in row])
            self._decode(Packet(first.position, duration, last.sequence_number, payload))

    def _decode_ready(self) -> None:
        while self._held:
            first = min(self._held)
            if first > self.store.end:
                return
            packet = self._held.pop(first)
            if packet.position + packet.duration > self.store.end or packet.position == self.store.end:
                self._decode(packet)

    def _decode(self, packet: Packet) -> None:
        self.concealer.agreed_level = packet.noise_level
        if packet.noise_level is not None:
            self.in_silence = True
            self._decoded_sequence_number = packet.sequence_number
            return
        try:
            samples = self._decoder.decode(packet.payload)
        except ValueError:
            self._counters.corrupt += not packet.redundant
            return
        self.in_silence = self._decoder.is_dtx(packet.payload)
        self._decoded_sequence_number = packet.sequence_number
        if packet.redundant:
            self._counters.recovered_packets += 1
            self._recovered.append(packet.position)
        samples = samples[self.store.end - packet.position : packet.duration]
        join(self._fade_from, samples)
        self._fade_from = _NOTHING
        self.store.append(samples)

    def _close_gap(self, packet: Packet, read_at: int | None) -> None:
        """Give up the samples in front of `packet`: its FEC where it has any, else concealment."""
        counters, store = self._counters, self.store
        gap = packet.position - store.end
        silence = self.in_silence or self._follows_last(packet)
        if not silence:
            counters.lost_samples += gap
        recoverable = min(gap, packet.duration) if not silence and self._decoder.has_fec(packet.payload) else 0
        concealed = gap - recoverable
        given_out = max(0, min(read_at - store.end, concealed)) if read_at is not None else 0
        if given_out:
            # Concealed long since, in frames that are gone; the store needs no copy of that.
            store.restart(store.end + given_out)
            self.real_from = store.end
            if silence and not self.in_silence:  # only now it is known that nothing was lost
                agreed = min(given_out, self.provisional_samples)
                self.provisional_samples -= agreed
                counters.concealed_samples -= agreed
                counters.dtx_samples += agreed
        if concealed - given_out > _LONGEST_FILL:
            store.restart(packet.position - recoverable)
        elif concealed > given_out:
            store.append(self.conceal(concealed - given_out, silence))
        self._fade_from = self.concealer.continuation()
        if recoverable:
            self._recover(packet, recoverable)
        self.concealer.end()

    def _recover(self, packet: Packet, n_samples: int) -> None:
        try:
            samples = self._decoder.recover(packet.payload, packet.duration)[-n_samples:]
        except ValueError:
            self.store.append(self.conceal(n_samples, silence=False))
            return
        join(self._fade_from, samples)
        self._fade_from = _NOTHING
        self.store.append(samples)
        self._counters.fec_samples += n_samples

    def _follows_last(self, packet: Packet) -> bool:
        """Sequence numbers are contiguous: the sender left a pause, nothing was lost."""
        last = self._decoded_sequence_number
        return last is not None and (packet.sequence_number - last) & 0xFFFF == 1
