"""Run as a program: load every tensor that eight depformer steps need, and print what it took of the host's memory.

The file has holes instead of data, so that it takes no disk; they are mapped and read like any other bytes.
"""

from __future__ import annotations

import json
import struct
import sys
import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import torch

from rtc_server.engine.personaplex.checkpoint import Checkpoint
from rtc_server.engine.personaplex.config import MID_LM, LmConfig, MimiConfig, ModelConfig
from rtc_server.engine.personaplex.device import parse_dtype
from rtc_server.engine.personaplex.files import lm_weights
from rtc_server.engine.personaplex.names import Shape, lm_shapes

SIZES = {
    "0.3": MID_LM,
    "1.5": LmConfig(
        dim=1536, layers=12, heads=12, gating=4224,
        depformer_dim=512, depformer_layers=4, depformer_heads=8, depformer_gating=1408,
    ),
}  # fmt: skip
"""Configurations by their size in GB at two bytes a weight."""


def write_holes(path: Path, shapes: Mapping[str, Shape]) -> None:
    """A bf16 checkpoint of zeros."""
    header, end = {}, 0
    for name, shape in shapes.items():
        begin, end = end, end + 2 * torch.Size(shape).numel()
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + end)


def status_bytes(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{key}:")) * 1024


class AnonymousPeak(threading.Thread):
    """The kernel keeps no high-water mark of anonymous memory alone."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.before_bytes = self.peak_bytes = status_bytes("RssAnon")
        self._done = threading.Event()

    def run(self) -> None:
        while not self._done.wait(0.001):
            self.look()

    def look(self) -> None:
        self.peak_bytes = max(self.peak_bytes, status_bytes("RssAnon"))

    def stop(self) -> int:
        """Bytes above the beginning."""
        self._done.set()
        self.join()
        return self.peak_bytes - self.before_bytes


def main(folder: str, size: str, dtype: str) -> None:
    torch.set_num_threads(1)
    config = SIZES[size]
    path = Path(folder) / "model.safetensors"
    write_holes(path, lm_shapes(config))
    model = ModelConfig(config, MimiConfig(), personaplex=True)
    checkpoint = Checkpoint("holes", None, model, path, path, path, None)
    peak = AnonymousPeak()
    peak.start()
    asked = parse_dtype(dtype, torch.device("cpu"))
    with lm_weights(checkpoint, device="cpu", dtype=asked, depformer_steps=8) as weights:
        tensors = []
        for name, shape in lm_shapes(replace(config, depformer_steps=8)).items():
            tensors.append(weights.take(name, slice(0, shape[0])))
            peak.look()
    figures = {
        "file_bytes": path.stat().st_size,
        "tensor_bytes": sum(tensor.nbytes for tensor in tensors),
        "largest_bytes": max(tensor.nbytes for tensor in tensors),
        "anonymous_bytes": peak.stop(),
        "high_water_bytes": status_bytes("VmHWM"),
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main(*sys.argv[1:])
