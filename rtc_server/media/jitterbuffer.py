"""The jitter buffer: packets in whenever they come, exactly one 80 ms frame out per tick.

How it works:

- Packets are decoded in order into a store of samples; packets behind a gap wait undecoded (`reassembly`), and so do
  those that are cheaper to decode together. At the tick 1920 samples are read, and what is missing up to there is
  concealed then and not before.
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

import numpy as np

from rtc_server.media.concealment import AudioDecoder
from rtc_server.media.delay import DelayEstimator, TickPhase
from rtc_server.media.frames import FRAME_SAMPLES, SAMPLE_RATE, SAMPLES_PER_MS, FloatSamples
from rtc_server.media.jitterconfig import JitterConfig
from rtc_server.media.jittercounters import JitterCounters
from rtc_server.media.opus import OpusDecoder
from rtc_server.media.reassembly import Packet, Reassembly
from rtc_server.media.splicer import Splicer
from rtc_server.media.timeline import Arrival, Timeline
from rtc_server.media.timescale import BLOCK_SAMPLES, SpeechLevel, join

MAX_NOISE_DBOV = -15.0
"""Peaks of noise are five times its level: louder noise does not fit into [-1, 1]."""
_NOTHING = np.zeros(0, np.float32)
_DEFAULT_CONFIG = JitterConfig()


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
        self._splicer = Splicer(config, self._level)
        self._reassembly = Reassembly(self._decoder, self._level, self.counters, config)
        self._store = self._reassembly.store
        self._concealer = self._reassembly.concealer
        self._packet_samples = 480
        self._skip_fade = _NOTHING
        """How the sound would have gone on where `skip` left it."""
        self._read_at: int | None = None
        """Position of the next sample to give out; None before the first frame."""
        self._hole: int | None = None
        """Where the concealment began that ended the last frame, while it is provisional."""
        self._recovered_before_hole = 0
        self._surplus_seen = False
        self._delay_samples = 0.0
        self._jitter_samples = config.first_slack_ms * SAMPLES_PER_MS

    @property
    def delay_ms(self) -> float:
        """What the buffer added to the fastest packets' delay in the last frame."""
        return self._delay_samples / SAMPLES_PER_MS

    @property
    def target_ms(self) -> float:
        """What it aims at, before frame ends are moved to packet ends: that adds less than a packet."""
        return (self._jitter_samples + self._packet_misfit()) / SAMPLES_PER_MS

    def put(
        self,
        now: float,
        sequence_number: int,
        timestamp: int,
        payload: bytes,
        ssrc: int = 0,
        *,
        redundant: bool = False,
    ) -> None:
        """Take in a packet that arrived at `now`.

        `redundant` is a copy that a later packet carried (RFC 2198), with the numbers of the packet it is a copy of;
        that later packet comes first. It says nothing about the path, and is nothing where it is of no use.
        """
        if redundant:
            self._put_copy(sequence_number, timestamp, payload, ssrc)
            return
        counters = self.counters
        counters.packets += 1
        if not payload:
            counters.empty += 1
            return
        duration = self._decoder.duration_samples(payload)
        if duration <= 0:
            counters.corrupt += 1
            return
        position = self._place(now, sequence_number, timestamp, ssrc, duration)
        if position is None:
            return
        self._packet_samples = duration
        self._delay.learn(now, now * SAMPLE_RATE - (position + duration), duration)
        if self._reassembly.recovered(position):
            counters.duplicates += 1
            return
        if self._read_at is not None and position < self._read_at:
            counters.late += 1
        if position + duration <= self._reassembly.end:
            counters.discarded += 1
            return
        self._reassembly.put(Packet(position, duration, sequence_number, payload))

    def comfort_noise(self, now: float, sequence_number: int, timestamp: int, level_dbov: float, ssrc: int = 0) -> None:
        """The sender says that it sends nothing until further notice, but noise of `level_dbov` is heard (RFC 3389).

        0 dBov is as loud as samples in [-1, 1] can be; what is louder than `MAX_NOISE_DBOV` is not believed.
        """
        self.counters.packets += 1
        position = self._place(now, sequence_number, timestamp, ssrc, 0)
        if position is not None and position >= self._reassembly.end:
            level = 10.0 ** (min(level_dbov, MAX_NOISE_DBOV) / 20)
            self._reassembly.put(Packet(position, 0, sequence_number, b"", noise_level=level))

    def change_codec(self, decoder: AudioDecoder, clock_hz: int) -> None:
        """What is put from now on is for `decoder`, with timestamps of `clock_hz`. What waits is heard before; neither
        the delay nor the frames notice."""
        self._reassembly.change_decoder(decoder, self._read_at)
        self._decoder = decoder
        self._timeline.change_clock(clock_hz)

    def _put_copy(self, sequence_number: int, timestamp: int, payload: bytes, ssrc: int) -> None:
        duration = self._decoder.duration_samples(payload) if payload else 0
        position = self._timeline.locate(timestamp, ssrc)
        if duration > 0 and position is not None and self._reassembly.end <= position < self._timeline.newest_position:
            self._reassembly.put(Packet(position, duration, sequence_number, payload, redundant=True))

    def _place(self, now: float, sequence_number: int, timestamp: int, ssrc: int, duration: int) -> int | None:
        """A packet's position; the time line follows where it has jumped. None, and counted, where it is not needed."""
        counters = self.counters
        usual = self._delay.minimum if self._delay.known else None
        end = self._reassembly.end
        arrival, position = self._timeline.place(now, sequence_number, timestamp, ssrc, duration, usual, end)
        if arrival is Arrival.DUPLICATE:
            counters.duplicates += 1
            return None
        if arrival is Arrival.STRAGGLER:
            counters.stragglers += 1
            return None
        if arrival is not Arrival.FITS:
            counters.resyncs += 1
            self._reassembly.begin_anew(self._read_at, arrival is Arrival.NEW_SOURCE)
            position = max(position, self._store.end)
            self._timeline.newest_position = position
        return position

    def take(self, now: float) -> FloatSamples:
        """The frame for the tick at `now`: [1920] samples. Silence before the first packet.

        Ticks come every 80 ms; a little scatter does no harm. Whoever has missed a tick takes its frame as well and
        drops it, so that samples given stay in step with the wall clock. Frames that nobody takes become delay, which
        is cut down bit by bit, or at once from 500 ms on.
        """
        self.counters.frames += 1
        now_at = self._phase.smooth(now)
        if not self._delay.known:
            return np.zeros(FRAME_SAMPLES, np.float32)
        wanted = self._delay.wanted()
        self._jitter_samples = wanted - self._delay.minimum
        self._reassembly.decode_row()
        wanted_end = now_at - wanted - self._packet_misfit()
        best = self._best_read_position(wanted_end)
        if self._read_at is None:
            self._read_at = best
        frame_fade = self._skip_fade if self._skip_fade.size else self._concealer.continuation()
        self._skip_fade = _NOTHING
        if abs(best - self._read_at) > self._config.jump_above_ms * SAMPLES_PER_MS:
            frame_fade = self._jump(best)
        self._reassembly.fill(self._read_at, self._read_at)
        self._play_late(wanted_end, best)
        self._reassembly.fill(self._read_at + FRAME_SAMPLES, self._read_at)
        self._note_unheard()
        frame = self._read(self._correction(wanted_end, best), frame_fade)
        self._level.update(frame)
        self._delay_samples = now_at - self._read_at - self._delay.minimum
        self._forget()
        return frame

    def skip(self, frames: int) -> None:
        """Pass over frames that nobody took in time; the next one is faded over to."""
        self._reassembly.decode_row()
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
        start = max(self._hole, self._reassembly.real_from, self._store.first)
        back = self._read_at - start
        if self._store.end <= start or back <= 0:
            return
        allowed = self._read_at - best if self._too_late(wanted_end) else 0
        # What was taken from copies was lost, and a loss adds no delay.
        recovered = (self.counters.recovered_packets - self._recovered_before_hole) * self._packet_samples
        if back - recovered >= self._config.replay_above_ms * SAMPLES_PER_MS:
            above_target = self._config.max_delay_ms * SAMPLES_PER_MS - self._jitter_samples - self._packet_misfit()
            allowed = max(allowed, int(self._read_at + FRAME_SAMPLES - wanted_end + above_target))
        back = min(back, allowed)
        if back >= BLOCK_SAMPLES and self._read_at - back < self._store.end:
            self._read_at -= back
            self.counters.replayed_samples += back

    def _note_unheard(self) -> None:
        assert self._read_at is not None
        if self._hole is not None and self._store.end > self._read_at:
            self.counters.unheard_samples += max(0, self._read_at - max(self._hole, self._reassembly.real_from))
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
        if start >= store.first:
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
        reassembly, frame = self._reassembly, np.zeros(FRAME_SAMPLES, np.float32)
        if available:
            real = self._store.read(self._read_at, available)
            frame[available - real.size : available] = real
            join(fade_from, frame)
        if self._hole is None:
            self._hole = self._read_at + available
            self._recovered_before_hole = self.counters.recovered_packets
            reassembly.provisional_samples = 0
        if not reassembly.in_silence:
            reassembly.provisional_samples += FRAME_SAMPLES - available
        if available:
            self._concealer.end()
        frame[available:] = reassembly.conceal(FRAME_SAMPLES - available, reassembly.in_silence)
        self._read_at += FRAME_SAMPLES
        return frame

    def _forget(self) -> None:
        """Drop samples that were given out, except those which a late packet may still make wanted."""
        assert self._read_at is not None
        keep = self._read_at if self._hole is None else min(self._read_at, self._hole)
        self._store.forget_before(max(keep, self._read_at - 2 * int(self._config.max_delay_ms) * SAMPLES_PER_MS))
