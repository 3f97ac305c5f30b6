"""Weights out of safetensors files, tensor by tensor straight to the device.

A file is mapped, not read: of each tensor, or run of its rows, only its own bytes go through the host, and they are
converted where they are needed. Anonymous host memory stays at one tensor beyond what is kept on the host itself.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from rtc_server.engine.personaplex.checkpoint import Checkpoint
from rtc_server.engine.personaplex.config import CODEBOOKS
from rtc_server.engine.personaplex.header import read_header
from rtc_server.engine.personaplex.inventory import Inventory, take_stock
from rtc_server.engine.personaplex.names import Shape, lm_shapes, mimi_shapes, stored_codebooks, stored_step_sets
from rtc_server.engine.personaplex.progress import Meter, SilentMeter
from rtc_server.errors import CheckpointError


class FileWeights:
    """Tensors of a checkpoint by their published names, whatever the files call them. See `weights.Weights`.

    A context manager: leaving it closes the files and ends the progress. A tensor that was taken stays valid.
    """

    def __init__(
        self, inventory: Inventory, device: torch.device, dtype: torch.dtype, meter: Meter | None = None
    ) -> None:
        self._inventory, self._device, self._dtype = inventory, device, dtype
        self._meter = meter or SilentMeter()
        self._open: dict[Path, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.clear()
        self._meter.stop()
        give_back_heap()

    def take(self, name: str, rows: slice | None = None) -> Tensor:
        """A tensor of one's own, on the device and in the type that this source was made for; `rows` has no step.

        Raises: KeyError for a name that the checkpoint does not have; CheckpointError when the file cannot be read any
        more; torch.OutOfMemoryError.
        """
        parts = self._inventory.parts[name]
        if len(parts) == 1:
            return self._read(parts[0], rows)
        shape = self._inventory.shape(name)
        start, stop, _ = (rows or slice(None)).indices(shape[0])
        whole = torch.empty((max(stop - start, 0), *shape[1:]), device=self._device, dtype=self._dtype)
        block_rows = shape[0] // len(parts)
        for index, part in enumerate(parts):
            first = max(start, index * block_rows)
            last = min(stop, (index + 1) * block_rows)
            if first < last:
                block = self._read(part, slice(first - index * block_rows, last - index * block_rows))
                whole[first - start : last - start] = block
        return whole

    def _read(self, part: str, rows: slice | None) -> Tensor:
        stored = self._inventory.stored[part]
        try:
            tensor: Tensor = self._file(stored.file).get_slice(part)[rows or slice(None)]
        except (OSError, SafetensorError) as error:
            raise CheckpointError(
                f"{stored.file} cannot be read any more: {error}", hint="somebody moved or replaced it; start again"
            ) from error
        self._meter.advance(tensor.numel() * tensor.element_size())
        mapped = tensor.device.type == "cpu"
        return tensor.to(self._device, self._dtype, copy=mapped)

    def _file(self, path: Path) -> Any:
        if path not in self._open:
            self._open[path] = safe_open(str(path), framework="pt", device=str(self._device))
        return self._open[path]


def give_back_heap() -> None:
    """Memory that conversions have freed goes back to the machine; glibc alone would keep up to a tenth of a model."""
    with contextlib.suppress(OSError, AttributeError, TypeError):  # other C libraries, other systems
        ctypes.CDLL(None).malloc_trim(0)


def lm_weights(
    checkpoint: Checkpoint,
    *,
    device: torch.device | str,
    dtype: torch.dtype,
    depformer_steps: int,
    meter: Meter | None = None,
) -> FileWeights:
    """The language model's tensors. Names and shapes are compared before anything is loaded.

    Raises: CheckpointError for tensors that are missing, unexpected or of another shape, all in one, and for a
    checkpoint with fewer step sets than are asked for.
    """
    stored = read_header(checkpoint.lm_file)
    sets = stored_step_sets(stored)
    if 0 < sets < depformer_steps:
        raise CheckpointError(
            f"{checkpoint.lm_file.name} holds {sets} depformer step sets, {depformer_steps} are asked for",
            hint=f"use --depformer-steps {sets}",
        )
    config = checkpoint.config.lm
    inventory = take_stock(
        checkpoint.lm_file, stored, lm_shapes(replace(config, depformer_steps=sets or depformer_steps))
    )
    needed = lm_shapes(replace(config, depformer_steps=depformer_steps))
    return _weights(checkpoint.lm_file, inventory, needed, torch.device(device), dtype, meter)


def mimi_weights(checkpoint: Checkpoint, *, device: torch.device | str, meter: Meter | None = None) -> FileWeights:
    """The codec's tensors, float32. Raises: CheckpointError, as `lm_weights`."""
    stored = read_header(checkpoint.mimi_file)
    codebooks = stored_codebooks(stored)
    if 1 < codebooks < CODEBOOKS:
        raise CheckpointError(f"{checkpoint.mimi_file.name} holds {codebooks} codebooks, the model needs {CODEBOOKS}")
    config = checkpoint.config.mimi
    inventory = take_stock(checkpoint.mimi_file, stored, mimi_shapes(replace(config, stored_codebooks=codebooks)))
    needed = mimi_shapes(replace(config, stored_codebooks=CODEBOOKS))
    return _weights(checkpoint.mimi_file, inventory, needed, torch.device(device), torch.float32, meter)


def _weights(
    path: Path,
    inventory: Inventory,
    needed: Mapping[str, Shape],
    device: torch.device,
    dtype: torch.dtype,
    meter: Meter | None,
) -> FileWeights:
    if meter is not None:
        meter.start(f"loading {path.name}", inventory.nbytes(needed))
    return FileWeights(inventory, device, dtype, meter)
