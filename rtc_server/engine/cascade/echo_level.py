"""How loud the agent's own voice is in the microphone, learnt once it has been caught there.

Most callers have headphones or an echo canceller, and nothing is masked. When an utterance turns out to be the agent's
own words, the ratio between what the microphone gave and what the agent said is kept; from then on a block counts as
voice only if it is twice as loud as the echo could be. That is Geigel's double-talk detector: the microphone against
the loudest of what was played lately, since nobody knows the delay exactly. What was learnt fades, halved after a
minute of the agent's speech: a user who only repeated the agent's words is not masked for ever.
"""

from __future__ import annotations

import dataclasses
from collections import deque

import numpy as np

from rtc_server.engine.cascade.ear import BLOCKS_PER_FRAME, HeardFrame
from rtc_server.engine.stepper import FloatFrames

_PLAYED_FRAMES = 13
"""One second: playout, the network both ways, and the room."""
_COMPARED_BLOCKS = 125
"""Two seconds of ratios, of which the largest is learnt."""
_MARGIN = 2.0
_AUDIBLE_RMS = 0.01
_FADING_PER_FRAME = 0.999


class EchoLevel:
    """One per conversation; alternate `filter` and `played`, a frame each."""

    def __init__(self) -> None:
        self.coupling = 0.0
        """Level in the microphone relative to the level that was played; 0 until an echo was caught."""
        self._played: deque[float] = deque([0.0] * _PLAYED_FRAMES, maxlen=_PLAYED_FRAMES)
        self._ratios: deque[float] = deque(maxlen=_COMPARED_BLOCKS)

    def filter(self, heard: HeardFrame) -> HeardFrame:
        """The frame without the voice of blocks that are no louder than the echo may be."""
        loudest = max(self._played)
        if loudest < _AUDIBLE_RMS:
            return heard
        self._ratios.extend(rms / loudest for rms in heard.rms)
        if not self.coupling:
            return heard
        self.coupling *= _FADING_PER_FRAME
        ceiling = _MARGIN * self.coupling * loudest
        voice = tuple(p if rms > ceiling else 0.0 for p, rms in zip(heard.voice, heard.rms, strict=True))
        return dataclasses.replace(heard, voice=voice)

    def played(self, frame: FloatFrames) -> None:
        """What the agent said in a frame, [1920]."""
        blocks = frame.reshape(BLOCKS_PER_FRAME, -1)
        self._played.append(float(np.sqrt(np.einsum("ij,ij->i", blocks, blocks).max() / blocks.shape[1])))

    def caught(self) -> None:
        """The utterance that just ended was the agent's own voice: remember how loud it was."""
        self.coupling = max(self.coupling, *self._ratios, 0.0)
