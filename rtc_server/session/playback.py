"""How much of the agent's voice has the user heard?"""

from __future__ import annotations


class PlaybackCursor:
    """Milliseconds heard in the whole conversation, from what was sent and what the client acknowledges.

    What was sent is the best guess until the first ``playback.ack``; from then on the lag that it showed is subtracted.
    The cursor is monotone and never ahead of what was sent. `epoch` counts how often the playout was emptied.

    Each leg counts what it sends from 0, and its client what it hears: `sent_ms` and `cursor_ms` are those of the
    present leg.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self._before_ms = 0
        """Heard over the legs before this one."""
        self._acked_ms = 0
        self._lag_ms = 0
        self._heard_ms = 0

    def acknowledge(self, cursor_ms: int, sent_ms: int) -> None:
        """The client has heard `cursor_ms`; an older or impossible cursor is ignored."""
        if self._acked_ms <= cursor_ms <= sent_ms:
            self._acked_ms = cursor_ms
            self._lag_ms = sent_ms - cursor_ms

    def heard_ms(self, sent_ms: int) -> int:
        self._heard_ms = max(self._heard_ms, self._before_ms + max(0, sent_ms - self._lag_ms))
        return self._heard_ms

    def end_leg(self, sent_ms: int) -> None:
        """The leg is gone, and `sent_ms` was all it sent: what its client had not heard by then, nobody hears."""
        self._before_ms = self.heard_ms(sent_ms)
        self._acked_ms = self._lag_ms = 0
