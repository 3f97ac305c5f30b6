"""One slot's conversation: what the ear heard, what the dialogue answers, what the mouth says.

No thread, no clock, no model: jobs for the worker leave through `submit`, results come back through `deliver`, time is
counted in frames, and the clock on the wall is handed in. The life of an utterance::

    Started -> Paused: recognise, think and voice the first sentence, all on the chance that it is complete
            -> Resumed: forget all that
            -> Ended: what is ready is spoken at once; what is not, as soon as it is

The agent doesn't begin to speak into the user's speech (for five seconds at most), and stops when the user speaks over
it. If that was no speech after all - a noise, the agent's own echo - it takes up the sentence again, once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from datetime import datetime

import numpy as np
from numpy.typing import NDArray

from rtc_server.engine.cascade import dialogue
from rtc_server.engine.cascade.ear import EAR_RATE_HZ, Ear
from rtc_server.engine.cascade.echo_level import EchoLevel
from rtc_server.engine.cascade.endpoint import Dismissed, Ended, Endpointer, EndpointEvent, Paused, Resumed, Started
from rtc_server.engine.cascade.interruption import InterruptionDetector
from rtc_server.engine.cascade.mouth import Mouth
from rtc_server.engine.cascade.own_words import OwnWords
from rtc_server.engine.cascade.recogniser import MAX_UTTERANCE_S
from rtc_server.engine.cascade.skills.manners import is_backchannel
from rtc_server.engine.cascade.skills.reply import Said
from rtc_server.engine.cascade.skills.timers import take_due
from rtc_server.engine.cascade.turn import Turn, Voicing
from rtc_server.engine.cascade.worker import Job, Recognise, Recognised, Result, Speak, Voiced
from rtc_server.engine.stepper import FRAME_S, FloatFrames, Heard, SessionPrompt

GREETING_FRAME = 2
"""The greeting starts 160 ms after LIVE: a player that is just starting would swallow its first sound."""
_LOOKAHEAD_S = 1.0
"""The next sentence is voiced when less than this is left to say."""
_LONGEST_WAIT_FRAMES = round(5.0 / FRAME_S)
_ECHO_TAIL_FRAMES = 5
"""After the agent's last sound, so long may its echo still arrive."""


