"""What is timed: a call of the engine or of one of its parts, at a chosen age, with random weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from rtc_server.engine.personaplex.bench.clock import Clock, Sample
from rtc_server.engine.personaplex.config import CODEBOOKS, TOKEN_ROWS
from rtc_server.engine.personaplex.lm import LanguageModel, LmStep
from rtc_server.engine.personaplex.mimi.codec import Mimi
from rtc_server.engine.personaplex.rows import batch_size
from rtc_server.engine.personaplex.tick import Extent, Tick
from rtc_server.engine.personaplex.tokens import FREE
from rtc_server.engine.stepper import FRAME_SAMPLES, Sampling

PREFILL_POSITIONS = 256
"""A pass."""
CODEC_FILL_FRAMES = 125
"""After ten seconds the codec's window is full."""
SEED = 1


class Part(Protocol):
    """A part of the engine."""

    def rewind(self) -> None:
        """Back to the age that is measured. Not timed."""

    def call(self) -> object:
        """One call of the live rows, as the engine makes it."""


class Timed:
    """A part, as a subject. On a GPU the call is captured once and replayed."""

    def __init__(self, part: Part, clock: Clock, device: torch.device) -> None:
        self._part, self._clock = part, clock
        self._call = captured(part.call) if device.type == "cuda" else part.call

    def sample(self) -> Sample:
        self._part.rewind()
        return self._clock.time(self._call)


class TimedProducts:
    """Products one after the other, as a subject."""

    def __init__(self, products: Sequence[Callable[[], None]], clock: Clock, device: torch.device) -> None:
        def call() -> None:
            for product in products:
                product()

        self._clock = clock
        self._call = captured(call) if device.type == "cuda" else call

    def sample(self) -> Sample:
        return self._clock.time(self._call)


class LanguagePart:
    """Slots that have taken about `fill` positions, each one more than the slot before, sampling as by default."""

    def __init__(self, lm: LanguageModel, *, live: int, fill: int, device: torch.device) -> None:
        self.lm, self._live = lm, live
        self._lengths = [fill + row for row in range(live)]
        self.n = batch_size(live, lm.rows)
        self.keys = lm.keys_for(self._lengths)
        self._codes = torch.randint(lm.config.card, (self.n, CODEBOOKS), device=device)
        self._active = torch.arange(self.n, device=device) < live
        self._grow(max(self._lengths), device)
        self.mode = lm.sampler.mode(range(live))

    def _grow(self, positions: int, device: torch.device) -> None:
        lm = self.lm
        tokens = torch.randint(lm.config.card, (positions, TOKEN_ROWS), device=device)
        tokens.clamp_(max=min(lm.config.card, lm.config.text_card) - 1)
        lm.reset(0)
        for start in range(0, positions, PREFILL_POSITIONS):
            hidden = lm.prefill(0, start, lm.embed(tokens[start : start + PREFILL_POSITIONS]))
        lm.sampler.set(0, Sampling(), SEED)
        lm.begin(0, positions, torch.full((TOKEN_ROWS,), FREE, device=device), hidden[-1:])
        for row in range(1, self._live):
            lm.reset(row)
            lm.kv.copy(0, row, 0, positions)
            lm.copy_row(0, row)
            lm.sampler.set(row, Sampling(), SEED + row)

    def rewind(self) -> None:
        for row, length in enumerate(self._lengths):
            self.lm.kv.set_length(row, length)
        self.lm.sampler.draw(range(self._live))

    def call(self) -> LmStep:
        return self.lm.step(self._codes, self._active, self.keys, mode=self.mode, full=self._live == 1)


class CodecPart:
    """One frame in and one out."""

    def __init__(self, mimi: Mimi, *, slots: int, live: int, fill: int, device: torch.device) -> None:
        self.mimi = mimi
        self.n = batch_size(live, slots)
        frames = min(fill, CODEC_FILL_FRAMES)
        self.keys = mimi.keys_for((frames,))
        self._pcm = torch.randn(self.n, FRAME_SAMPLES, device=device) * 0.1
        self._active = torch.arange(self.n, device=device) < live
        for row in range(live):
            mimi.reset(row)
        for _ in range(frames):
            self.call()

    def rewind(self) -> None:
        """The ring goes on: once it is full a call costs the same for ever."""

    def call(self) -> Tensor:
        codes = self.mimi.encode(self._pcm, self._active, keys=self.keys)
        return self.mimi.decode(codes, self._active, keys=self.keys)


class WholePart:
    """What the server calls: codec, language model, codec."""

    def __init__(
        self, language: LanguagePart, codec: CodecPart, *, slots: int, live: int, device: torch.device
    ) -> None:
        self._language = language
        self._tick = Tick(language.lm, codec.mimi, rows=slots, device=device)
        self._tick.active[:live] = True
        self._tick.pcm.normal_().mul_(0.1)
        self._extent = Extent(language.n, language.keys, codec.keys, language.mode, full=live == 1)

    def rewind(self) -> None:
        self._language.rewind()

    def call(self) -> Tensor:
        self._tick.body(self._extent)
        return self._tick.out_pcm


def captured(call: Callable[[], object]) -> Callable[[], object]:
    """The call as one graph: on a GPU its launches would take longer than its work."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay
