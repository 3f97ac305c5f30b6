"""Asks the hub as a machine does: each time a process of its own, all of them with one cache."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.engine.personaplex.fakehub import Repository

NOWHERE = "http://127.0.0.1:9"
"""The discard port, where nobody listens."""


@dataclass
class Desk:
    """One cache, and calls from processes of their own."""

    home: Path
    endpoint: str
    repositories: dict[str, Repository]

    def ask(self, *models: str, **environment: str) -> list[dict[str, Any]]:
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("HF_", "HUGGING", "XDG_"))}
        settings = {
            "HF_HUB_OFFLINE": "0",
            "HF_ENDPOINT": self.endpoint,
            "HF_HOME": str(self.home),
            "HF_HUB_DISABLE_XET": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "NO_PROXY": "127.0.0.1",
        }
        program = [sys.executable, "-m", "tests.engine.personaplex.hubcalls", *models]
        answer = subprocess.run(
            program, capture_output=True, text=True, check=True, timeout=100, env={**clean, **settings, **environment}
        )
        return [json.loads(line) for line in answer.stdout.splitlines() if line.startswith("{")]