class Conversation:
    """Engine thread only. Keeps one utterance, one script and a second or two of sound: it does not grow."""

    def __init__(
        self,
        prompt: SessionPrompt,
        ear: Ear,
        submit: Callable[[Job], None],
        clock: Callable[[], datetime],
        *,
        understands: bool,
    ) -> None:
        self.frame = 0
        """The next live frame, from 0."""
        self._ear = ear
        self._submit = submit
        self._clock = clock
        self._understands = understands
        self._memory = dialogue.first_memory(prompt.persona, prompt.seed)
        self._endpointer = Endpointer()
        self._interruption = InterruptionDetector()
        self._mouth = Mouth()
        self._own_words = OwnWords()
        self._echo_level = EchoLevel()
        self._heard: list[Heard] = []
        self._turn: Turn | None = None
        self._script: deque[str] = deque(dialogue.greeting(self._memory, understands=understands))
        self._announcement: str | None = None
        self._interrupted: tuple[str, ...] = ()
        self._may_resume = True
        self._voicing: Voicing | None = None
        self._waited_frames = 0
        self._last_sound_frame = -_ECHO_TAIL_FRAMES
        self._keys = 0
        self._voice_next_sentence()

    @property
    def ready(self) -> bool:
        """The greeting's first sound is there (or its voice has failed)."""
        return self._voicing is None or self._mouth.active

    def deliver(self, result: Result) -> None:
        """Take a result of the worker; one that nobody waits for any more is ignored."""
        if isinstance(result, Voiced):
            self._voiced(result)
        elif self._turn is not None and result.key == self._turn.key:
            self._recognised(self._turn, result)

    def step(self, pcm: NDArray[np.float32], out: FloatFrames) -> tuple[str | None, tuple[Heard, ...]]:
        """One frame in, one frame (written to `out`) and its words out; all at 24 kHz, [1920]."""
        heard = self._echo_level.filter(self._ear.hear(pcm))
        if self._interruption.feed(heard, agent_speaks=self._sounds):
            self._stop_for_user()
        agent_heard = self.frame - self._last_sound_frame <= _ECHO_TAIL_FRAMES
        for event in self._endpointer.feed(heard, agent_speaks=agent_heard):
            self._on_endpoint(event, over_agent=agent_heard)
        if self._turn is None:
            self._resume_script()
            self._announce_timers()
        self._voice_next_sentence()
        words = self._speak(out)
        self._echo_level.played(out)
        self.frame += 1
        reported, self._heard = tuple(self._heard), []
        return "".join(words) or None, reported

    # ---- the user --------------------------------------------------------------------------------------------------

    def _on_endpoint(self, event: EndpointEvent, *, over_agent: bool) -> None:
        match event, self._turn:
            case Started(frame), before:
                self._turn = _continued(before) or Turn(frame, over_agent)
            case Paused(pcm, frame), Turn() as turn:
                self._recognise(turn, pcm, frame)
            case Resumed(), Turn() as turn:
                turn.forget_speculation()
                if self._voicing is not None and self._voicing.turn is turn:
                    self._voicing = None
            case Ended(pcm, frame), Turn() as turn:
                self._end(turn, pcm, frame)
            case Dismissed(), _:
                self._turn = None

    def _recognise(self, turn: Turn, pcm: NDArray[np.float32], frame: int) -> None:
        turn.end_frame = frame
        turn.pcm = np.concatenate((turn.before, pcm))[-int(MAX_UTTERANCE_S * EAR_RATE_HZ) :]
        if self._understands:
            turn.key = self._next_key()
            self._submit(Recognise(turn.key, turn.pcm))

    def _end(self, turn: Turn, pcm: NDArray[np.float32], frame: int) -> None:
        turn.ended = True
        if turn.key is None:  # cut off at its greatest length, or there is no recogniser
            self._recognise(turn, pcm, frame)
        if not self._understands:
            turn.text = ""
            turn.reply = dialogue.answer_without_words(turn.end_frame - turn.start_frame + 1, self._memory)
        self._answer_if_complete(turn)

    def _recognised(self, turn: Turn, result: Recognised) -> None:
        turn.text = result.text
        if self._is_addressed(turn, result.text):
            turn.reply = dialogue.answer(result.text, self._memory, self._clock())
            if not turn.ended:
                self._heard.append(Heard(result.text, turn.start_frame, turn.end_frame, final=False))
            if not self._mouth.active:
                self._voice(turn.reply.sentences[0], turn)
        self._answer_if_complete(turn)

    def _is_addressed(self, turn: Turn, text: str) -> bool:
        """Are these words for the agent: not its own, and not the "mm-hmm" of somebody who listens?"""
        if not any(character.isalnum() for character in text):
            return False
        if not turn.over_agent:
            return True
        listening = (self._mouth.active or bool(self._interrupted)) and is_backchannel(Said.of(text))
        if self._own_words.is_echo(text, turn.start_frame, turn.end_frame):
            self._echo_level.caught()
            return False
        return not listening

    def _answer_if_complete(self, turn: Turn) -> None:
        if not turn.ended or turn.text is None:
            return
        self._turn = None
        if turn.reply is None:
            return
        if turn.text:
            self._heard.append(Heard(turn.text, turn.start_frame, turn.end_frame, final=True))
        self._memory = turn.reply.memory
        unsaid = (*self._mouth.waiting, *self._script)
        self._mouth.cut()
        self._script = deque(turn.reply.sentences)
        if self._announcement in unsaid:
            self._script.append(self._announcement)
        self._interrupted = ()
        self._may_resume = True
        if turn.opening is not None:
            self._mouth.say(self._script.popleft(), turn.opening)
        elif self._voicing is not None and self._voicing.turn is turn:
            self._voicing.turn = None
        else:
            self._voicing = None

    # ---- the agent -------------------------------------------------------------------------------------------------

    @property
    def _sounds(self) -> bool:
        """The agent is in the middle of speaking: it was heard in the last frame, and goes on."""
        return self._mouth.active and self.frame - self._last_sound_frame <= 1

    def _voiced(self, result: Voiced) -> None:
        voicing = self._voicing
        if voicing is None or result.key != voicing.key:
            return
        self._voicing = None
        if voicing.turn is None:
            self._script.popleft()
            self._mouth.say(voicing.sentence, result.pcm)
        else:
            voicing.turn.opening = result.pcm
        self._voice_next_sentence()

    def _stop_for_user(self) -> None:
        """The user speaks over the agent: fade out, and put aside what was not said."""
        unfinished = (*self._mouth.cut(), *self._script)
        self._interrupted = unfinished if self._may_resume else ()
        self._script.clear()
        self._voicing = None

    def _resume_script(self) -> None:
        """What stopped the agent was nothing to answer: take up the interrupted sentence, once per reply."""
        if self._interrupted:
            self._script = deque(self._interrupted)
            self._interrupted = ()
            self._may_resume = False

    def _announce_timers(self) -> None:
        """A timer that is due speaks up after the sentence that is being said."""
        if not self._memory.timers:
            return
        sentence, self._memory = take_due(self._memory, self._clock())
        if sentence is not None:
            self._announcement = sentence
            self._script.appendleft(sentence)
            self._voicing = None

    def _voice_next_sentence(self) -> None:
        if self._script and self._voicing is None and self._mouth.ahead_s < _LOOKAHEAD_S:
            self._voice(self._script[0], None)

    def _voice(self, sentence: str, turn: Turn | None) -> None:
        self._voicing = Voicing(self._next_key(), sentence, turn)
        self._submit(Speak(self._voicing.key, sentence))

    def _speak(self, out: FloatFrames) -> list[str]:
        if self._must_wait():
            out[:] = 0.0
            return []
        if self._mouth.active:
            self._last_sound_frame = self.frame
        words = self._mouth.take(out)
        self._own_words.said(words, self.frame)
        return words

    def _must_wait(self) -> bool:
        """Hold back a first sentence while the user speaks, and the greeting until the player runs."""
        begins = self._mouth.active and not self._sounds
        self._waited_frames = self._waited_frames + 1 if begins and self._endpointer.speaking else 0
        return begins and (self.frame < GREETING_FRAME or 0 < self._waited_frames < _LONGEST_WAIT_FRAMES)

    def _next_key(self) -> int:
        self._keys += 1
        return self._keys


def _continued(before: Turn | None) -> Turn | None:
    """The turn that goes on with an utterance that had ended, but was not recognised when more speech came."""
    if before is None:
        return None
    return Turn(before.start_frame, before.over_agent, before=before.pcm)
