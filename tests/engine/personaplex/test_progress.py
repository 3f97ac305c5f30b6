from __future__ import annotations

import io

from rtc_server.engine.personaplex.progress import SilentMeter, TerminalMeter, meter_for


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_a_bar_and_a_log_gets_nothing() -> None:
    assert isinstance(meter_for(Terminal()), TerminalMeter)
    log = io.StringIO()
    meter = meter_for(log)
    meter.start("loading", 10)
    meter.advance(10)
    meter.stop()
    assert isinstance(meter, SilentMeter) and log.getvalue() == ""


def test_the_bar_shows_its_task_and_serves_again() -> None:
    terminal = Terminal()
    meter = meter_for(terminal)
    for task in ("fetching lab/model", "loading model.safetensors"):
        meter.start(task, 4_000_000)
        meter.advance(3_000_000)
        meter.stop()
        meter.stop()
        assert task in terminal.getvalue()
    assert "3.0/4.0 MB" in terminal.getvalue()
