"""The language model: one call for many conversations, and one causal pass over the opening of a new one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from rtc_server.engine.personaplex.config import AGENT_ROWS, CODEBOOKS, TEXT_ROW, LmConfig
from rtc_server.engine.personaplex.depformer import Depformer
from rtc_server.engine.personaplex.kvcache import KvRing
from rtc_server.engine.personaplex.matrix import activation_dtype
from rtc_server.engine.personaplex.sampling import ANY_MODE, Mode, Race, Sampler
from rtc_server.engine.personaplex.temporal import Temporal
from rtc_server.engine.personaplex.tokens import CallTokens, Forced, TokenRows
from rtc_server.engine.personaplex.weights import Weights


@dataclass(frozen=True, slots=True)
class LmStep:
    """What one call of n rows made; for rows that were not active it means nothing."""

    frame: Tensor
    """[n, 17] int64: the frame that can be heard now; rows 0 text, 1-8 agent, 9-16 what the user said meanwhile."""
    valid: Tensor
    """[n] bool: there is a frame. False for inactive rows, and at the first call of a conversation."""
    finite: Tensor
    """[n] bool: hidden state and text logits are."""
    hidden: Tensor
    """[n, dim]."""
    text_logits: Tensor
    """[n, text card], of the next position as all below."""
    sampled_text: Tensor
    """[n] int64, before given tokens replace it."""
    sampled_codes: Tensor
    """[n, steps] int64, likewise."""
    code_logits: Tensor | None
    """[n, steps, card] if they were to be kept."""


class LanguageModel:
    """Every row has its own age, prompt, settings and random numbers; what one does never shows in another.

    All state lies in tensors allocated here. `step` never waits for the device and can be captured as a CUDA graph.

    Attributes:
        pin_prompt: whoever opens a row is to pin its prompt (`kv.pin`) and to call `kv.repin` before each of its calls.
        nbytes: of the weights.
        bytes_per_row: of the state.
    """

    def __init__(
        self,
        weights: Weights,
        config: LmConfig,
        *,
        rows: int,
        device: torch.device | str,
        dtype: torch.dtype,
        depformer_steps: int = CODEBOOKS,
        weight_bits: int = 16,
        kv_bits: int = 16,
        pin_prompt: bool = False,
    ) -> None:
        self.config, self.rows, self.pin_prompt = config, rows, pin_prompt
        self._temporal = Temporal(weights, config, rows=rows, bits=weight_bits)
        self._depformer = Depformer(weights, config, steps=depformer_steps, rows=rows, bits=weight_bits)
        self.kv = KvRing(
            config.layers,
            rows,
            config.heads,
            config.dim // config.heads,
            config.context,
            drop_oldest=config.drop_oldest,
            max_period=config.max_period,
            device=device,
            dtype=activation_dtype(device, dtype),
            bits=kv_bits,
        )
        self.tokens = TokenRows(rows, config, device)
        self.sampler = Sampler(rows, depformer_steps, device)
        self.nbytes = self._temporal.nbytes + self._depformer.nbytes
        parts = (self.kv, self.tokens, self.sampler, self._depformer)
        self.bytes_per_row = sum(part.bytes_per_row for part in parts)

    @torch.inference_mode()
    def step(
        self,
        user: Tensor,
        active: Tensor,
        keys: int,
        forced: Forced | None = None,
        keep_logits: bool = False,
        *,
        mode: Mode = ANY_MODE,
        full: bool = False,
    ) -> LmStep:
        """One call of rows 0..n-1: runs each active row's position and samples the one after it.

        user [n, 8] int64: the codes of this call's frame. active [n] bool: the others do not change. keys: of
        `keys_for`, or more. mode: of `sampler.mode` for the active rows, or wider. full: every active row fills all
        `keys` rows of its ring. Noise is drawn before, by `sampler.draw`.
        """
        n = user.shape[0]
        call = self.tokens.call(user, forced)
        plan = self.kv.step_plan(1, keys, active, full=full)
        hidden = self._temporal.hidden(self._temporal.embed(call.now), plan, n)
        self.kv.advance(1, active)
        valid = active & (self.tokens.offset[:n] >= self.tokens.first)
        text_logits = self._temporal.text_logits(hidden)
        race = self.sampler.race(slice(0, n), mode)
        chosen, text, codes, code_logits = self._choose(hidden, text_logits, call, race, keep_logits)
        frame = self.tokens.finish(call, chosen, active)
        return LmStep(frame, valid, _finite(hidden, text_logits), hidden, text_logits, text, codes, code_logits)

    def keys_for(self, positions: Iterable[int]) -> int:
        """Ring rows to read in a call in which the active rows take these positions."""
        return min(max(positions, default=0) + 1, self.kv.capacity)

    @torch.inference_mode()
    def embed(self, tokens: Tensor) -> Tensor:
        """tokens [T, 17] of T positions, -1 for nothing -> inputs of `prefill` [T, dim]."""
        return self._temporal.embed(tokens)

    @torch.inference_mode()
    def prefill(self, row: int, start: int, x: Tensor) -> Tensor:
        """Positions [start, start + T) of a row from their inputs x [T, dim] -> hidden states [T, dim].

        In as many passes as one likes, one after the other; other rows may be stepped in between. The row is then
        `start` + T positions long.
        """
        plan = self.kv.prefill_plan(row, start, x.shape[0])
        hidden = self._temporal.hidden(x, plan, 1)
        self.kv.set_length(row, start + x.shape[0])
        return hidden

    @torch.inference_mode()
    def begin(self, row: int, offset: int, tokens: Tensor, hidden: Tensor) -> None:
        """After an opening of `offset` positions: the next call of the row is number `offset`.

        tokens [17]: of that position, `FREE` where they are to be sampled now (text and agent) or will come with the
        call (user). hidden [1, dim]: of the last position.
        """
        self.sampler.draw((row,))
        tokens = tokens[None]
        call = CallTokens(tokens[:, None], tokens, tokens, tokens >= 0)
        race = self.sampler.race(slice(row, row + 1))
        chosen, *_ = self._choose(hidden, self._temporal.text_logits(hidden), call, race, False)
        self.tokens.load(row, offset, torch.cat([chosen, tokens[:, AGENT_ROWS.stop :]], 1)[0])

    @torch.inference_mode()
    def reset(self, row: int, scrub: bool = False) -> None:
        """The row is new. `scrub` when it may have computed NaN."""
        self.kv.reset(row)
        self.tokens.reset(row)
        if scrub:
            self.kv.scrub(row)

    @torch.inference_mode()
    def copy_row(self, source: int, target: int) -> None:
        """Once `kv.copy` has taken over all positions: the target row goes on exactly as the source row would."""
        self.kv.copy_state(source, target)
        self.tokens.copy_row(source, target)
        self.sampler.copy_row(source, target)

    def _choose(
        self, hidden: Tensor, text_logits: Tensor, call: CallTokens, race: Race, keep_logits: bool
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """The next position's text and agent tokens [n, 9]; what was sampled for them, text [n] and codes [n, steps];
        and logits [n, steps, card] if they are kept."""
        sampled = race.text(text_logits)
        text = torch.where(call.given[:, TEXT_ROW], call.target[:, TEXT_ROW], sampled)
        rows = slice(AGENT_ROWS.start, AGENT_ROWS.start + self._depformer.steps)
        codes, sampled_codes, logits = self._depformer.run(
            hidden, text, race.code, call.target[:, rows], call.given[:, rows], keep_logits=keep_logits
        )
        chosen = torch.cat([text[:, None], codes[:, :CODEBOOKS]], 1)
        return chosen, sampled, sampled_codes, logits


def _finite(hidden: Tensor, logits: Tensor) -> Tensor:
    """[n] bool. The sum of a row is finite if and only if all of it is: nothing comes near the range of float32."""
    return torch.isfinite(hidden.sum(-1, dtype=torch.float32) + logits.sum(-1, dtype=torch.float32))
