"""How much of the agent's voice has the user heard?"""

from __future__ import annotations


class PlaybackCursor:
    """Milliseconds heard, from what was sent and what the client acknowledges.

    What was sent is the best guess until the first ``playback.ack``; from then on the lag that it showed is subtracted.
    The cursor is monotone and never ahead of what was sent. `epoch` counts how often the playout was emptied.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self._acked_ms = 0
        self._lag_ms = 0
        self._heard_ms = 0

    def acknowledge(self, cursor_ms: int, sent_ms: int) -> None:
        """The client has heard `cursor_ms`; an older or impossible cursor is ignored."""
        if self._acked_ms <= cursor_ms <= sent_ms:
            self._acked_ms = cursor_ms
            self._lag_ms = sent_ms - cursor_ms

    def heard_ms(self, sent_ms: int) -> int:
        self._heard_ms = max(self._heard_ms, sent_ms - self._lag_ms)
        return self._heard_ms
