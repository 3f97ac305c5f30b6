"""Whole sessions: persona and voice in, the user's sound, tokens and the agent's sound out.

Twice: with the models alone, where hidden states can be seen, and through the engine as the server runs it, from a
checkpoint on disk to `PersonaPlexStepper.step`.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from rtc_server.engine.personaplex.checkpoint import VOICES_FOLDER
from rtc_server.engine.personaplex.config import AGENT_ROWS, DELAYS
from rtc_server.engine.personaplex.convert import voice_from
from rtc_server.engine.personaplex.device import dtype_name
from rtc_server.engine.personaplex.mimi.codec import Mimi
from rtc_server.engine.personaplex.prompt import compose, most_persona_tokens
from rtc_server.engine.personaplex.sampling import GREEDY
from rtc_server.engine.personaplex.settings import CONFIG_NAME
from rtc_server.engine.personaplex.stepper import PersonaPlexStepper
from rtc_server.engine.personaplex.text import TextAssembler
from rtc_server.engine.personaplex.tokenizer import Tokenizer, wrap_persona
from rtc_server.engine.personaplex.verify.compare import HIDDEN_LIMIT, PCM_LIMIT, TEXT_LOGITS_LIMIT, Comparison
from rtc_server.engine.personaplex.verify.folder import MIMI_WEIGHTS, README, TOKENIZER, GoldenFolder, Models, Tensors
from rtc_server.engine.personaplex.verify.openings import no_openings
from rtc_server.engine.personaplex.verify.rows import GreedyRows, call_of
from rtc_server.engine.personaplex.voicefiles import StoredVoice, VoiceAudio, write_voice
from rtc_server.engine.registry import EngineOptions
from rtc_server.engine.stepper import FRAME_SAMPLES, SessionPrompt
from rtc_server.errors import ConfigError, RtcServerError

WEIGHTS = "session_lm_tiny.safetensors"
VOICE = "voice_tiny.pt"
INFO = "session_info.json"
FILES = ("session_golden.safetensors", WEIGHTS, MIMI_WEIGHTS, TOKENIZER, VOICE, INFO)
STORED, SPOKEN = "STORED", "SPOKEN"
"""Names of the same voice, as it is published and as the recording that it was made from."""
ENGINE = "engine, slots"
PREFILL_BUDGET_S = 0.01


@dataclass(frozen=True, slots=True)
class _Session:
    """One conversation of the folder: it should go the same way whichever form its voice has."""

    persona: str
    user: Tensor
    """[T, 1920]"""
    user_codes: Tensor
    """[T, 8]"""
    hidden: dict[str, Tensor]
    """By voice: [N, dim] of all positions, the opening's first."""
    text_logits: Tensor
    """[N, text card]"""
    frames: Tensor
    """[F, 17]: what the first F calls with the user's sound emit."""
    pcm: Tensor
    """[F, 1920]"""

    @property
    def opening(self) -> int:
        """Positions before the first of these calls. A trace ends one call before its recording."""
        return self.hidden[STORED].shape[0] + 1 - len(self.user)


