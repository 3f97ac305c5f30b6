"""The jitter buffer: packets in whenever they come, exactly one 80 ms frame out per tick.

How it works:

- Packets are decoded in order into a store of samples; packets behind a gap wait undecoded, since codecs decode in
  sequence. At the tick 1920 samples are read, and what is missing up to there is concealed then and not before: in-band
  FEC of a packet that waits, else concealment, fading to noise.
- A frame ends where a packet ends, since an end inside a packet needs that whole packet anyway. The delay lies between
  the target and the target plus one packet; it depends on the tick's phase against the sender's.
- Concealment is provisional. If the missing sound comes late it is played late as far as the target allows, or up to
  `max_delay_ms` when so much came that the path must have stood still. If later sound comes instead, the concealment
  stands: a loss never adds delay.
- Drift and a changed target move the read pointer by splices in quiet places and of whole pitch periods.

Positions are samples at 24 kHz on the sender's time line. `now` is `time.monotonic()` seconds. One thread.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rtc_server.media.concealment import AudioDecoder, Concealer
from rtc_server.media.delay import DelayEstimator, TickPhase
from rtc_server.media.frames import FRAME_SAMPLES, SAMPLE_RATE, SAMPLES_PER_MS, FloatSamples
from rtc_server.media.jitterconfig import JitterConfig
from rtc_server.media.opus import OpusDecoder
from rtc_server.media.samplestore import SampleStore
from rtc_server.media.splicer import Splicer
from rtc_server.media.timeline import Arrival, Timeline
from rtc_server.media.timescale import BLOCK_SAMPLES, SpeechLevel, join

_NOTHING = np.zeros(0, np.float32)
_LONGEST_FILL = 500 * SAMPLES_PER_MS
_DEFAULT_CONFIG = JitterConfig()


@dataclass(slots=True)
class JitterCounters:
    """What happened since the call began. Packets unless the name says samples (24 kHz)."""

    packets: int = 0
    empty: int = 0
    corrupt: int = 0
    duplicates: int = 0
    stragglers: int = 0
    """Of a source that was replaced."""
    late: int = 0
    """Came after a part of their samples had been concealed."""
    discarded: int = 0
    """Late, and sound behind them had already been decoded."""
    overflow: int = 0
    """Pushed out because too many waited behind a gap."""
    resyncs: int = 0
    """The time line jumped."""
    frames: int = 0
    lost_samples: int = 0
    """Never came in time."""
    fec_samples: int = 0
    concealed_samples: int = 0
    """Invented, agreed silence not counted."""
    dtx_samples: int = 0
    """Silence that the sender announced."""
    unheard_samples: int = 0
    """Came and were decoded, but too late to be given out."""
    cut_samples: int = 0
    """By splices, to bring the delay down; the next are the contrary."""
    added_samples: int = 0
    replayed_samples: int = 0
    """Delay added by playing late sound late."""
    skipped_samples: int = 0
    """Passed over, because nobody took frames for a while."""


class _Packet(NamedTuple):
    position: int
    duration: int
    sequence_number: int
    payload: bytes


class JitterBuffer:
    """A `FrameSource` for RTP packets.

    Bounds: 1 s of decoded samples (the oldest are forgotten) and 64 packets behind a gap (the oldest are pushed out and
    counted). Neither `put` nor `take` ever raises for anything that a peer sends.

    Args:
        decoder_factory: makes the codec's decoder; called once.
        clock_hz: rate of the RTP timestamps.
    """

    def __init__(
        self,
        decoder_factory: Callable[[], AudioDecoder] = OpusDecoder,
        clock_hz: int = 48_000,
        config: JitterConfig = _DEFAULT_CONFIG,
    ) -> None:
        self.counters = JitterCounters()
        self._config = config
        self._decoder = decoder_factory()
        self._timeline = Timeline(clock_hz, config)
        self._delay = DelayEstimator(config)
        self._phase = TickPhase()
        self._level = SpeechLevel()
        self._concealer = Concealer(self._decoder, self._level)
        self._splicer = Splicer(config, self._level)
        self._store = SampleStore(config.store_ms * SAMPLES_PER_MS)
        self._held: dict[int, _Packet] = {}
        """Packets behind a gap, by position; not yet decoded."""
        self._packet_samples = 480
        self._decoded_sequence_number: int | None = None
        self._in_dtx = False
        self._fade_from = _NOTHING
        """How the sound went on before the next decoded sample: it is crossfaded from there."""
        self._skip_fade = _NOTHING
        """How the sound would have gone on where `skip` left it."""
        self._read_at: int | None = None
        """Position of the next sample to give out; None before the first frame."""
        self._hole: int | None = None
        """Where the concealment began that ended the last frame, while it is provisional."""
        self._provisional_samples = 0
        """Concealed since there: they were agreed silence after all, if the next packet says so."""
        self._real_from = 0
        """Before this position the store has nothing that could be played late."""
        self._surplus_seen = False
        self._delay_samples = 0.0
        self._jitter_samples = config.first_slack_ms * SAMPLES_PER_MS

    @property
    def delay_ms(self) -> float:
        """What the buffer added to the fastest packets' delay in the last frame."""
        return self._delay_samples / SAMPLES_PER_MS

    @property
    def target_ms(self) -> float:
        """What it aims at, before frame ends are moved to packet ends."""
        return self._jitter_samples / SAMPLES_PER_MS

    def put(self, now: float, sequence_number: int, timestamp: int, payload: bytes, ssrc: int = 0) -> None:
        """Take in a packet that arrived at `now`. It is decoded at once, unless something before it is missing."""
        counters = self.counters
        counters.packets += 1
        if not payload:
            counters.empty += 1
            return
        duration = self._decoder.duration_samples(payload)
        if duration <= 0:
            counters.corrupt += 1
            return
        usual = self._delay.minimum if self._delay.known else None
        end = self._store.end
        arrival, position = self._timeline.place(now, sequence_number, timestamp, ssrc, duration, usual, end)
        if arrival is Arrival.DUPLICATE:
            counters.duplicates += 1
            return
        if arrival is Arrival.STRAGGLER:
            counters.stragglers += 1
            return
        if arrival is not Arrival.FITS:
            self._move_timeline(arrival)
            position = max(position, self._store.end)
            self._timeline.newest_position = position
        self._packet_samples = duration
        self._delay.learn(now, now * SAMPLE_RATE - (position + duration), duration)
        if self._read_at is not None and position < self._read_at:
            counters.late += 1
        if position + duration <= self._store.end:
            counters.discarded += 1
            return
        self._held[position] = _Packet(position, duration, sequence_number, payload)
        self._decode_ready()
        if len(self._held) > self._config.held_packets:
            counters.overflow += 1
            del self._held[min(self._held)]

    def _move_timeline(self, arrival: Arrival) -> None:
        """What waited behind a gap goes out first; then the sound is faded over to the new time line."""
        self.counters.resyncs += 1
        self._decode_held(up_to=None)
        self._fade_from = self._decoder.conceal(BLOCK_SAMPLES)[:BLOCK_SAMPLES]
        if arrival is Arrival.NEW_SOURCE:
            self._decoder.reset()

    def _decode_ready(self) -> None:
        while self._held:
            first = min(self._held)
            if first > self._store.end:
                return
            packet = self._held.pop(first)
            if packet.position + packet.duration > self._store.end:
                self._decode(packet)

    def _decode(self, packet: _Packet) -> None:
        try:
            samples = self._decoder.decode(packet.payload)
        except ValueError:
            self.counters.corrupt += 1
            return
        self._in_dtx = self._decoder.is_dtx(packet.payload)
        self._decoded_sequence_number = packet.sequence_number
        samples = samples[self._store.end - packet.position : packet.duration]
        join(self._fade_from, samples)
        self._fade_from = _NOTHING
        self._store.append(samples)

    def _decode_held(self, up_to: int | None) -> None:
        """Decode what can be; give up gaps that a later packet has passed, where they reach in front of `up_to`."""
        while self._held and (up_to is None or self._store.end < up_to):
            packet = self._held[min(self._held)]
            if packet.position > self._store.end:
                if up_to is not None and packet.position - packet.duration >= up_to:
                    return
                self._close_gap(packet)
            self._decode_ready()

    def _close_gap(self, packet: _Packet) -> None:
        """Give up the samples in front of `packet`: its FEC where it has any, else concealment."""
        counters, store = self.counters, self._store
        gap = packet.position - store.end
        silence = self._in_dtx or self._follows_last(packet)
        if not silence:
            counters.lost_samples += gap
        recoverable = min(gap, packet.duration) if not silence and self._decoder.has_fec(packet.payload) else 0
        concealed = gap - recoverable
        given_out = max(0, min(self._read_at - store.end, concealed)) if self._read_at is not None else 0
        if given_out:
            # Concealed long since, in frames that are gone; the store needs no copy of that.
            store.restart(store.end + given_out)
            self._real_from = store.end
            if silence and not self._in_dtx:  # only now it is known that nothing was lost
                agreed = min(given_out, self._provisional_samples)
                counters.concealed_samples -= agreed
                counters.dtx_samples += agreed
        if concealed - given_out > _LONGEST_FILL:
            store.restart(packet.position - recoverable)
        elif concealed > given_out:
            store.append(self._conceal(concealed - given_out, silence))
        self._fade_from = self._concealer.continuation()
        if recoverable:
            self._recover(packet, recoverable)
        self._concealer.end()

    def _recover(self, packet: _Packet, n_samples: int) -> None:
        try:
            samples = self._decoder.recover(packet.payload, packet.duration)[-n_samples:]
        except ValueError:
            self._store.append(self._conceal(n_samples, silence=False))
            return
        join(self._fade_from, samples)
        self._fade_from = _NOTHING
        self._store.append(samples)
        self.counters.fec_samples += n_samples

    def _follows_last(self, packet: _Packet) -> bool:
        """Sequence numbers are contiguous: the sender left a pause, nothing was lost."""
        last = self._decoded_sequence_number
        return last is not None and (packet.sequence_number - last) & 0xFFFF == 1

    def take(self, now: float) -> FloatSamples:
        """The frame for the tick at `now`: [1920] samples. Silence before the first packet.

        Ticks come every 80 ms; a little scatter does no harm. Whoever has missed a tick takes its frame as well and
        drops it, so that samples given stay in step with the wall clock. Frames that nobody takes become delay, which
        is cut down bit by bit, or at once from 500 ms on.
        """
        self.counters.frames += 1
        now_at = self._phase.smooth(now)
        if not self._timeline.started:
            return np.zeros(FRAME_SAMPLES, np.float32)
        wanted = self._delay.wanted()
        self._jitter_samples = wanted - self._delay.minimum
        wanted_end = now_at - wanted - self._packet_misfit()
        best = self._best_read_position(wanted_end)
        if self._read_at is None:
            self._read_at = best
        frame_fade = self._skip_fade if self._skip_fade.size else self._concealer.continuation()
        self._skip_fade = _NOTHING
        if abs(best - self._read_at) > self._config.jump_above_ms * SAMPLES_PER_MS:
            frame_fade = self._jump(best)
        self._decode_held(up_to=self._read_at)
        self._play_late(wanted_end, best)
        self._decode_held(up_to=self._read_at + FRAME_SAMPLES)
        self._note_unheard()
        frame = self._read(self._correction(wanted_end, best), frame_fade)
        self._level.update(frame)
        self._delay_samples = now_at - self._read_at - self._delay.minimum
        self._forget()
        return frame

    def skip(self, frames: int) -> None:
        """Pass over frames that nobody took in time; the next one is faded over to."""
        if self._read_at is not None and frames > 0:
            self._skip_fade = self._jump(self._read_at + frames * FRAME_SAMPLES)

    def _packet_misfit(self) -> int:
        """Further delay for packets that 80 ms are no multiple of: a frame may end inside a packet at worst."""
        return self._packet_samples - self._grid()

    def _grid(self) -> int:
        return math.gcd(self._packet_samples, FRAME_SAMPLES)

    def _packet_border(self) -> int:
        return self._timeline.newest_position + self._packet_samples

    def _best_read_position(self, wanted_end: float) -> int:
        """Start of the frame that ends at the newest packet border not behind `wanted_end`."""
        border, grid = self._packet_border(), self._grid()
        return border + int((wanted_end - border) // grid) * grid - FRAME_SAMPLES

    def _jump(self, position: int) -> FloatSamples:
        """Nobody took frames for a while. Returns how the sound at the old place would have gone on."""
        assert self._read_at is not None
        continuation = self._store.read(self._read_at, BLOCK_SAMPLES).copy()
        self.counters.skipped_samples += max(0, position - self._read_at)
        self._read_at = position
        self._hole = None
        self._concealer.end()
        return continuation

    def _play_late(self, wanted_end: float, best: int) -> None:
        """If the last frame ended in concealment and the real sound has come since, go back to it as far as allowed."""
        if self._hole is None or self._read_at is None:
            return
        start = max(self._hole, self._real_from, self._store.first)
        back = self._read_at - start
        if self._store.end <= start or back <= 0:
            return
        allowed = self._read_at - best if self._too_late(wanted_end) else 0
        if back >= self._config.replay_above_ms * SAMPLES_PER_MS:
            above_target = self._config.max_delay_ms * SAMPLES_PER_MS - self._jitter_samples - self._packet_misfit()
            allowed = max(allowed, int(self._read_at + FRAME_SAMPLES - wanted_end + above_target))
        back = min(back, allowed)
        if back >= BLOCK_SAMPLES and self._read_at - back < self._store.end:
            self._read_at -= back
            self.counters.replayed_samples += back

    def _note_unheard(self) -> None:
        assert self._read_at is not None
        if self._hole is not None and self._store.end > self._read_at:
            self.counters.unheard_samples += max(0, self._read_at - max(self._hole, self._real_from))
            self._hole = None

    def _correction(self, wanted_end: float, best: int) -> int:
        """Samples to cut (> 0) or to add (< 0)."""
        assert self._read_at is not None
        config = self._config
        hysteresis = config.cut_hysteresis_ms * SAMPLES_PER_MS + config.cut_hysteresis_share * self._jitter_samples
        one_packet = 0 if self._to_border() else self._grid()
        surplus = self._slack(wanted_end) > one_packet + hysteresis
        confirmed, self._surplus_seen = surplus and self._surplus_seen, surplus
        return best - self._read_at if confirmed or self._too_late(wanted_end) else 0

    def _to_border(self) -> int:
        """From the frame's end to the end of the packet that holds it: waited for, and of no use yet."""
        assert self._read_at is not None
        return (self._packet_border() - self._read_at - FRAME_SAMPLES) % self._grid()

    def _slack(self, wanted_end: float) -> float:
        """How much earlier than wanted the packet comes that holds the frame's end."""
        assert self._read_at is not None
        return wanted_end - self._read_at - FRAME_SAMPLES - self._to_border()

    def _too_late(self, wanted_end: float) -> bool:
        return self._slack(wanted_end) < -self._config.add_hysteresis_ms * SAMPLES_PER_MS

    def _read(self, correction: int, fade_from: FloatSamples) -> FloatSamples:
        """1920 samples from the read pointer on; it moves on by what was used."""
        assert self._read_at is not None
        store, start = self._store, self._read_at
        available = store.end - start
        if available < FRAME_SAMPLES:
            return self._read_with_concealment(max(0, available), fade_from)
        self._concealer.end()
        if correction and start >= store.first:
            frame, used = self._splicer.frame(store.read(start, available), correction)
        else:
            before = max(0, min(store.first - start, FRAME_SAMPLES))
            frame, used = np.zeros(FRAME_SAMPLES, np.float32), FRAME_SAMPLES
            frame[before:] = store.read(start + before, FRAME_SAMPLES - before)
        join(fade_from, frame)
        self._read_at += used
        self.counters.cut_samples += max(0, used - FRAME_SAMPLES)
        self.counters.added_samples += max(0, FRAME_SAMPLES - used)
        return frame

    def _read_with_concealment(self, available: int, fade_from: FloatSamples) -> FloatSamples:
        assert self._read_at is not None
        frame = np.zeros(FRAME_SAMPLES, np.float32)
        if available:
            real = self._store.read(self._read_at, available)
            frame[available - real.size : available] = real
            join(fade_from, frame)
        if self._hole is None:
            self._hole = self._read_at + available
            self._provisional_samples = 0
        if not self._in_dtx:
            self._provisional_samples += FRAME_SAMPLES - available
        if available:
            self._concealer.end()
        frame[available:] = self._conceal(FRAME_SAMPLES - available, self._in_dtx)
        self._read_at += FRAME_SAMPLES
        return frame

    def _conceal(self, n_samples: int, silence: bool) -> FloatSamples:
        if silence:
            self.counters.dtx_samples += n_samples
        else:
            self.counters.concealed_samples += n_samples
        return self._concealer.fill(n_samples, silence)

    def _forget(self) -> None:
        """Drop samples that were given out, except those which a late packet may still make wanted."""
        assert self._read_at is not None
        keep = self._read_at if self._hole is None else min(self._read_at, self._hole)
        self._store.forget_before(max(keep, self._read_at - 2 * int(self._config.max_delay_ms) * SAMPLES_PER_MS))
