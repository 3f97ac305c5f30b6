"""Run as a program: locate repositories one after the other, and print what came of each as a line of JSON.

``owner/name@revision`` is fetched, ``?owner/name@revision`` only looked for; of ``+owner/name@revision`` it is the web
client alone, and ``+`` the one that is served with no model given.

The hub's library reads its environment when it is imported, so another environment takes another process.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from rtc_server.engine.personaplex.checkpoint import at_hand, locate
from rtc_server.engine.personaplex.webclient import fetch_web_client
from rtc_server.errors import RtcServerError


class Counter:
    def __init__(self) -> None:
        self.tasks: dict[str, list[int]] = {}

    def start(self, task: str, total_bytes: int) -> None:
        self._figures = self.tasks.setdefault(task, [0, total_bytes])

    def advance(self, more_bytes: int) -> None:
        self._figures[0] += more_bytes

    def stop(self) -> None:
        pass


def call(model: str, revision: str | None) -> dict[str, Any]:
    counter = Counter()
    try:
        if model.startswith("+"):
            return {"archive": str(fetch_web_client(model.removeprefix("+") or None, revision))}
        if model.startswith("?"):
            checkpoint = at_hand(model.removeprefix("?"), revision)
        else:
            checkpoint = locate(model, revision, counter)
    except RtcServerError as error:
        return {"error": type(error).__name__, "message": error.message, "hint": error.hint}
    if checkpoint is None:
        return {"name": None}
    files = (checkpoint.lm_file, checkpoint.mimi_file, checkpoint.tokenizer_file, checkpoint.voices)
    return {
        "name": checkpoint.name,
        "revision": checkpoint.revision,
        "files": [path and path.name for path in files],
        "folder": str(checkpoint.lm_file.parent),
        "tasks": counter.tasks,
    }


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        name, _, wanted = argument.partition("@")
        print(json.dumps(call(name, wanted or None)), flush=True)
