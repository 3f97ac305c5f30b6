"""The constants of the jitter buffer. They were found by measuring; change them only with a measurement."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class JitterConfig:
    # How much delay is wanted
    window_s: float = 2.0
    """Over which the quantile of the packets' delay is taken."""
    quantile: float = 0.95
    least_slack_ms: float = 10.0
    """Kept between the usual arrival of a frame's last packet and the tick, however even the path is."""
    first_slack_ms: float = 20.0
    """The same, before anything is known."""
    max_delay_ms: float = 200.0
    standstill_ms: float = 40.0
    """A standstill of the path counts for at most so much audio in the window, else one spike would raise the delay.
    Less than 1 - `quantile` of what came within the window, even where half of that was the standstill."""
    minimum_window_s: float = 10.0
    """Over which the least delay is taken; short enough to follow clock drift."""

    # How the read pointer gets there
    cut_hysteresis_ms: float = 2.0
    cut_hysteresis_share: float = 0.1
    """Of the jitter, on top."""
    add_hysteresis_ms: float = 2.0
    quiet_step_ms: float = 40.0
    """Most that one frame may lose or gain in a quiet place."""
    voiced_cut_ms: float = 10.0
    voiced_add_ms: float = 15.0
    voiced_above_ms: float = 15.0
    """Error from which voiced speech is spliced too, a pitch period at a time."""
    two_cuts_above_ms: float = 80.0
    """Error from which a frame may have two cuts."""
    similarity: float = 0.8
    """Least correlation of two pitch periods that may be joined..."""
    similarity_fall_per_s: float = 0.8
    """...and how fast the demand falls while much is to be cut."""
    jump_above_ms: float = 500.0
    """Error that only a caller which missed ticks can cause: the read pointer jumps."""

    # Late audio
    replay_above_ms: float = 40.0
    """A run of late audio at least this long was a standstill: it is played late, although the target is lower."""

    # Another time line
    early_jump_ms: float = 500.0
    late_jump_s: float = 0.1
    """Time in which everything came more than `max_delay_ms` late."""
    straggler_s: float = 1.0
    """How long packets of the source before are ignored."""

    # Bounds
    held_packets: int = 64
    """Packets that wait undecoded behind a gap; above that the oldest packet is given up."""
    store_ms: int = 1000
    """Decoded samples that are kept; above that the oldest are forgotten."""
