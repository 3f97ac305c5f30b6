"""Does the user speak over the agent, or was it a cough, a click, or the room?

Counts 16 ms blocks that are voiced and not merely the detector's hangover after a sound: their level must be within
20 dB of the loudest of the last second. A voiced block counts up, any other one down, so that "Wait. Stop." adds up and
scattered noises do not. Twelve are 192 ms of speech: with what the detector needs to notice a voice and the wait for
the end of the frame, the agent stops about 300 ms after the user began.
"""

from __future__ import annotations

from rtc_server.engine.cascade.ear import HeardFrame
from rtc_server.engine.cascade.endpoint import VOICE_ON_WHILE_AGENT_SPEAKS

INTERRUPTING_BLOCKS = 12
_LEVEL_WITHIN = 0.1
_PEAK_DECAY_PER_BLOCK = 0.97


class InterruptionDetector:
    """Feed it every frame of one conversation, in order."""

    def __init__(self) -> None:
        self._count = 0
        self._peak = 0.0
        self._armed = False
        self._agent_spoke = False

    def feed(self, heard: HeardFrame, *, agent_speaks: bool) -> bool:
        """True when the agent should stop now.

        Speech that was already going on when the agent began is no interruption: counting starts at the first silent
        block.
        """
        if agent_speaks != self._agent_spoke:
            self._agent_spoke = agent_speaks
            self._armed = False
            self._count = 0
        for probability, rms in zip(heard.voice, heard.rms, strict=True):
            self._peak = max(rms, self._peak * _PEAK_DECAY_PER_BLOCK)
            voiced = probability > VOICE_ON_WHILE_AGENT_SPEAKS and rms > _LEVEL_WITHIN * self._peak
            if not voiced:
                self._armed = True
                self._count = max(0, self._count - 1)
            elif self._armed:
                self._count += 1
        if agent_speaks and self._count >= INTERRUPTING_BLOCKS:
            self._count = 0
            return True
        return False
