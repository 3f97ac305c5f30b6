"""The client of the ``moshi`` package, unchanged but for its sound card: its microphone is a file, and what it plays is
kept. A `peer_process`::

    python -m tests.e2e.moshi_client ws://HOST:PORT SPEECH.wav

``heard`` is answered with what was played (s16 at 24 kHz), and the words and complaints that were printed.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import importlib
import importlib.util
import io
import json
import sys
import threading
import time
import types
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Block = NDArray[np.float32]
"""[n, 1] mono samples in [-1, 1]."""


class SoundCard:
    """A file in place of a microphone, silence behind its end, and a list in place of a loudspeaker."""

    def __init__(self, speech: Path) -> None:
        with wave.open(str(speech), "rb") as file:
            assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (24_000, 1, 2)
            self._speech = np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 32768
        self.began_s: dict[str, float] = {}
        """When the first block was recorded, and when played."""
        self.played: list[Block] = []

    def record(self, block: Block) -> None:
        self.began_s.setdefault("recorded", time.monotonic())
        taken, self._speech = self._speech[: len(block)], self._speech[len(block) :]
        block[: len(taken), 0] = taken

    def play(self, block: Block) -> None:
        self.began_s.setdefault("played", time.monotonic())
        self.played.append(block.copy())

    def module(self) -> types.ModuleType:
        """What ``import sounddevice`` gives."""
        module = types.ModuleType("sounddevice")
        for name, turn in (("InputStream", self._input), ("OutputStream", self._output)):
            setattr(module, name, self._stream_class(turn))
        return module

    def _input(self, block: Block, callback: Callable[..., None]) -> None:
        self.record(block)
        callback(block, len(block), None, None)

    def _output(self, block: Block, callback: Callable[..., None]) -> None:
        callback(block, len(block), None, None)
        self.play(block)

    @staticmethod
    def _stream_class(turn: Callable[[Block, Callable[..., None]], None]) -> type:
        class Stream:
            """Calls back from a thread of its own, a block at a time, at the pace of time."""

            def __init__(
                self, *, samplerate: float, channels: int, blocksize: int, callback: Callable[..., None]
            ) -> None:
                self._block_s = blocksize / samplerate
                self._shape = (blocksize, channels)
                self._callback = callback
                self._stop = threading.Event()
                self._thread = threading.Thread(target=self._run)

            def _run(self) -> None:
                next_s = time.monotonic()
                while not self._stop.wait(max(0.0, next_s - time.monotonic())):
                    turn(np.zeros(self._shape, np.float32), self._callback)
                    next_s += self._block_s

            def __enter__(self) -> Stream:
                self._thread.start()
                return self

            def __exit__(self, *_: object) -> None:
                self._stop.set()
                self._thread.join()

        return Stream


def moshi_client(sounddevice: types.ModuleType) -> Any:
    """``moshi.client``, without the models that importing the package itself would load."""
    spec = importlib.util.find_spec("moshi")
    assert spec is not None and spec.submodule_search_locations is not None
    package = types.ModuleType("moshi")
    package.__path__ = list(spec.submodule_search_locations)
    sys.modules |= {"moshi": package, "sounddevice": sounddevice}
    return importlib.import_module("moshi.client")


async def main(url: str, speech: Path) -> None:
    card, words, complaints = SoundCard(speech), io.StringIO(), io.StringIO()
    client = moshi_client(card.module())
    printer = client.RawPrinter(words, complaints)
    talking = asyncio.create_task(client.run(printer, argparse.Namespace(url=url)))
    while command := (await asyncio.to_thread(sys.stdin.readline)).strip():
        assert command == "heard"
        pcm = np.concatenate([block[:, 0] for block in card.played] or [np.zeros(0, np.float32)])
        answer = {
            "pcm": base64.b64encode((np.clip(pcm, -1, 1) * 32767).astype("<i2").tobytes()).decode(),
            "lag_s": card.began_s.get("played", 0.0) - card.began_s.get("recorded", 0.0),
            "words": words.getvalue(),
            "complaints": complaints.getvalue(),
            "is_over": talking.done(),
        }
        print(json.dumps(answer), flush=True)
    talking.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await talking


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2])))
