"""PersonaPlex and Moshi behind the engine contract: slots to rows, prompts, the tick, text and failures."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from rtc_server.engine.personaplex.config import TEXT_ROW, TOKEN_ROWS
from rtc_server.engine.personaplex.load import Model, load_model
from rtc_server.engine.personaplex.opening import Opening, Studio, Voice
from rtc_server.engine.personaplex.prompt import FIXED_CALLS, most_persona_tokens
from rtc_server.engine.personaplex.rows import Move, RowTable
from rtc_server.engine.personaplex.text import TextAssembler
from rtc_server.engine.personaplex.tick import Extent, GraphRunner, PlainRunner, Runner, Tick
from rtc_server.engine.registry import EngineOptions
from rtc_server.engine.stepper import (
    FRAME_SAMPLES,
    Capabilities,
    FloatFrames,
    FrameSpec,
    SessionPrompt,
    StepOutput,
)
from rtc_server.log import get_logger

log = get_logger(__name__)

DEFAULT_PERSONA = "You enjoy having a good conversation."
NO_VOICE = "default"
"""Name of the only choice where there is no voice to choose."""
MOVE_POSITIONS = 128
"""Positions a tick that are copied when a slot moves to a lower row: 64 MiB at seven billion parameters."""


@dataclass(slots=True)
class _Talk:
    """One slot's conversation, on the host."""

    text: TextAssembler
    opening: Opening | None = None
    positions: int = 0
    """Calls so far, those of the prompt included: the position of the next one."""
    frames: int = 0
    """Live ones so far."""
    broken: bool = False
    """Something in its row is not finite: the row is wiped before its next owner gets it."""


