"""The choice of a token: the likeliest, or one of the k likeliest by an exponential race. Each row has its own stream.

Dividing probabilities by independent Exp(1) numbers and taking the largest draws from the distribution, without a sum,
a search or a word to the host. Only the order counts, so logits / temperature - log(noise) does, without a softmax.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from rtc_server.engine.personaplex.config import MAX_TOP_K
from rtc_server.engine.stepper import MAX_TEMPERATURE, Sampling, SamplingSettings, Setting

TEXT_TEMPERATURE, TEXT_TOP_K = 0.7, 25
AUDIO_TEMPERATURE, AUDIO_TOP_K = 0.8, 250
SAMPLING = SamplingSettings(
    audio_temperature=Setting(AUDIO_TEMPERATURE, 0, MAX_TEMPERATURE),
    audio_top_k=Setting(AUDIO_TOP_K, 1, MAX_TOP_K),
    text_temperature=Setting(TEXT_TEMPERATURE, 0, MAX_TEMPERATURE),
    text_top_k=Setting(TEXT_TOP_K, 1, MAX_TOP_K),
)
"""What callers may choose. A top-k of 0 is the largest."""
GREEDY = Sampling(audio_temperature=0.0, text_temperature=0.0)


@dataclass(frozen=True, slots=True)
class Mode:
    """What the rows of a call want, known on the host: paths that nobody takes are left out.

    A mode serves rows that want less, too: the tokens are the same. The default serves all, so captured graphs have it.
    """

    text_k: int = MAX_TOP_K
    """The largest top-k of a row that samples; 0: none does."""
    code_k: int = MAX_TOP_K
    greedy_text: bool = True
    """Some row takes the likeliest."""
    greedy_codes: bool = True


ANY_MODE = Mode()


@dataclass(frozen=True, slots=True)
class RowSettings:
    """Of one row, defaults filled in; a temperature of 0 is greedy."""

    text_temperature: float
    text_k: int
    code_temperature: float
    code_k: int

    @classmethod
    def of(cls, sampling: Sampling) -> RowSettings:
        text_temperature, text_k = sampling.text_temperature, sampling.text_top_k
        code_temperature, code_k = sampling.audio_temperature, sampling.audio_top_k
        return cls(
            TEXT_TEMPERATURE if text_temperature is None else text_temperature,
            TEXT_TOP_K if text_k is None else _clamped(text_k),
            AUDIO_TEMPERATURE if code_temperature is None else code_temperature,
            AUDIO_TOP_K if code_k is None else _clamped(code_k),
        )

    @property
    def samples(self) -> bool:
        return self.text_temperature > 0 or self.code_temperature > 0


class Sampler:
    """Settings, noise and random generators of all rows.

    Each row draws the noise of a whole call at once, MAX_TOP_K numbers for the text and for each code, from its own
    generator and whatever its settings are: what a row gets never depends on the others.

    Attributes:
        noise: [rows, (1 + steps) * MAX_TOP_K] float32, Exp(1). The first number of each race is the likeliest token's.
    """

    def __init__(self, rows: int, steps: int, device: torch.device | str) -> None:
        width = (1 + steps) * MAX_TOP_K
        self.noise = torch.ones(rows, width, device=device)
        self._handicap = torch.zeros(rows, width, device=device)  # -inf beyond a row's top-k
        self._warmth = torch.ones(rows, 2, device=device)  # 1 / temperature of text, codes
        self._greedy = torch.zeros(rows, 2, dtype=torch.bool, device=device)
        self._rank = torch.arange(MAX_TOP_K, device=device)
        self._generators = [Generator(device) for _ in range(rows)]
        self._settings = [RowSettings.of(Sampling())] * rows
        tensors = (self.noise, self._handicap, self._warmth, self._greedy)
        self.bytes_per_row = sum(tensor.nbytes for tensor in tensors) // rows
        for row in range(rows):
            self.set(row, Sampling(), None)

    def set(self, row: int, sampling: Sampling, seed: int | None) -> None:
        """A conversation begins: its settings, and its stream of random numbers; None seeds it from the system."""
        settings = self._settings[row] = RowSettings.of(sampling)
        handicap = self._handicap[row].view(-1, MAX_TOP_K)
        handicap.zero_()
        handicap[0].masked_fill_(self._rank >= settings.text_k, float("-inf"))
        handicap[1:].masked_fill_(self._rank >= settings.code_k, float("-inf"))
        for column, temperature in enumerate((settings.text_temperature, settings.code_temperature)):
            self._greedy[row, column] = temperature <= 0
            self._warmth[row, column] = 1 / temperature if temperature > 0 else 1.0
        if seed is None:
            self._generators[row].seed()
        else:
            self._generators[row].manual_seed(seed)

    def copy_row(self, source: int, target: int) -> None:
        """Both rows then draw the same."""
        self._settings[target] = self._settings[source]
        for tensor in (self.noise, self._handicap, self._warmth, self._greedy):
            tensor[target] = tensor[source]
        self._generators[target].set_state(self._generators[source].get_state())

    def draw(self, rows: Iterable[int]) -> None:
        """New noise for these rows, once before each of their calls. Not capturable: it is what a graph reads."""
        for row in rows:
            if self._settings[row].samples:
                draw_exponential(self.noise[row], self._generators[row])

    def mode(self, rows: Iterable[int]) -> Mode:
        """The narrowest that serves these rows."""
        settings = [self._settings[row] for row in rows]
        text = [s.text_k for s in settings if s.text_temperature > 0]
        codes = [s.code_k for s in settings if s.code_temperature > 0]
        return Mode(max(text, default=0), max(codes, default=0), len(text) < len(settings), len(codes) < len(settings))

    def race(self, rows: slice, mode: Mode = ANY_MODE) -> Race:
        """The choices of one call of some rows; `mode` must serve them. Capturable."""
        start = self._handicap[rows] - self.noise[rows].log()
        return Race(start, self._warmth[rows], self._greedy[rows], mode)


class Race:
    """Chooses the tokens of a call, text first, then code by code. Capturable."""

    def __init__(self, start: Tensor, warmth: Tensor, greedy: Tensor, mode: Mode) -> None:
        self._start = start.view(len(start), -1, MAX_TOP_K).unbind(1)
        self._warmth, self._greedy = (warmth[:, :1], warmth[:, 1:]), greedy.unbind(1)
        self._mode = mode

    def text(self, logits: Tensor) -> Tensor:
        """logits [n, text card] -> [n] int64."""
        return self._choose(logits, 0, self._start[0], self._mode.text_k, self._mode.greedy_text)

    def code(self, step: int, logits: Tensor) -> Tensor:
        """logits [n, card] of a depformer step -> [n] int64."""
        return self._choose(logits, 1, self._start[1 + step], self._mode.code_k, self._mode.greedy_codes)

    def _choose(self, logits: Tensor, column: int, start: Tensor, k: int, greedy: bool) -> Tensor:
        if k == 0:
            return logits.argmax(-1)  # the lowest index of equals
        sampled = choose(logits, self._warmth[column], start[:, :k])
        return torch.where(self._greedy[column], logits.argmax(-1), sampled) if greedy else sampled


def draw_exponential(out: Tensor, generator: Generator) -> None:
    """Fill `out` with Exp(1) numbers, none of them 0."""
    if out.is_cuda:
        out.exponential_(generator=generator)
    else:  # ten times faster on a CPU; the uniform numbers are below 1
        out.uniform_(generator=generator).log_().neg_()


def choose(logits: Tensor, warmth: Tensor, start: Tensor) -> Tensor:
    """logits [n, V]; warmth [n, 1], 1 / temperature; start [n, k], -log Exp(1), -inf for what may not win -> [n] int64.

    Column i of `start` belongs to the token with the i-th largest logit.
    """
    top, index = logits.topk(min(start.shape[-1], logits.shape[-1]), -1)
    score = torch.addcmul(start[:, : top.shape[-1]], top.float(), warmth)
    return index.gather(-1, score.argmax(-1, keepdim=True))[:, 0]


def _clamped(top_k: int) -> int:
    return min(top_k, MAX_TOP_K) if top_k > 0 else MAX_TOP_K
