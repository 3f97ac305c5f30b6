from __future__ import annotations

from pathlib import Path

import pytest
import torch

from rtc_server.engine.personaplex.checkpoint import in_folder
from rtc_server.engine.personaplex.config import MimiConfig
from rtc_server.engine.personaplex.mimi.codec import Mimi
from rtc_server.engine.personaplex.prompt import compose
from rtc_server.engine.personaplex.voicefiles import VoiceAudio, check_stored
from rtc_server.engine.personaplex.voicemaker import encode, make_voice, stored_voice
from rtc_server.engine.personaplex.weights import StateDict

from .goldens import golden, largest_error, lm_config, readme
from .tiny import tiny_checkpoint
from .wavs import speech


def test_a_recording_becomes_the_stored_voice_of_the_reference() -> None:
    session = golden("session_golden")
    config = MimiConfig.from_json(readme()["configs"]["mimi"], personaplex=True)
    mimi = Mimi(StateDict(golden("mimi_tiny")), config, rows=1, device="cpu")
    codes = encode(mimi, VoiceAudio(session["voice_pcm"][0].numpy()))
    voice = stored_voice(StateDict(golden("session_lm_tiny")), lm_config("slm"), codes)
    assert largest_error(voice.embeddings, session["voice.embeddings"][:, 0, 0]) < 1e-5
    reference = check_stored(session["voice.embeddings"], session["voice.cache"])
    assert torch.equal(voice.given(), reference.given())
    a, b = (compose(lm_config("slm"), one, (5, 6)) for one in (voice, reference))
    assert torch.equal(a.tokens, b.tokens) and torch.equal(a.last, b.last)


def test_encoding_starts_afresh_each_time() -> None:
    config = MimiConfig.from_json(readme()["configs"]["mimi"], personaplex=True)
    mimi = Mimi(StateDict(golden("mimi_tiny")), config, rows=1, device="cpu")
    first = encode(mimi, VoiceAudio(speech(0.5)))
    assert first.shape == (7, 8)
    assert torch.equal(encode(mimi, VoiceAudio(speech(0.5))), first)


@pytest.mark.parametrize("frames", [2, 3, 4, 5, 12])
def test_a_voice_of_any_length_passes_the_check_of_what_is_read(frames: int) -> None:
    codes = torch.randint(2048, (frames, 8), generator=torch.Generator().manual_seed(frames))
    voice = stored_voice(StateDict(golden("session_lm_tiny")), lm_config("slm"), codes)
    assert check_stored(voice.embeddings, voice.cache).calls == frames
    a, b = (compose(lm_config("slm"), one, (5, 6)) for one in (codes, voice))
    assert torch.equal(a.last, b.last) and torch.equal(a.tokens[frames - 1 :], b.tokens)


def test_a_voice_is_made_from_the_files_of_a_checkpoint(tmp_path: Path) -> None:
    checkpoint = in_folder(tiny_checkpoint(tmp_path / "checkpoint"))
    voice = make_voice(checkpoint, VoiceAudio(speech(1.0)))
    assert voice.embeddings.shape == (12, 32) and voice.embeddings.dtype == torch.bfloat16
