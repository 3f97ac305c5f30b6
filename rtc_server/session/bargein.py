"""When does the user interrupt the agent? Decides, does nothing. Sans-IO.

Speech over the audible agent that goes on for `hold_frames` is one interruption; it is reported once, until the user
has been quiet again. A cough or an "mm-hm" is shorter than that and is none.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class BargeInPolicy:
    """Fed once per 80 ms frame."""

    hold_frames: int = 4
    """320 ms of speech over the agent."""
    agent_tail_frames: int = 4
    """The agent counts as audible for so long after its last audible frame: words have gaps."""

    _overlap: int = 0
    _since_agent: int = 1_000_000
    _reported: bool = False

    def update(self, user_speaks: bool, agent_audible: bool, onset_frames: int = 0) -> bool:
        """True in the frame in which an interruption is recognised.

        `onset_frames`: how long before this frame the speech began that is told now; a detector needs some frames to
        be sure, and they count.
        """
        self._since_agent = 0 if agent_audible else self._since_agent + 1
        if not user_speaks:
            self._overlap, self._reported = 0, False
            return False
        if self._since_agent > self.agent_tail_frames:
            self._overlap = 0
            return False
        self._overlap += 1 + onset_frames
        if self._reported or self._overlap < self.hold_frames:
            return False
        self._reported = True
        return True
