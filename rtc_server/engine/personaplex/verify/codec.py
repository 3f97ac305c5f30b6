"""The codec: what it hears, what it says, and rows that come, pause, move and start anew amid others."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from rtc_server.engine.personaplex.config import CODEBOOKS
from rtc_server.engine.personaplex.mimi.codec import Mimi, Trace
from rtc_server.engine.personaplex.verify.compare import HIDDEN_LIMIT, PCM_LIMIT, Comparison
from rtc_server.engine.personaplex.verify.folder import MIMI_WEIGHTS, GoldenFolder, Models, Tensors
from rtc_server.engine.stepper import FRAME_SAMPLES
from rtc_server.errors import ConfigError

FILES = ("mimi_golden.safetensors", MIMI_WEIGHTS)
ENCODER_STAGES = {"seanet_enc": 2, "enc_transformer": 2, "latent": 1}
"""With their steps in a frame."""
DECODER_STAGES = {"dec_latent": 1, "upsampled": 2, "dec_transformer": 2}
NOISE_SEED = 1


def check(folder: GoldenFolder, models: Models, compare: Comparison) -> None:
    golden = folder.tensors(FILES[0])
    if golden["stream.codes"].shape[1] != CODEBOOKS:
        raise ConfigError(
            f"{FILES[0]}: codes of {golden['stream.codes'].shape[1]} codebooks; this engine has {CODEBOOKS}"
        )
    stream = _Stream.of(golden)
    _stages(models.mimi(rows=1), models.device, golden, stream, compare)
    _rows(models.mimi(rows=3), models.device, stream, compare)
    _given_codes(models.mimi(rows=2), models.device, golden, compare)


@dataclass(frozen=True, slots=True)
class _Stream:
    """What one conversation of the codec should be, frame by frame."""

    heard: Tensor
    """[T, 1920]"""
    codes: Tensor
    """[T, 8]"""
    said: Tensor
    """[T, 1920]: the same codes decoded."""

    @classmethod
    def of(cls, golden: Tensors) -> _Stream:
        codes = golden["stream.codes"][0].T.contiguous()
        frames = [golden[name].reshape(-1, FRAME_SAMPLES)[: len(codes)] for name in ("pcm_in", "stream.pcm_out")]
        return cls(frames[0], codes, frames[1])

    def __len__(self) -> int:
        return len(self.codes)


def _stages(mimi: Mimi, device: torch.device, golden: Tensors, stream: _Stream, compare: Comparison) -> None:
    active = torch.ones(1, dtype=torch.bool, device=device)
    for t in range(len(stream)):
        trace: Trace = {}
        codes = mimi.encode(stream.heard[t : t + 1].to(device), active, trace=trace)
        compare.same("mimi encode: codes", codes[0], stream.codes[t], f"frame {t}")
        said = mimi.decode(stream.codes[t : t + 1].to(device), active, trace=trace)
        for stages, side in ((ENCODER_STAGES, "encode"), (DECODER_STAGES, "decode")):
            for stage, steps in stages.items():
                want = golden[f"stream.{stage}"][0, :, t * steps : (t + 1) * steps].T
                compare.near(f"mimi {side}: {stage}", trace[stage][0], want, HIDDEN_LIMIT)
        compare.near("mimi decode: pcm", said[0], stream.said[t], PCM_LIMIT)


def _rows(mimi: Mimi, device: torch.device, stream: _Stream, compare: Comparison) -> None:
    """Row 0 plays the stream; row 1 joins late, pauses, is reset, and in the end moves to row 2, which held noise."""
    frames = len(stream)
    join, pause, restart, move = frames // 8, frames // 4, frames // 2, 3 * frames // 4
    noise = torch.Generator().manual_seed(NOISE_SEED)
    late, at = 1, 0
    for t in range(frames):
        if t == restart:
            mimi.reset(late)
            at = 0
        if t == move:
            mimi.copy_row(1, 2)
            mimi.reset(1)
            late = 2
        speaks = t >= join and t != pause
        pcm = 0.3 * torch.randn(3, FRAME_SAMPLES, generator=noise)
        codes = torch.randint(int(stream.codes.max()) + 1, (3, CODEBOOKS), generator=noise)
        active = torch.tensor([True, late == 1 and speaks, speaks if late == 2 else t % 2 == 0])
        for row, frame in ((0, t), (late, at)):
            pcm[row], codes[row] = stream.heard[frame], stream.codes[frame]
        got = mimi.encode(pcm.to(device), active.to(device))
        said = mimi.decode(codes.to(device), active.to(device))
        for row, frame in ((0, t), (late, at)) if speaks else ((0, t),):
            compare.same("mimi rows, late, reset, moved: codes", got[row], stream.codes[frame], f"frame {t}, row {row}")
            compare.near("mimi rows, late, reset, moved: pcm", said[row], stream.said[frame], PCM_LIMIT)
        at += speaks


def _given_codes(mimi: Mimi, device: torch.device, golden: Tensors, compare: Comparison) -> None:
    """Codes that no recording gave, in the last row alone."""
    codes = golden["dec_only.codes"][0].T
    want = golden["dec_only.pcm_out"].reshape(-1, FRAME_SAMPLES)
    active = torch.ones(1, dtype=torch.bool, device=device)
    for t in range(len(codes)):
        said = mimi.decode(codes[t : t + 1].to(device), active, slice(1, 2))
        compare.near("mimi decode, given codes: pcm", said[0], want[t], PCM_LIMIT)
