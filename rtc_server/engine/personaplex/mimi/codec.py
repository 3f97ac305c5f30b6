"""Mimi: the whole codec, with the state of every row."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor

from rtc_server.engine.personaplex.config import CODEC_STEPS, MimiConfig
from rtc_server.engine.personaplex.mimi import seanet
from rtc_server.engine.personaplex.mimi.convolution import DepthwiseUpsampling, ReplicatingConvolution
from rtc_server.engine.personaplex.mimi.quantizer import Quantizer
from rtc_server.engine.personaplex.mimi.state import Batch, RowState
from rtc_server.engine.personaplex.mimi.transformer import Transformer
from rtc_server.engine.personaplex.weights import Weights

Trace = dict[str, Tensor]
"""Intermediates of a call by the reference's names for them, [n, steps, channels]."""


class Mimi:
    """The codec of all rows. Encoding and decoding are two streams: a row may do one without the other.

    Attributes:
        nbytes: of the weights, as they lie on the device.
        bytes_per_row: of the state.
    """

    def __init__(self, weights: Weights, config: MimiConfig, *, rows: int, device: torch.device | str) -> None:
        self._state = RowState(rows, device)
        self._encoder = seanet.encoder(weights, config, self._state)
        self._encoder_transformer = Transformer(
            weights, "encoder_transformer", config, rows=rows, steps=CODEC_STEPS, device=device
        )
        down = weights.take("downsample.conv.conv.conv.weight").transpose(1, 2)
        self._downsampling = ReplicatingConvolution(down, None, self._state, steps=CODEC_STEPS, stride=CODEC_STEPS)
        self._quantizer = Quantizer(weights, config, rows=rows)
        self._upsampling = DepthwiseUpsampling(weights.take("upsample.convtr.convtr.convtr.weight"), self._state)
        self._decoder_transformer = Transformer(
            weights, "decoder_transformer", config, rows=rows, steps=CODEC_STEPS, device=device
        )
        self._decoder = seanet.decoder(weights, config, self._state, steps=CODEC_STEPS)
        self._transformers = (self._encoder_transformer, self._decoder_transformer)
        self._capacity = self._encoder_transformer.ring.capacity
        self.nbytes = sum(
            part.nbytes
            for part in (
                self._encoder,
                self._downsampling,
                self._quantizer,
                self._upsampling,
                self._decoder,
                *self._transformers,
            )
        )
        self.bytes_per_row = self._state.bytes_per_row + sum(part.ring.bytes_per_row for part in self._transformers)

    @torch.inference_mode()
    def encode(
        self,
        pcm: Tensor,
        active: Tensor,
        rows: slice | None = None,
        *,
        keys: int | None = None,
        trace: Trace | None = None,
    ) -> Tensor:
        """pcm [n, 1920] float32 at 24 kHz, of the first n rows or of `rows` -> codes [n, 8] int64.

        Only rows with `active` [n] advance; the codes of the others mean nothing. `keys`: what `keys_for` gives; None
        serves any row, and reads more memory than a young row needs.
        """
        batch = Batch(rows if rows is not None else slice(0, len(pcm)), active)
        x = _seen(trace, "seanet_enc", self._encoder(pcm[..., None], batch))
        x = _seen(trace, "enc_transformer", self._encoder_transformer(x, batch, keys or self._capacity))
        latent = _seen(trace, "latent", self._downsampling(x, batch))
        return self._quantizer.encode(latent[:, 0])

    @torch.inference_mode()
    def decode(
        self,
        codes: Tensor,
        active: Tensor,
        rows: slice | None = None,
        *,
        keys: int | None = None,
        trace: Trace | None = None,
    ) -> Tensor:
        """codes [n, 8] int64, all in [0, bins) -> pcm [n, 1920] float32, not clipped; otherwise as `encode`."""
        batch = Batch(rows if rows is not None else slice(0, len(codes)), active)
        latent = _seen(trace, "dec_latent", self._quantizer.decode(codes)[:, None])
        x = _seen(trace, "upsampled", self._upsampling(latent, batch))
        x = _seen(trace, "dec_transformer", self._decoder_transformer(x, batch, keys or self._capacity))
        return self._decoder(x, batch)[..., 0]

    def keys_for(self, frames: Iterable[int]) -> int:
        """Ring rows to read when these are the frames that the active rows have coded before (host numbers)."""
        return min(self._capacity, CODEC_STEPS * (1 + max(frames, default=0)))

    @torch.inference_mode()
    def reset(self, row: int) -> None:
        """The start of a stream, with nothing left of the one before, NaN included."""
        self._state.reset(row)
        for transformer in self._transformers:
            transformer.reset(row)

    @torch.inference_mode()
    def copy_row(self, source: int, target: int) -> None:
        """The target row goes on exactly as the source row would."""
        self._state.copy(source, target)
        for transformer in self._transformers:
            transformer.copy_row(source, target)


def _seen(trace: Trace | None, name: str, x: Tensor) -> Tensor:
    if trace is not None:
        trace[name] = x
    return x