def check(folder: GoldenFolder, models: Models, compare: Comparison) -> None:
    config = folder.lm_config("slm", personaplex=True)
    if why := no_openings(config):
        compare.report.skip("session", why)
        return
    golden = folder.tensors(FILES[0])
    persona = folder.configs.get("text")
    if not isinstance(persona, str):
        raise ConfigError(f"{folder.path / README}: configs.text is not the text of a persona")
    session = _Session(
        persona,
        golden["user_pcm"].reshape(-1, FRAME_SAMPLES),
        golden["B.user_codes"][0].T,
        {STORED: golden["B.trace.hidden"][0], SPOKEN: golden["A.trace.hidden"][0]},
        golden["B.trace.text_logits"][0],
        golden["eager.emitted_tokens"][0].T,
        golden["eager.emitted_pcm"].reshape(-1, FRAME_SAMPLES),
    )
    text = _text(folder, golden, persona, compare)
    voices: dict[str, StoredVoice | VoiceAudio] = {
        STORED: voice_from(folder.path / VOICE, (folder.path / VOICE).read_bytes()),
        SPOKEN: VoiceAudio(golden["voice_pcm"][0].numpy()),
    }
    mimi = models.mimi(rows=2)
    rows = GreedyRows(models.lm(WEIGHTS, config, rows=2), models.device)
    for name, voice in voices.items():
        _with_models(name, voice, text, session, rows, mimi, compare)
    most = min(most_persona_tokens(config, voice.calls) for voice in voices.values())
    if config.delays != DELAYS:
        compare.report.skip(ENGINE, f"delays {list(config.delays)}; those of a checkpoint are {list(DELAYS)}")
    elif len(text) > most:
        compare.report.skip(
            ENGINE, f"an opening of {session.opening} positions does not fit a context of {config.context}"
        )
    else:
        _with_the_engine(folder, models, session, voices, compare)


def _text(folder: GoldenFolder, golden: Tensors, persona: str, compare: Comparison) -> list[int]:
    """The persona's token ids; and the tokenizer's examples, there and back."""
    tokenizer = Tokenizer(folder.path / TOKENIZER)
    ids = tokenizer.encode(wrap_persona(persona))
    compare.same("session: text", torch.tensor(ids), golden["text_tokens"], "persona")
    info = folder.json(INFO)
    for sentence, want in info.get("spm_examples", {}).items():
        compare.same("session: text", torch.tensor(tokenizer.encode(sentence)), torch.tensor(want), repr(sentence))
    for token, piece in info.get("piece_text", {}).items():
        got = TextAssembler(tokenizer.pieces).feed(int(token))
        compare.true("session: text", got == piece, f"token {token} reads {got!r} instead of {piece!r}")
    return ids


def _with_models(
    name: str,
    voice: StoredVoice | VoiceAudio,
    text: Sequence[int],
    session: _Session,
    rows: GreedyRows,
    mimi: Mimi,
    compare: Comparison,
) -> None:
    """In row 1 of two; row 0 is empty."""
    group = f"session, voice {name.lower()}"
    row, only = 1, torch.ones(1, dtype=torch.bool, device=rows.device)
    hers = slice(row, row + 1)
    rows.reset(row)
    mimi.reset(row)
    if isinstance(voice, VoiceAudio):
        frames = voice.frames.to(rows.device)
        prompt = compose(rows.lm.config, torch.cat([mimi.encode(frame, only, hers) for frame in frames]), text)
        mimi.reset(row)
    else:
        prompt = compose(rows.lm.config, voice, text)
    want = session.hidden[name]
    hidden = rows.open(row, 0, prompt.inputs(rows.lm.embed, rows.device), prompt.last)
    compare.near(f"{group}: prefill hidden", hidden, want[: session.opening], HIDDEN_LIMIT)
    alike = True
    for c in range(len(session.frames)):
        codes = mimi.encode(session.user[c : c + 1].to(rows.device), only, hers)
        alike &= compare.same(f"{group}: tokens", codes[0], session.user_codes[c], f"user codes, frame {c}")
        step = rows.step({row: call_of(codes[0].cpu())})
        if alike:
            position = session.opening + c
            compare.near(f"{group}: hidden", step.hidden[row], want[position], HIDDEN_LIMIT)
            logits = session.text_logits[position]
            compare.near(f"{group}: text logits", step.text_logits[row], logits, TEXT_LOGITS_LIMIT)
        alike &= compare.same(f"{group}: tokens", step.frame[row], session.frames[c], f"frame {c}")
        spoken = mimi.decode(session.frames[c : c + 1, AGENT_ROWS].to(rows.device), only, hers)
        compare.near(f"{group}: pcm", spoken[0], session.pcm[c], PCM_LIMIT)


