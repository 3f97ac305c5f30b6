"""The page's modules, run and checked by the tools of their own language."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
IN_CI = bool(os.environ.get("CI"))


def _run(*command: str) -> None:
    done = subprocess.run(command, cwd=HERE, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_modules_pass_their_node_tests() -> None:
    node = shutil.which("node")
    if node is None:
        if IN_CI:
            pytest.fail("node is missing; the page's modules are tested with `node --test` (Node.js 20 or newer)")
        pytest.skip("node is not installed")
    _run(node, "--test", *sorted(str(path) for path in HERE.glob("*.test.mjs")))


def test_modules_have_sound_types() -> None:
    tsc = shutil.which("tsc")
    if tsc is None:
        pytest.skip("tsc is not installed (npm install --global typescript)")
    _run(tsc, "--project", str(HERE / "tsconfig.json"))
