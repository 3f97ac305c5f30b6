"""From a recording to a stored voice, which opens a conversation without any work of the codec.

A stored voice holds what one model's embedding tables make of the recording, so it is of use to that model only.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import embedding

from rtc_server.engine.personaplex.checkpoint import Checkpoint
from rtc_server.engine.personaplex.config import CODEBOOKS, TEXT_ROW, TOKEN_ROWS, LmConfig
from rtc_server.engine.personaplex.files import lm_weights, mimi_weights
from rtc_server.engine.personaplex.mimi.codec import Mimi
from rtc_server.engine.personaplex.prompt import align, forced_calls
from rtc_server.engine.personaplex.tokens import FREE
from rtc_server.engine.personaplex.voicefiles import RING_COLUMNS, StoredVoice, VoiceAudio
from rtc_server.engine.personaplex.weights import Weights


def make_voice(checkpoint: Checkpoint, audio: VoiceAudio) -> StoredVoice:
    """Encode and embed a recording on the CPU: about as long as it lasts. The embeddings are bfloat16,
    whatever the type of the weights.

    Raises: CheckpointError.
    """
    with mimi_weights(checkpoint, device="cpu") as weights:
        codes = encode(Mimi(weights, checkpoint.config.mimi, rows=1, device="cpu"), audio)
    with lm_weights(checkpoint, device="cpu", dtype=torch.bfloat16, depformer_steps=CODEBOOKS) as weights:
        return stored_voice(weights, checkpoint.config.lm, codes)


def encode(mimi: Mimi, audio: VoiceAudio) -> Tensor:
    """The codes [n, 8] of a recording, the last frame filled up with silence; uses row 0 of the codec."""
    active = torch.ones(1, dtype=torch.bool)
    mimi.reset(0)
    return torch.cat([mimi.encode(frame, active) for frame in audio.frames])


def stored_voice(weights: Weights, config: LmConfig, codes: Tensor) -> StoredVoice:
    """What the calls of a voice, codes [n, 8] with n >= 2, leave behind."""
    rows = align(config, forced_calls(codes))
    newest = len(codes) - 1
    cache = torch.full((TOKEN_ROWS, RING_COLUMNS), FREE)
    for position in range(max(0, newest + 2 - RING_COLUMNS), newest + 2):
        cache[:, position % RING_COLUMNS] = rows[position]
    return StoredVoice(embed(weights, rows[:newest]), cache)


def embed(weights: Weights, tokens: Tensor) -> Tensor:
    """tokens [T, 17] -> the sum of their embeddings [T, dim], one table in memory at a time."""
    text = weights.take("text_emb.weight")
    total = embedding(tokens[:, TEXT_ROW], text).float()
    for row in range(TEXT_ROW + 1, TOKEN_ROWS):
        total += embedding(tokens[:, row], weights.take(f"emb.{row - 1}.weight"))
    return total.to(text.dtype)
