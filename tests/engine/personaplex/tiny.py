"""A whole checkpoint with tiny random weights, as a folder: it babbles, and every part of the engine is real."""

from __future__ import annotations

import json
import os
import wave
from pathlib import Path

import numpy as np
from safetensors.torch import load_file

GOLDEN = Path(__file__).parents[2] / "data" / "golden"
SHORT_PERSONA = "hi"
"""The whole window is 40 positions: a persona of 14 tokens fills it."""


def tiny_checkpoint(folder: Path, model_type: str = "personaplex") -> Path:
    """Make it. Its voices: ALTO, a stored one, and BASS, a recording."""
    folder.mkdir(parents=True, exist_ok=True)
    configs = json.loads((GOLDEN / "README.json").read_text())["configs"]
    for name, source in {
        "model.safetensors": "session_lm_tiny.safetensors",
        "tokenizer-tiny.safetensors": "mimi_tiny.safetensors",
        "tokenizer_spm_tiny.model": "spm_tiny.model",
    }.items():
        os.symlink(GOLDEN / source, folder / name)
    settings = {**configs["slm"], "mimi": configs["mimi"], "model_type": model_type}
    (folder / "config.json").write_text(json.dumps(settings))
    if model_type != "personaplex":
        return folder
    voices = folder / "voices"
    voices.mkdir()
    (voices / "ALTO.pt").write_bytes((GOLDEN / "voice_tiny.pt").read_bytes())
    voice = load_file(GOLDEN / "session_golden.safetensors")["voice_pcm"].flatten().numpy()
    write_wav(voices / "BASS.wav", voice)
    return folder


def write_wav(path: Path, pcm: np.ndarray, rate: int = 24_000) -> None:
    """float32 in [-1, 1], mono."""
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, rate, 0, "NONE", ""))
        file.writeframes((np.clip(pcm, -1, 1) * 32767).astype("<i2").tobytes())
