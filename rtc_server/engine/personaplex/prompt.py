"""The opening of a conversation as tokens: voice, silence, persona, silence, each call given in all 17 rows.

::

    phase      calls           text row        agent rows         user rows
    voice      of the voice    PAD             codes of the voice SINE
    silence    6               PAD             SILENCE            SINE
    persona    one a token     persona's ids   SILENCE            SINE
    silence    6               PAD             SILENCE            SINE

A row that lies behind by one call carries at position p what call p - 1 gave. So position P, the first one after the P
calls of an opening, knows its acoustic rows already, while its text and first agent code are sampled from the output of
position P - 1 and its first user code comes with the user's first frame.

Of the positions that are fed to the model, those up to the end of the first silence depend on the voice alone: the
persona's first token is the first thing that differs, and it stands in a row without delay. Their keys are the same for
every persona. Without any voice the opening starts with the first silence. Plain Moshi takes no opening.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rtc_server.engine.personaplex.config import (
    AGENT_ROWS,
    CODEBOOKS,
    TEXT_ROW,
    TOKEN_ROWS,
    USER_ROWS,
    LmConfig,
)
from rtc_server.engine.personaplex.tokens import FREE
from rtc_server.engine.personaplex.voicefiles import StoredVoice

SILENCE = (948, 243, 1178, 546, 1736, 1030, 1978, 2008)
"""What the agent says while it is told who it is; the codes that the model was trained with."""
SINE = (430, 1268, 381, 1611, 1095, 1495, 56, 472)
"""What the user says meanwhile: a tone of 440 Hz."""
PAD = 3
"""Text token of a call in which no word begins."""
SILENCE_CALLS = 6
"""Half a second before the persona, and again after it."""
FIXED_CALLS = 2 * SILENCE_CALLS
"""Of every opening, whatever voice and persona it has."""


@dataclass(frozen=True, slots=True, eq=False)
class Prompt:
    """An opening laid out on positions 0..P-1, and what it leaves behind for position P. All tensors on the CPU."""

    embeddings: Tensor | None
    """[N, dim]: of a stored voice, the input of positions 0..N-1 as it is. None: N is 0."""
    tokens: Tensor
    """[P - N, 17] int64: the token rows of positions N..P-1, to be embedded."""
    last: Tensor
    """[17] int64: the rows of position P; FREE where they are still to be sampled or heard."""
    prefix: int
    """Positions 0..prefix-1 do not depend on the persona."""

    @property
    def positions(self) -> int:
        """P, which is also the number of calls and the index of the next one."""
        return len(self.tokens) + (0 if self.embeddings is None else len(self.embeddings))

    def inputs(self, embed: Callable[[Tensor], Tensor], device: torch.device) -> Tensor:
        """[P, dim] on the device: what the model takes at positions 0..P-1. `embed`: of `LanguageModel`."""
        embedded = embed(self.tokens.to(device))
        return embedded if self.embeddings is None else torch.cat([self.embeddings.to(embedded), embedded])


def compose(config: LmConfig, voice: Tensor | StoredVoice | None, persona: Sequence[int]) -> Prompt:
    """An opening with `voice`, codes [n, 8] or a stored one, and the persona's token ids; none at all are fine."""
    silence = forced_calls(torch.tensor(SILENCE).expand(SILENCE_CALLS, CODEBOOKS))
    text = torch.tensor(list(persona), dtype=torch.int64)
    spoken = forced_calls(torch.tensor(SILENCE).expand(len(text), CODEBOOKS), text)
    after_voice = torch.cat([silence, spoken, silence])
    if isinstance(voice, StoredVoice):
        first = voice.calls
        rows = align(config, after_voice, first, voice.carry)
        rows = torch.cat([voice.newest[None], rows])
        embeddings = voice.embeddings
    else:
        codes = torch.zeros(0, CODEBOOKS, dtype=torch.int64) if voice is None else voice.cpu()
        first = len(codes)
        rows = align(config, torch.cat([forced_calls(codes), after_voice]))
        embeddings = None
    return Prompt(embeddings, rows[:-1], rows[-1], first + SILENCE_CALLS)


def longest_opening(config: LmConfig) -> int:
    """Positions of an opening of which the first live frame still sees everything."""
    window = config.context - 1 if config.drop_oldest else config.context
    return window - 1


def most_persona_tokens(config: LmConfig, voice_calls: int) -> int:
    """The longest persona that fits into such an opening beside the voice."""
    return max(0, longest_opening(config) - voice_calls - FIXED_CALLS)


def align(config: LmConfig, calls: Tensor, first: int = 0, carry: Tensor | None = None) -> Tensor:
    """From calls to positions: [K, 17] given at calls first..first+K-1 -> [K + 1, 17] at positions first..first+K.

    Args:
        calls: int64, complete: every row of every call.
        carry: [17], the rows at position `first` that the call before gave; only the delayed ones are read.

    No delay is longer than one call. A row is FREE where neither says what it holds. At positions 0..delay it holds its
    initial token whatever was given, so that the first call of a conversation is swallowed.
    """
    unknown = torch.full((1, TOKEN_ROWS), FREE)
    delays = torch.tensor(config.delays)
    at_once = torch.cat([calls, unknown])
    one_later = torch.cat([unknown if carry is None else carry[None], calls])
    rows = torch.where(delays == 0, at_once, one_later)
    positions = torch.arange(first, first + len(rows))
    return torch.where(positions[:, None] <= delays, torch.tensor(config.initial_tokens), rows)


def forced_calls(agent: Tensor, text: Tensor | None = None) -> Tensor:
    """Calls in which everything is given: the agent's codes [n, 8], text [n] or padding, and the tone -> [n, 17]."""
    calls = torch.full((len(agent), TOKEN_ROWS), PAD)
    if text is not None:
        calls[:, TEXT_ROW] = text
    calls[:, AGENT_ROWS] = agent
    calls[:, USER_ROWS] = torch.tensor(SINE)
    return calls
