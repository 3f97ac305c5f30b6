"""The engine of docs/engine.md is a real one."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from rtc_server.engine.client import SlotStatus
from rtc_server.engine.loop import EngineLoop
from rtc_server.engine.registry import EngineOptions, create
from rtc_server.engine.stepper import FRAME_SAMPLES, SessionPrompt
from tests.engine.fakes import VirtualClock

PAGE = Path(__file__).parents[2] / "docs" / "engine.md"


@pytest.fixture
def listings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The Python listings of the page; the first one can be imported as `later`."""
    found = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (tmp_path / "later.py").write_text(found[0], encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "later", raising=False)
    return found


def test_the_engine_of_the_page_has_about_40_lines_and_keeps_the_contract(listings: list[str]) -> None:
    assert len(listings[0].splitlines()) <= 45
    names: dict[str, object] = {}
    exec(compile(listings[1], "docs/engine.md", "exec"), names)
    check = names["test_later_keeps_the_contract"]
    assert callable(check)
    check()


def test_the_engine_of_the_page_holds_a_call(listings: list[str]) -> None:
    clock = VirtualClock()
    loop = EngineLoop(create("later:Later", EngineOptions(slots=1))(), clock=clock)
    assert loop.spec.name == "later"
    lease = loop.reserve(SessionPrompt())
    while loop.wake_s() <= clock.now:
        loop.poll()
    heard: list[tuple[int, str | None]] = []
    for n in range(20):
        said = {0: 8000, 1: 9000}.get(n, 0)
        exchange = loop.submit([lease], [True], n, np.full((1, FRAME_SAMPLES), said, np.int16))
        clock.advance(0.080)
        loop.poll()
        assert exchange.result is not None
        output = exchange.result.outputs[0]
        assert output.status is SlotStatus.LIVE and output.pcm is not None
        heard.append((int(output.pcm[0]), output.text))
    assert heard == [(0, None)] * 12 + [(8000, " again"), (9000, " again")] + [(0, None)] * 6