# ---- through the engine ----------------------------------------------------------------------------------------------


def _with_the_engine(
    folder: GoldenFolder,
    models: Models,
    session: _Session,
    voices: dict[str, StoredVoice | VoiceAudio],
    compare: Comparison,
) -> None:
    """Three slots: the session with either voice, the second one later, and noise between them that leaves early, so
    that its slot is used again."""
    with tempfile.TemporaryDirectory(prefix="rtc-server-verify-") as place:
        try:
            stepper = _stepper(folder, models, voices, Path(place))
            stepper.check_prompt(_prompt(session, STORED))
        except RtcServerError as error:
            compare.true(f"{ENGINE}: tokens", False, f"the engine does not take it: {error}")
            return
        later, leaves = 1 + len(session.frames) // 8, len(session.frames) // 2
        noise = torch.Generator().manual_seed(2)
        at = {0: 0}
        _open(stepper, 0, session, STORED)
        _open(stepper, 1, session, SPOKEN)
        for tick in range(len(session.frames) + leaves):
            if tick == later:
                _open(stepper, 2, session, SPOKEN)
                at[2] = 0
            if tick == leaves:
                stepper.close(1)
                _open(stepper, 1, session, STORED)
                at[1] = 0
            for slot in [slot for slot, frame in at.items() if frame == len(session.frames)]:
                stepper.close(slot)
                del at[slot]
            if not at:
                break
            pcm = (0.2 * torch.randn(3, FRAME_SAMPLES, generator=noise)).numpy()
            live = np.array([slot in at or (slot == 1 and tick < leaves) for slot in range(3)])
            for slot, frame in at.items():
                pcm[slot] = session.user[frame]
            output = stepper.step(pcm, live)
            compare.true(f"{ENGINE}: tokens", not output.failed, f"tick {tick}: slots {sorted(output.failed)} failed")
            assert output.tokens is not None
            for slot, frame in at.items():
                tokens = torch.from_numpy(output.tokens[slot])
                same = compare.same(f"{ENGINE}: tokens", tokens, session.frames[frame], f"slot {slot}, frame {frame}")
                if same:
                    want = session.pcm[frame].clamp(-1, 1)
                    compare.near(f"{ENGINE}: pcm", torch.from_numpy(output.pcm[slot]), want, PCM_LIMIT)
                at[slot] += 1


def _prompt(session: _Session, voice: str) -> SessionPrompt:
    return SessionPrompt(persona=session.persona, voice=voice, seed=1, sampling=GREEDY)


def _open(stepper: PersonaPlexStepper, slot: int, session: _Session, voice: str) -> None:
    stepper.open(slot, _prompt(session, voice))
    while not stepper.prefill(slot, PREFILL_BUDGET_S):
        pass


def _stepper(
    folder: GoldenFolder, models: Models, voices: dict[str, StoredVoice | VoiceAudio], place: Path
) -> PersonaPlexStepper:
    """The engine from a checkpoint of the published form, which is written to `place`."""
    settings = {**folder.configs["slm"], "mimi": folder.configs["mimi"], "model_type": "personaplex"}
    (place / CONFIG_NAME).write_text(json.dumps(settings))
    shutil.copyfile(folder.path / WEIGHTS, place / "model.safetensors")
    shutil.copyfile(folder.path / MIMI_WEIGHTS, place / "tokenizer-mimi.safetensors")
    shutil.copyfile(folder.path / TOKENIZER, place / "tokenizer_spm.model")
    (place / VOICES_FOLDER).mkdir()
    for name, voice in voices.items():
        write_voice(place / VOICES_FOLDER / f"{name}.safetensors", voice)
    options = EngineOptions(
        slots=3,
        model=str(place),
        device=str(models.device),
        dtype=dtype_name(models.dtype),
        weight_bits=models.weight_bits,
        kv_bits=models.kv_bits,
    )
    return PersonaPlexStepper(options.slots, options)