class PersonaPlexStepper:
    """See `FrameStepper`. Every method runs on the engine thread.

    A slot's row may change while it speaks (see `rows`); its tokens, and so its words and its voice, do not.
    """

    def __init__(self, slots: int, options: EngineOptions) -> None:
        self._set_up(slots, load_model(slots, options))

    @classmethod
    def of(cls, slots: int, model: Model) -> PersonaPlexStepper:
        """With a model that is loaded already, for as many rows."""
        stepper = cls.__new__(cls)
        stepper._set_up(slots, model)
        return stepper

    def _set_up(self, slots: int, model: Model) -> None:
        self.slots = slots
        self._model, self._lm, self._mimi, self._device = model, model.lm, model.mimi, model.device
        self.spec = _spec(model)
        self._rows = RowTable(slots)
        self._talks: dict[int, _Talk] = {}
        self._move: Move | None = None
        pinned = self._device.type == "cuda"
        self._pcm = torch.zeros(slots, FRAME_SAMPLES, pin_memory=pinned)
        self._active = torch.zeros(slots, dtype=torch.bool, pin_memory=pinned)
        self._out_pcm = torch.zeros(slots, FRAME_SAMPLES, pin_memory=pinned)
        self._out_frame = torch.full((slots, TOKEN_ROWS), -1, pin_memory=pinned)
        self._out_sound = torch.ones(slots, dtype=torch.bool, pin_memory=pinned)
        with torch.inference_mode():
            self._studio = Studio(self._lm, self._mimi, self._device, cache_bytes=self._lm.kv.bytes_per_row)
            self._tick = Tick(self._lm, self._mimi, rows=slots, device=self._device)
            self._runner: Runner = (GraphRunner if pinned else PlainRunner)(self._tick, slots)
            self._warm_up()

    def check_prompt(self, prompt: SessionPrompt) -> None:
        """See `SupportsPromptCheck`. Raises: TooLarge for a persona that does not fit beside the voice."""
        if self._model.config.personaplex:
            self._text_tokens(prompt)

    def open(self, slot: int, prompt: SessionPrompt) -> None:
        row = self._rows.take(slot)
        talk = self._talks[slot] = _Talk(TextAssembler(self._model.tokenizer.pieces))
        with torch.inference_mode():
            self._lm.sampler.set(row, prompt.sampling, secrets.randbits(63) if prompt.seed is None else prompt.seed)
            self._lm.reset(row)
            self._mimi.reset(row)
            if self._model.config.personaplex:
                text = self._text_tokens(prompt)
                talk.opening = Opening(self._studio, row, self._voice_name(prompt), self._voice(prompt), text)

    def prefill(self, slot: int, budget_s: float) -> bool:
        talk = self._talks[slot]
        if talk.opening is None:
            return True
        with torch.inference_mode():
            if not talk.opening.work(budget_s):
                return False
            talk.positions = talk.opening.total
            if self._lm.pin_prompt and talk.opening.saved is not None:
                self._lm.kv.pin(self._rows[slot], talk.opening.saved.keys)
        talk.opening = None
        return True

    def progress(self, slot: int) -> tuple[int, int]:
        """See `SupportsProgress`."""
        opening = self._talks[slot].opening
        return (opening.done, opening.total) if opening is not None else (1, 1)

    def step(self, pcm: FloatFrames, live: NDArray[np.bool_]) -> StepOutput:
        slots = np.flatnonzero(live).tolist()
        rows = [self._rows[slot] for slot in slots]
        with torch.inference_mode():
            self._run(rows, slots, torch.from_numpy(pcm))
        output = StepOutput(
            pcm=np.zeros((self.slots, FRAME_SAMPLES), np.float32),
            text=[None] * self.slots,
            heard=[()] * self.slots,
            tokens=np.full((self.slots, TOKEN_ROWS), -1, np.int64),
        )
        assert output.tokens is not None
        failed = set()
        for slot, row in zip(slots, rows, strict=True):
            talk = self._talks[slot]
            talk.positions += 1
            talk.frames += 1
            if not self._out_sound[row]:
                talk.broken = True
                failed.add(slot)
                continue
            output.pcm[slot] = self._out_pcm[row].numpy()
            output.tokens[slot] = self._out_frame[row].numpy()
            output.text[slot] = talk.text.feed(int(self._out_frame[row, TEXT_ROW])) or None
        output.failed = frozenset(failed)
        with torch.inference_mode():
            self._tidy_rows(slots)
        return output

    def close(self, slot: int) -> None:
        talk = self._talks.pop(slot, None)
        if self._move is not None and self._move.slot == slot:
            self._rows.cancel(self._move)
            self._move = None
        row = self._rows.give_back(slot)
        if row is None or talk is None:
            return
        with torch.inference_mode():
            self._lm.kv.pin(row, None)
            self._lm.reset(row, scrub=talk.broken)
            self._mimi.reset(row)

    # ---- the tick ----------------------------------------------------------------------------------------------------

    def _run(self, rows: list[int], slots: list[int], pcm: torch.Tensor) -> None:
        """One call of the model; its results are on the host when it returns."""
        n, tick = 1 + max(rows), self._tick
        self._active.zero_()
        self._active[rows] = True
        self._pcm[rows] = pcm[slots]
        tick.active.copy_(self._active, non_blocking=True)
        tick.pcm.copy_(self._pcm, non_blocking=True)
        talks = [self._talks[slot] for slot in slots]
        positions = [talk.positions for talk in talks]
        if self._lm.pin_prompt:
            for row, position in zip(rows, positions, strict=True):
                self._lm.kv.repin(row, position)
        self._lm.sampler.draw(rows)
        keys = self._lm.keys_for(positions)
        extent = Extent(
            rows=n,
            keys=keys,
            codec_keys=self._mimi.keys_for(talk.frames for talk in talks),
            mode=self._lm.sampler.mode(rows),
            full=all(self._lm.keys_for((position,)) == keys for position in positions),
        )
        self._runner.run(extent)
        self._out_pcm[:n].copy_(tick.out_pcm[:n], non_blocking=True)
        self._out_frame[:n].copy_(tick.out_frame[:n], non_blocking=True)
        self._out_sound[:n].copy_(tick.out_sound[:n], non_blocking=True)
        self._studio.finished()

    def _warm_up(self) -> None:
        """The first call of anything takes many times longer, and prefill must know what its chunks cost."""
        row = self._rows.take(0)
        self._talks[0] = _Talk(TextAssembler(self._model.tokenizer.pieces))
        for _ in range(4):
            self._run([row], [0], torch.zeros(1, FRAME_SAMPLES))
        self._studio.measure_pace(row)
        self.close(0)

    # ---- rows --------------------------------------------------------------------------------------------------------

    def _tidy_rows(self, live: Iterable[int]) -> None:
        """Bring the highest slot a little nearer to a lower row, so that later ticks have fewer rows to work on."""
        if self._move is None:
            self._move = self._rows.plan_move(slot for slot in live)
        if (move := self._move) is None:
            return
        written = self._talks[move.slot].positions
        start, stop = move.next_positions(written, self._lm.kv.capacity, MOVE_POSITIONS)
        self._lm.kv.copy(move.source, move.target, start, stop)
        move.copied = stop
        if stop == written:
            self._lm.copy_row(move.source, move.target)
            self._mimi.copy_row(move.source, move.target)
            self._lm.reset(move.source)
            self._mimi.reset(move.source)
            self._rows.finish(move)
            self._move = None

    # ---- prompts -----------------------------------------------------------------------------------------------------

    def _voice_name(self, prompt: SessionPrompt) -> str:
        return prompt.voice or self.spec.voices[0]

    def _voice(self, prompt: SessionPrompt) -> Voice:
        """None where the shelf is empty: the model then speaks in a voice of its own choice."""
        shelf = self._model.shelf
        return shelf.load(self._voice_name(prompt)) if shelf.names else None

    def _text_tokens(self, prompt: SessionPrompt) -> tuple[int, ...]:
        """Raises: TooLarge."""
        persona = self.spec.default_persona if prompt.persona is None else prompt.persona
        shelf = self._model.shelf
        calls = shelf.frames(self._voice_name(prompt)) if shelf.names else 0
        most = most_persona_tokens(self._lm.config, calls)
        if self._lm.pin_prompt:
            most = min(most, self._lm.kv.pin_limit - calls - FIXED_CALLS)
        return self._model.tokenizer.persona(persona, most)


def _spec(model: Model) -> FrameSpec:
    personaplex = model.config.personaplex
    device = torch.cuda.get_device_name(model.device) if model.device.type == "cuda" else str(model.device)
    return FrameSpec(
        name="personaplex",
        summary=(
            f"{model.name}: listens and speaks at the same time, in the persona and the voice that you choose."
            if personaplex
            else f"{model.name}: listens and speaks at the same time; it takes no persona."
        ),
        device=device,
        voices=model.shelf.names or (NO_VOICE,),
        capabilities=Capabilities(input=("audio",), output=("audio", "text"), proactive=True),
        hears_interruptions=True,
        default_persona=DEFAULT_PERSONA if personaplex else "",
        persona_note="" if personaplex else "This model was not trained to take a persona.",
    )
