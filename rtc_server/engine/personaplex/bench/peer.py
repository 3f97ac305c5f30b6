"""The reference implementation as a subject: in an interpreter of its own, which has it and nothing of ours."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rtc_server.engine.personaplex.bench.clock import Sample
from rtc_server.engine.personaplex.config import LmConfig
from rtc_server.errors import ConfigError

SCRIPT = Path(__file__).with_name("moshi_peer.py")


class Peer:
    """A child process that makes one call whenever it is asked to. A context manager: leaving it ends the process.

    Raises: ConfigError when the interpreter cannot run it, or does not have the package.
    """

    def __init__(
        self, interpreter: Path, model: dict[str, object], slots: int, threads: int | None, device: str
    ) -> None:
        """`model`: of `language_settings`; empty for the codec, which has one size."""
        self._interpreter = interpreter
        settings = {"slots": slots, "threads": threads, "device": device, "model": model}
        try:
            self._process = subprocess.Popen(
                [str(interpreter), str(SCRIPT), json.dumps(settings)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
        except OSError as error:
            raise ConfigError(f"--peer {interpreter} cannot be started: {error}") from error
        try:
            self.version = str(self._answer()["version"])
        except BaseException:
            self._end()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def sample(self) -> Sample:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write("\n")
            self._process.stdin.flush()
        except OSError:
            raise self._failed() from None
        answer = self._answer()
        return Sample(answer["cpu_ms"], answer["wall_ms"])

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._failed()
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _failed(self) -> ConfigError:
        return ConfigError(
            f"--peer {self._interpreter} ended with status {self._process.wait()}; its message stands above",
            hint="it must have the package moshi, which may be installed without its dependencies",
        )

    def _end(self) -> None:
        """Without its input it ends by itself."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.close()
            self._process.wait(10)
        except (OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


def language_settings(config: LmConfig, steps: int) -> dict[str, object]:
    """Feed-forward layers are told by the nominal width, of which a gated one has two thirds."""
    return {
        "dim": config.dim,
        "num_heads": config.heads,
        "num_layers": config.layers,
        "hidden_scale": 1.5 * config.gating / config.dim,
        "card": config.card,
        "text_card": config.text_card,
        "context": config.context,
        "n_q": len(config.delays) - 1,
        "dep_q": steps,
        "delays": list(config.delays),
        "depformer_dim": config.depformer_dim,
        "depformer_dim_feedforward": 3 * config.depformer_gating // 2,
        "depformer_num_heads": config.depformer_heads,
        "depformer_num_layers": config.depformer_layers,
        "max_period": config.max_period,
    }
