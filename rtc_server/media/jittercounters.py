"""What a jitter buffer counts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class JitterCounters:
    """What happened since the call began. Packets unless the name says samples (24 kHz)."""

    packets: int = 0
    """Of audio and of comfort noise; copies inside of others are none."""
    empty: int = 0
    corrupt: int = 0
    duplicates: int = 0
    """Came twice, or after a copy of theirs had been used."""
    stragglers: int = 0
    """Of a source that was replaced."""
    late: int = 0
    """Came after a part of their samples had been concealed."""
    discarded: int = 0
    """Late, and sound behind them had already been decoded."""
    recovered_packets: int = 0
    """Taken from a copy that a later packet carried."""
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
