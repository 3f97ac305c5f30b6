"""Work on one slot's prompt, a little at a time: voice, then one causal prefill in chunks, then the first sample.

Each step is worth the time of about a tick or less, so that the engine loop can put them into the gaps between ticks.
What was worked through once is kept: per voice the codes and the keys of the voice part, per (voice, persona) all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from functools import partial

import torch
from torch import Tensor

from rtc_server.engine.personaplex.config import CODEBOOKS, TOKEN_ROWS
from rtc_server.engine.personaplex.lm import LanguageModel
from rtc_server.engine.personaplex.mimi.codec import Mimi
from rtc_server.engine.personaplex.pace import PATIENCE_S, ChunkPace
from rtc_server.engine.personaplex.prompt import Prompt, compose
from rtc_server.engine.personaplex.promptcache import CachedPrompt, PromptCache
from rtc_server.engine.personaplex.voices import StoredVoice, VoiceAudio
from rtc_server.engine.stepper import FRAME_SAMPLES
from rtc_server.errors import EngineError

Voice = StoredVoice | VoiceAudio | None


class PrefillContext:
    """What all openings share: the models, the caches, and what a chunk costs."""

    def __init__(self, lm: LanguageModel, mimi: Mimi, device: torch.device, cache_bytes: int) -> None:
        self.lm, self.mimi, self.device = lm, mimi, device
        self.prompts = PromptCache(cache_bytes)
        self.voice_codes: dict[str, Tensor] = {}
        """By name of the voice: [n, 8]. A minute of voice is 48 KB."""
        self.pace = ChunkPace()
        """Of the language model, by positions."""
        self.codec_pace = ChunkPace()
        """Of encoding a voice, by frames."""

    def finished(self) -> None:
        """Wait for the device, so that time measured here is time spent there."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def measure_pace(self, row: int) -> None:
        """What chunks cost on this machine, tried out in a row that nobody uses. The first of a size is no measure."""
        silence = torch.zeros(1, FRAME_SAMPLES, device=self.device)
        only = torch.ones(1, dtype=torch.bool, device=self.device)
        encode = partial(self.mimi.encode, silence, only, slice(row, row + 1))
        self.codec_pace.took(1, self._second_time_s(encode))
        for size in (1, 8, 64):
            inputs = self.lm.embed(torch.full((size, TOKEN_ROWS), -1, device=self.device))
            self.pace.took(size, self._second_time_s(partial(self.lm.prefill, row, 0, inputs)))

    def _second_time_s(self, work: Callable[[], object]) -> float:
        began_s = 0.0
        for _ in range(2):
            began_s = time.monotonic()
            work()
            self.finished()
        return time.monotonic() - began_s


class Opening:
    """One slot on its way to its first live frame, in a row that is new.

    `work` is called again and again on the engine thread; between two calls other rows are stepped.
    """

    def __init__(
        self,
        context: PrefillContext,
        row: int,
        voice_name: str,
        voice: Voice,
        text: tuple[int, ...],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._context, self._clock = context, clock
        self._row, self._voice_name, self._voice, self._text = row, voice_name, voice, text
        self._deadline_s = 0.0
        self._went_on_s = clock()
        self._too_long: ChunkPace | None = None
        """Whose smallest chunk did not fit the last time."""
        self._steps = self._run()
        self.done = 0
        """Positions worked through."""
        self.total = 0
        """Of them in all; 0 while that is not known yet."""

    def work(self, budget_s: float) -> bool:
        """Go on for about so long. True once the row can be stepped."""
        self._deadline_s = self._clock() + budget_s
        idle = True
        while self._left_s() > 0:
            went_on = next(self._steps, None)
            if went_on is None:
                return True
            if not went_on:
                break
            idle = False
        if idle and self._too_long is not None:
            self._too_long.refused()
        return False

    def _left_s(self) -> float:
        return self._deadline_s - self._clock()

    def _run(self) -> Generator[bool, None, None]:
        """Yields True after each piece of work, False where the time left is too short for the next."""
        context, lm, voice = self._context, self._context.lm, self._voice
        codes = (yield from self._encode_voice(voice)) if isinstance(voice, VoiceAudio) else voice
        prompt = compose(lm.config, codes, self._text)
        self.total = prompt.positions
        whole = (self._voice_name, self._text)
        cached = context.prompts.get(whole)
        if cached is None:
            cached = yield from self._prefill(prompt, whole)
        else:
            self._take_over(cached)
        self.done = self.total
        if lm.pin_prompt:
            lm.kv.pin(self._row, cached.keys)
        lm.begin(self._row, cached.positions, prompt.last.to(context.device), cached.hidden)
        context.finished()

    def _take_over(self, cached: CachedPrompt) -> None:
        self._context.lm.kv.load(self._row, cached.keys)
        self._context.lm.kv.set_length(self._row, cached.positions)

    def _encode_voice(self, voice: VoiceAudio) -> Generator[bool, None, Tensor]:
        """Returns codes [n, 8] on the host."""
        context, row = self._context, self._row
        if (known := context.voice_codes.get(self._voice_name)) is not None:
            return known
        only = torch.ones(1, dtype=torch.bool, device=context.device)
        codes = torch.zeros(voice.calls, CODEBOOKS, dtype=torch.int64)
        for index, frame in enumerate(voice.frames):
            while self._fitting(context.codec_pace, 1) == 0:
                yield False
            began_s = self._clock()
            codes[index] = context.mimi.encode(frame.to(context.device), only, slice(row, row + 1))[0]
            context.codec_pace.took(1, self._clock() - began_s)
            self._went_on_s = self._clock()
            yield True
        context.mimi.reset(row)  # what follows is another stream: the caller's
        context.voice_codes[self._voice_name] = codes
        return codes

    def _prefill(self, prompt: Prompt, whole: tuple[str, tuple[int, ...]]) -> Generator[bool, None, CachedPrompt]:
        context, lm, row = self._context, self._context.lm, self._row
        inputs = prompt.inputs(lm.embed, context.device)
        start, hidden = 0, inputs[:1]
        if (prefix := context.prompts.get(self._voice_name)) is not None and prefix.positions == prompt.prefix:
            self._take_over(prefix)
            start = prefix.positions
        while start < len(inputs):
            # A chunk ends with the voice part, so that its keys can be kept for other personas.
            most = (prompt.prefix if start < prompt.prefix else len(inputs)) - start
            while (size := self._fitting(context.pace, most)) == 0:
                yield False
            began_s = self._clock()
            hidden = lm.prefill(row, start, inputs[start : start + size])[-1:]
            context.finished()
            context.pace.took(size, self._clock() - began_s)
            start += size
            self.done = start
            if start == prompt.prefix:
                context.prompts.put(self._voice_name, self._snapshot(start, hidden))
            self._went_on_s = self._clock()
            yield True
        saved = self._snapshot(start, hidden)
        context.prompts.put(whole, saved)
        return saved

    def _snapshot(self, positions: int, hidden: Tensor) -> CachedPrompt:
        """Raises: EngineError for what must not be given to the next caller."""
        if not bool(torch.isfinite(hidden).all()):
            raise EngineError("the prompt comes to numbers that are not finite", hint="try another --dtype")
        return CachedPrompt(positions, self._context.lm.kv.save(self._row, positions), hidden.clone())

    def _fitting(self, pace: ChunkPace, most: int) -> int:
        size = pace.fitting(self._left_s(), most)
        if size == 0 and self._clock() - self._went_on_s > PATIENCE_S:
            return 1
        self._too_long = pace if size == 0 else None
        return size
