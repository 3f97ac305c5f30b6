"""What a silent caller means, or one whose connection was closed. Sans-IO: the verdict follows from the times alone.

A sign of life is whatever proves that the peer is there although no audio comes: an authenticated STUN check, a pong,
a refreshed dialog. A muted caller lives; a caller who is neither heard nor alive is frozen, then let go. While a new
leg of the caller is being set up, the end waits for it, but only once as long as setting up a leg may take.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Verdict(enum.Enum):
    LIVE = "live"
    DEGRADED = "degraded"
    """Freeze the engine's slot: no engine time passes until the caller is back."""
    IDLE_TOO_LONG = "idle"
    GONE = "peer_silent"


@dataclass(frozen=True, slots=True)
class LivenessRules:
    setup_s: float
    """The longest that a transport needs to set up a leg, or to give it up."""
    audio_gap_s: float = 5.0
    sign_gap_s: float = 13.0
    """Browsers check every 2.7 to 6 s: two checks and a little."""
    idle_limit_s: float = 300.0
    gone_s: float = 30.0
    """RFC 7675: consent ends 30 s after the last answer."""
    resume_s: float = 10.0
    """From the end of a connection to the end of its conversation: a page that is loaded again takes less."""

    def judge(
        self, now: float, last_audio_s: float, last_sign_s: float, expects_audio: bool, returning: bool = False
    ) -> Verdict:
        """A caller whose leg exists. `last_sign_s` is the last sign of life of any kind; audio is one too.

        `returning`: another leg of this caller is being set up.
        """
        silent_s = now - last_audio_s
        unseen_s = now - max(last_sign_s, last_audio_s)
        if unseen_s > self.gone_s + (self.setup_s if returning else 0.0):
            return Verdict.GONE
        if unseen_s > self.sign_gap_s and (silent_s > self.audio_gap_s or not expects_audio):
            return Verdict.DEGRADED
        if expects_audio and silent_s > self.idle_limit_s:
            return Verdict.IDLE_TOO_LONG
        return Verdict.LIVE

    def judge_away(self, now: float, closed_s: float, can_return: bool, returning: bool) -> Verdict:
        """A caller whose leg was closed at `closed_s`: DEGRADED, or GONE when nobody is to be waited for any more.

        `can_return`: there is a conversation, and the caller has what it takes to come back to it.
        """
        patience_s = (self.resume_s if can_return else 0.0) + (self.setup_s if returning else 0.0)
        return Verdict.DEGRADED if now - closed_s < patience_s else Verdict.GONE
