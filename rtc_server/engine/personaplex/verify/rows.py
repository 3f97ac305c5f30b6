"""Steps the rows of a language model as the engine does: greedily, with the positions known on the host."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from rtc_server.engine.personaplex.config import AGENT_ROWS, TEXT_ROW, TOKEN_ROWS, USER_ROWS
from rtc_server.engine.personaplex.lm import LanguageModel, LmStep
from rtc_server.engine.personaplex.prompt import align
from rtc_server.engine.personaplex.sampling import GREEDY
from rtc_server.engine.personaplex.tokens import FREE, Forced


class GreedyRows:
    """A call is [17] int64: the user's codes, and text and agent codes, FREE where they are to be sampled."""

    def __init__(self, lm: LanguageModel, device: torch.device) -> None:
        self.lm = lm
        self.device = device
        self._positions = [0] * lm.rows
        for row in range(lm.rows):
            lm.sampler.set(row, GREEDY, seed=row)
            self.reset(row)

    def reset(self, row: int) -> None:
        self.lm.reset(row)
        self._positions[row] = 0

    def step(self, calls: Mapping[int, Tensor], *, keep_logits: bool = False) -> LmStep:
        """One call of these rows; the others stand still."""
        n = 1 + max(calls)
        tokens = torch.zeros(n, TOKEN_ROWS, dtype=torch.int64)
        active = torch.zeros(n, dtype=torch.bool)
        for row, call in calls.items():
            tokens[row], active[row] = call, True
        mask = active[:, None] & (tokens != FREE)
        mask[:, USER_ROWS] = False
        forced = Forced(tokens.clamp(min=0).to(self.device), mask.to(self.device)) if bool(mask.any()) else None
        self.lm.sampler.draw(calls)
        keys = self.lm.keys_for(self._positions[row] for row in calls)
        user = tokens[:, USER_ROWS].to(self.device)
        step = self.lm.step(user, active.to(self.device), keys, forced, keep_logits=keep_logits)
        for row in calls:
            self._positions[row] += 1
        return step

    def prefill(self, row: int, calls: Tensor, chunks: Iterable[int] = ()) -> Tensor:
        """The first calls of a conversation [T, 17], all given, in passes of these sizes and one for the rest; then the
        row can be stepped. Returns hidden [T, dim]."""
        rows = align(self.lm.config, calls)
        return self.prefill_rest(row, 0, rows, chunks)

    def prefill_rest(self, row: int, start: int, rows: Tensor, chunks: Iterable[int] = ()) -> Tensor:
        """`rows` [T + 1, 17] are all positions of an opening, of which the row has taken `start` already."""
        x = self.lm.embed(rows[:-1].to(self.device))
        return self.open(row, start, x, rows[-1], chunks)

    def open(self, row: int, start: int, x: Tensor, last: Tensor, chunks: Iterable[int] = ()) -> Tensor:
        """From x [T, dim], the inputs of all positions of an opening, and the rows of the one after it [17]."""
        hidden = []
        for size in (*chunks, len(x)):
            if start < len(x):
                hidden.append(self.lm.prefill(row, start, x[start : start + size]))
                start = min(len(x), start + size)
        self.lm.begin(row, len(x), last.to(self.device), hidden[-1][-1:])
        self._positions[row] = len(x)
        return torch.cat(hidden)

    def move(self, source: int, target: int) -> None:
        """The conversation goes on in another row."""
        self.lm.kv.copy(source, target, 0, self._positions[source])
        self.lm.copy_row(source, target)
        self._positions[target] = self._positions[source]
        self.reset(source)


def call_of(user: Tensor, text: int | Tensor | None = None, agent: Tensor | None = None) -> Tensor:
    """user [8]; text and agent [8] if they are given -> [17]."""
    call = torch.full((TOKEN_ROWS,), FREE)
    call[USER_ROWS] = user
    if text is not None and agent is not None:
        call[TEXT_ROW], call[AGENT_ROWS] = int(text), agent
    return call
