"""PersonaPlex and Moshi behind the engine contract: slots to rows, prompts, the tick, text and failures."""

from __future__ import annotations

import secrets
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from rtc_server.engine.personaplex.config import TEXT_ROW, TOKEN_ROWS
from rtc_server.engine.personaplex.device import device_name
from rtc_server.engine.personaplex.load import Model, load_model, memory_explained
from rtc_server.engine.personaplex.opening import Opening, PrefillContext, Voice
from rtc_server.engine.personaplex.prompt import FIXED_CALLS, most_persona_tokens
from rtc_server.engine.personaplex.rows import Move, RowTable
from rtc_server.engine.personaplex.sampling import SAMPLING
from rtc_server.engine.personaplex.text import TextAssembler
from rtc_server.engine.personaplex.tick import Extent, GraphRunner, PlainRunner, Runner, Tick, batches
from rtc_server.engine.personaplex.voicefiles import VoiceAudio
from rtc_server.engine.registry import EngineOptions
from rtc_server.engine.stepper import (
    FRAME_SAMPLES,
    Capabilities,
    FloatFrames,
    FrameSpec,
    SessionPrompt,
    StepOutput,
)
from rtc_server.errors import EngineError, NoVoiceSample

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

    def __init__(self, slots: int, options: EngineOptions, model: Model | None = None) -> None:
        """`model`: one that is loaded already, with as many rows; otherwise `options` say which.

        Raises: see `load_model`.
        """
        model = model or load_model(slots, options)
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
        self._out_finite = torch.ones(slots, dtype=torch.bool, pin_memory=pinned)
        with torch.inference_mode(), memory_explained(model.plan, self._device):
            self._prefills = PrefillContext(self._lm, self._mimi, self._device, cache_bytes=self._lm.kv.bytes_per_row)
            self._tick = Tick(self._lm, self._mimi, rows=slots, device=self._device)
            self._runner: Runner = (GraphRunner if pinned else PlainRunner)(self._tick)
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
            if self._model.config.personaplex:
                text = self._text_tokens(prompt)
                talk.opening = Opening(self._prefills, row, self._voice_name(prompt), self._voice(prompt), text)

    def prefill(self, slot: int, budget_s: float) -> bool:
        talk = self._talks[slot]
        if talk.opening is None:
            return True
        talk.broken = True  # until it is known to be whole
        with torch.inference_mode():
            ready = talk.opening.work(budget_s)
        talk.broken = False
        if ready:
            talk.positions = talk.opening.total
            talk.opening = None
        return ready

    def progress(self, slot: int) -> tuple[int, int]:
        """See `SupportsProgress`."""
        opening = self._talks[slot].opening
        return (opening.done, opening.total) if opening is not None else (1, 1)

    def step(self, pcm: FloatFrames, live: NDArray[np.bool_]) -> StepOutput:
        output = StepOutput(
            pcm=np.zeros((self.slots, FRAME_SAMPLES), np.float32),
            text=[None] * self.slots,
            heard=[()] * self.slots,
            tokens=(tokens := np.full((self.slots, TOKEN_ROWS), -1, np.int64)),
        )
        talks = {slot: self._talks[slot] for slot in np.flatnonzero(live).tolist()}
        failed = {slot for slot, talk in talks.items() if talk.broken}
        whole = [slot for slot in talks if slot not in failed]
        if not whole:
            raise EngineError("a step broke off, and no conversation of it can go on")
        with torch.inference_mode():
            self._run(whole, pcm)
        for slot in whole:
            talk, row = talks[slot], self._rows[slot]
            if not self._out_finite[row]:
                talk.broken = True
                failed.add(slot)
                continue
            output.pcm[slot] = self._out_pcm[row].numpy()
            tokens[slot] = self._out_frame[row].numpy()
            output.text[slot] = talk.text.feed(int(self._out_frame[row, TEXT_ROW])) or None
        output.failed = frozenset(failed)
        with torch.inference_mode():
            self._tidy_rows([slot for slot in whole if slot not in failed])
        return output

    def close(self, slot: int) -> None:
        """Its row is new for whoever comes next."""
        talk, row = self._talks.pop(slot, None), self._rows.give_back(slot)
        if self._move is not None and self._move.slot == slot:
            self._rows.cancel(self._move)
            self._move = None
        if row is None or talk is None:
            return
        with torch.inference_mode():
            self._lm.reset(row, scrub=talk.broken)
            self._mimi.reset(row)

    def voice_sample(self, voice: str) -> NDArray[np.float32]:
        """See `SupportsVoiceSamples`: the recording that a voice is made from. Reads a small file, and no more."""
        recording = self._model.shelf.load(voice)
        if not isinstance(recording, VoiceAudio):
            raise NoVoiceSample(f"voice {voice} is no recording")
        return recording.pcm

    # ---- the tick ----------------------------------------------------------------------------------------------------

    def _run(self, slots: list[int], pcm: FloatFrames) -> None:
        """One call of the model for these slots; its results are on the host when it returns.

        If it raises, nobody knows which part of the state went on: these conversations are broken.
        """
        tick, talks = self._tick, [self._talks[slot] for slot in slots]
        rows = [self._rows[slot] for slot in slots]
        self._active.zero_()
        self._active[rows] = True
        self._pcm[rows] = torch.from_numpy(pcm[slots])
        for talk in talks:
            talk.broken = True
        tick.active.copy_(self._active, non_blocking=True)
        tick.pcm.copy_(self._pcm, non_blocking=True)
        if self._lm.pin_prompt:
            for row, talk in zip(rows, talks, strict=True):
                self._lm.kv.repin(row, talk.positions)
        self._lm.sampler.draw(rows)
        keys = self._lm.keys_for(talk.positions for talk in talks)
        extent = Extent(
            rows=1 + max(rows),
            keys=keys,
            codec_keys=self._mimi.keys_for(talk.frames for talk in talks),
            mode=self._lm.sampler.mode(rows),
            full=all(self._lm.keys_for((talk.positions,)) == keys for talk in talks),
        )
        self._runner.run(extent)
        n = extent.rows
        self._out_pcm[:n].copy_(tick.out_pcm[:n], non_blocking=True)
        self._out_frame[:n].copy_(tick.out_frame[:n], non_blocking=True)
        self._out_finite[:n].copy_(tick.out_finite[:n], non_blocking=True)
        self._prefills.finished()
        for talk in talks:
            talk.positions += 1
            talk.frames += 1
            talk.broken = False

    def _warm_up(self) -> None:
        """The first call of anything takes many times longer, and prefill must know what its chunks cost."""
        for rows in batches(self.slots):  # no row is active
            self._runner.run(Extent(rows, keys=1))
        row = self._rows.take(0)
        self._talks[0] = _Talk(TextAssembler(self._model.tokenizer.pieces))
        for _ in range(4):
            self._run([0], np.zeros((1, FRAME_SAMPLES), np.float32))
        self._prefills.measure_pace(row)
        self.close(0)

    # ---- rows --------------------------------------------------------------------------------------------------------

    def _tidy_rows(self, movable: Collection[int]) -> None:
        """Bring the highest slot a little nearer to a lower row, so that later ticks have fewer rows to work on."""
        if self._move is None:
            self._move = self._rows.plan_move(movable)
        if (move := self._move) is None or self._talks[move.slot].broken:
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
    return FrameSpec(
        name="personaplex",
        summary=(
            f"{model.name}: listens and speaks at the same time, in the persona and the voice that you choose."
            if personaplex
            else f"{model.name}: listens and speaks at the same time; it takes no persona."
        ),
        device=device_name(model.device),
        voices=model.shelf.names or (NO_VOICE,),
        voice_samples=model.shelf.recorded if personaplex else (),
        sampling=SAMPLING,
        capabilities=Capabilities(input=("audio",), output=("audio", "text"), proactive=True),
        hears_interruptions=True,
        default_persona=DEFAULT_PERSONA if personaplex else "",
        persona_note="" if personaplex else "This model was not trained to take a persona.",
    )
