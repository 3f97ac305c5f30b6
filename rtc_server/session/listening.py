"""What the caller does, heard frame by frame: speech that starts and stops, and interruptions of the agent. Sans-IO."""

from __future__ import annotations

from rtc_server.engine.stepper import FRAME_MS
from rtc_server.events import InputSpeechStarted, InputSpeechStopped
from rtc_server.media.vad import SpeechStarted, SpeechStopped, VoiceActivity
from rtc_server.session.bargein import BargeInPolicy
from rtc_server.session.leg import FloatFrame


class Listening:
    """Fed with every frame that the engine was given, in order, whichever leg it came over."""

    def __init__(self) -> None:
        self._voice_activity = VoiceActivity()
        self._barge_in = BargeInPolicy()
        self._user_speaks = False
        self._frames = 0

    def update(
        self, user_pcm: FloatFrame, agent_audible: bool
    ) -> tuple[InputSpeechStarted | InputSpeechStopped | None, bool]:
        """What changed with this frame, and whether the user interrupts the agent with it."""
        frame, self._frames = self._frames, self._frames + 1
        change: InputSpeechStarted | InputSpeechStopped | None = None
        onset_frames = 0
        match self._voice_activity.update(user_pcm):
            case SpeechStarted(frame=start):
                self._user_speaks = True
                onset_frames = frame - start
                change = InputSpeechStarted(audio_ms=start * FRAME_MS)
            case SpeechStopped(frame=end):
                self._user_speaks = False
                change = InputSpeechStopped(audio_ms=end * FRAME_MS)
            case None:
                pass
        return change, self._barge_in.update(self._user_speaks, agent_audible, onset_frames)
