"""An utterance of the user on its way to an answer, and a sentence on its way to a sound."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from rtc_server.engine.cascade.skills.reply import Reply


@dataclass(slots=True)
class Turn:
    """An utterance that is not answered yet."""

    start_frame: int
    over_agent: bool
    """It began while the agent was heard."""
    end_frame: int = 0
    ended: bool = False
    before: NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, np.float32))
    """An earlier utterance that was not recognised before this one began, and belongs to it; 16 kHz."""
    pcm: NDArray[np.float32] = field(default_factory=lambda: np.zeros(0, np.float32))
    """All of it, 16 kHz."""
    key: int | None = None
    """Of the recognition that counts; None while there is none."""
    text: str | None = None
    """None until it is recognised; "" where there were no words."""
    reply: Reply | None = None
    """None before recognition, and when there is nothing to answer."""
    opening: NDArray[np.float32] | None = None
    """The reply's first sentence, 24 kHz."""

    def forget_speculation(self) -> None:
        self.key = self.text = self.reply = self.opening = None


@dataclass(slots=True)
class Voicing:
    """The one sentence whose sound the worker was asked for."""

    key: int
    sentence: str
    turn: Turn | None
    """The turn that it would answer, if it is complete; None: the sentence stands first in the script."""
