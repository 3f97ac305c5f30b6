"""What an offline run writes: the agent's sound, and its words and tokens frame by frame."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from rtc_server.media.wav import Samples, WavWriter
from rtc_server.offline.staged import StagedFile
from rtc_server.offline.stream import AgentFrame, Failure


class Results:
    """A WAV file for each pair that did not break, as long as its recording, to the sample; and one file of words.

    The words are one JSON object a line, frame after frame and in it pair after pair:
    ``{"pair", "frame", "text"}``, with ``tokens`` (17 numbers: text, agent, user) from engines that have them, and
    ``heard`` where the user's words were recognised. The last line of a pair that broke is ``{"pair", "frame",
    "error"}``. All files appear with `keep`, or none.
    """

    def __init__(self, targets: Sequence[Path], recordings: Sequence[Samples], text: Path | None) -> None:
        """Raises: ConfigError when one of them cannot be written."""
        self._left = [len(samples) for samples in recordings]
        self._broken: set[int] = set()
        with contextlib.ExitStack() as stack:
            self._sounds = [stack.enter_context(StagedFile(target)) for target in targets]
            self._words = stack.enter_context(StagedFile(text)) if text is not None else None
            self._writers = [stack.enter_context(WavWriter(sound.stream)) for sound in self._sounds]
            self._stack = stack.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def add(self, event: AgentFrame | Failure) -> None:
        """Raises: OSError when the disk is full; so does `keep`."""
        if isinstance(event, Failure):
            self._broken.add(event.pair)
        else:
            pcm = event.pcm[: self._left[event.pair]]  # the last frame was filled up with silence
            self._writers[event.pair].write(pcm)
            self._left[event.pair] -= len(pcm)
        if self._words is not None:
            self._words.stream.write(json.dumps(_line(event), ensure_ascii=False).encode() + b"\n")

    def keep(self) -> None:
        for writer in self._writers:
            writer.finish()
        whole = [sound for pair, sound in enumerate(self._sounds) if pair not in self._broken]
        for file in [*whole, *([self._words] if self._words is not None else [])]:
            file.keep()


def _line(event: AgentFrame | Failure) -> dict[str, Any]:
    line: dict[str, Any] = {"pair": event.pair, "frame": event.frame}
    if isinstance(event, Failure):
        return {**line, "error": event.reason}
    line["text"] = event.text
    if event.tokens is not None:
        line["tokens"] = event.tokens.tolist()
    if event.heard:
        line["heard"] = [
            {"text": word.text, "start_frame": word.start_frame, "end_frame": word.end_frame, "final": word.final}
            for word in event.heard
        ]
    return line
