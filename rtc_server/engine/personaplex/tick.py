"""One call of the whole model for the first n rows: codec, language model, codec.

Everything that the call reads and writes lies in tensors that were allocated once, so that on a GPU it can be captured
as a graph for each shape and replayed: one launch instead of thousands. On a CPU the same function is simply called.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import torch

from rtc_server.engine.personaplex.config import AGENT_ROWS, TOKEN_ROWS
from rtc_server.engine.personaplex.lm import LanguageModel
from rtc_server.engine.personaplex.mimi.codec import Mimi
from rtc_server.engine.personaplex.rows import batch_size
from rtc_server.engine.personaplex.sampling import ANY_MODE, Mode
from rtc_server.engine.stepper import FRAME_SAMPLES

KEY_BUCKETS = (256, 512, 1024, 2048)
"""Filled positions for which graphs are captured, besides the whole ring."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How much of everything a call touches: known on the host, and all that decides which kernels run."""

    rows: int
    """Rows 0..rows-1."""
    keys: int
    """Ring rows of the language model that are read, of `LanguageModel.keys_for`."""
    codec_keys: int | None = None
    """Those of the codec; None: all."""
    mode: Mode = ANY_MODE
    full: bool = False
    """Every active row fills all `keys` rows of its ring."""


class Tick:
    """Input, output and body of a call. Rows that are not active stand still and their output means nothing.

    Attributes:
        pcm: [rows, 1920] float32, the users' frames.
        active: [rows] bool.
        out_pcm: [rows, 1920] float32 in [-1, 1]; zero for a row that has not said anything yet.
        out_frame: [rows, 17] int64, the tokens of the frame that `out_pcm` is; -1 where there is none.
        out_finite: [rows] bool, everything that this row computed is finite.
    """

    def __init__(self, lm: LanguageModel, mimi: Mimi, *, rows: int, device: torch.device) -> None:
        self.lm, self.mimi, self.rows = lm, mimi, rows
        self.pcm = torch.zeros(rows, FRAME_SAMPLES, device=device)
        self.active = torch.zeros(rows, dtype=torch.bool, device=device)
        self.out_pcm = torch.zeros(rows, FRAME_SAMPLES, device=device)
        self.out_frame = torch.full((rows, TOKEN_ROWS), -1, device=device)
        self.out_finite = torch.ones(rows, dtype=torch.bool, device=device)

    def body(self, extent: Extent) -> None:
        """One call. Capturable."""
        n = extent.rows
        active = self.active[:n]
        codes = self.mimi.encode(self.pcm[:n], active, keys=extent.codec_keys)
        step = self.lm.step(codes, active, extent.keys, mode=extent.mode, full=extent.full)
        speaks = active & step.valid
        spoken = step.frame[:, AGENT_ROWS].clamp(0, self.lm.config.card - 1)
        pcm = self.mimi.decode(spoken, speaks, keys=extent.codec_keys)
        self.out_pcm[:n] = torch.where(speaks[:, None], pcm, 0.0).clamp_(-1.0, 1.0)
        self.out_frame[:n] = torch.where(speaks[:, None], step.frame, -1)
        self.out_finite[:n] = step.finite & torch.isfinite(pcm).all(-1)


class Runner(Protocol):
    """Calls the body of a tick."""

    def run(self, extent: Extent) -> None:
        """One call of at least this extent; rows beyond it are inactive and unchanged."""


class PlainRunner:
    """Calls it as it is."""

    def __init__(self, tick: Tick) -> None:
        self._tick = tick

    def run(self, extent: Extent) -> None:
        self._tick.body(replace(extent, rows=batch_size(extent.rows, self._tick.rows)))


class GraphRunner:
    """Replays a CUDA graph. All of them are captured at construction, so that no call ever waits for one; each serves
    every sampling mode.

    A graph is captured with no row active, so nothing advances meanwhile. They share one memory pool: only one runs at
    a time. All are captured on one stream, since the libraries keep a workspace for each.
    """

    def __init__(self, tick: Tick) -> None:
        self._tick = tick
        self._buckets = _key_buckets(tick.lm.kv.capacity)
        self._graphs: dict[tuple[int, int], torch.cuda.CUDAGraph] = {}
        tick.active.zero_()
        pool = torch.cuda.graph_pool_handle()
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        # The largest first: the smaller ones find their memory in the pool.
        for extent in reversed([Extent(rows, keys) for rows in batches(tick.rows) for keys in self._buckets]):
            with torch.cuda.stream(stream):  # libraries allocate on their first call, which must not be captured
                tick.body(extent)
            self._graphs[extent.rows, extent.keys] = graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool, stream=stream):
                tick.body(extent)
        torch.cuda.current_stream().wait_stream(stream)

    def run(self, extent: Extent) -> None:
        keys = next(bucket for bucket in self._buckets if bucket >= extent.keys)
        self._graphs[batch_size(extent.rows, self._tick.rows), keys].replay()


def batches(rows: int) -> list[int]:
    """Every size of a batch that an engine with so many rows runs."""
    return sorted({batch_size(count, rows) for count in range(1, rows + 1)})


def _key_buckets(capacity: int) -> list[int]:
    return [*(bucket for bucket in KEY_BUCKETS if bucket < capacity), capacity]
