from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests.engine.personaplex.tiny import tiny_checkpoint


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    """The models of the tests are tiny: a second thread only waits."""
    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a whole tiny checkpoint; prepared voices go beside it."""
    folder = tmp_path_factory.mktemp("checkpoint")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        yield tiny_checkpoint(folder / "tiny")
