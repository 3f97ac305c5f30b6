"""The tiny codec of the golden tensors, and ways to run it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import torch
from torch import Tensor

from rtc_server.engine.personaplex.config import MimiConfig
from rtc_server.engine.personaplex.mimi.codec import Mimi
from rtc_server.engine.personaplex.weights import StateDict
from tests.engine.personaplex.goldens import golden, readme

FRAME = 1920
FRAMES = 25
HIDDEN = 1e-4
PCM = 1e-5


def tiny_config(*, personaplex: bool = True) -> MimiConfig:
    return MimiConfig.from_json(readme()["configs"]["mimi"], personaplex=personaplex)


def tiny_codec(rows: int, *, personaplex: bool = True, changed: Mapping[str, Tensor] | None = None) -> Mimi:
    weights = StateDict(golden("mimi_tiny") | dict(changed or {}))
    return Mimi(weights, tiny_config(personaplex=personaplex), rows=rows, device="cpu")


def frames_in() -> Tensor:
    """[25, 1920], the input of the golden run."""
    return golden("mimi_golden")["pcm_in"].view(-1, FRAME)


def wanted(name: str, frame: int) -> Tensor:
    """What the reference made of one frame of the golden run, [steps, channels]; codes [8], pcm_out [1920]."""
    whole = golden("mimi_golden")[f"stream.{name}"][0]
    steps = whole.shape[-1] // FRAMES
    part = whole[:, frame * steps : (frame + 1) * steps]
    return part[:, 0] if name == "codes" else part[0] if name == "pcm_out" else part.t()


def everyone(rows: int) -> Tensor:
    return torch.ones(rows, dtype=torch.bool)


def only(row: int, rows: int) -> Tensor:
    return torch.arange(rows) == row


@cache
def single_run(seed: int, frames: int) -> tuple[Tensor, Tensor, Tensor]:
    """A random input [frames, 1920], and its codes [frames, 8] and pcm [frames, 1920] when it runs alone."""
    pcm = 0.3 * torch.randn(frames, FRAME, generator=torch.Generator().manual_seed(seed))
    codec = tiny_codec(1)
    codes = [codec.encode(frame[None], everyone(1)) for frame in pcm]
    return pcm, torch.cat(codes), torch.cat([codec.decode(code, everyone(1)) for code in codes])


def memory(codec: Mimi, row: int) -> list[Tensor]:
    """A copy of all that a row has, but for the ring row into which inactive rows write."""
    rings = [transformer.ring for transformer in (codec._encoder_transformer, codec._decoder_transformer)]
    state = [tensor[row].clone() for tensor in codec._state._tensors]
    lengths = [ring.length[row].clone() for ring in rings]
    return [*state, *lengths, *(ring.save(row, ring.capacity) for ring in rings)]
