import os
import subprocess
import sys

import pytest

from rtc_server.bench import servers
from rtc_server.errors import ConfigError, EngineUnavailable


def test_a_server_that_dies_at_once_is_reported_with_its_last_words() -> None:
    command = ["-c", "import sys; sys.exit('no such engine')"]
    with (
        pytest.raises(EngineUnavailable, match=r"exit code 1 before it was ready; .*no such engine"),
        servers._running("ours", command, 1, "/", None),
    ):
        pass


def test_what_was_started_is_ended_even_when_it_does_not_want_to() -> None:
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    servers.stop(process, timeout_s=0.1)
    servers.stop(process)
    process.stdout.close()
    assert process.returncode == -9


def test_settings_in_the_environment_do_not_reach_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RTC_ENGINE", "cascade")
    assert "RTC_ENGINE" not in servers._environment()
    assert servers._environment()["PATH"] == os.environ["PATH"]


def test_what_a_benchmark_sets_for_its_server_reaches_it() -> None:
    command = ["-c", "import os, sys; sys.exit(os.environ['RTC_BENCH_RECORDINGS'])"]
    with (
        pytest.raises(EngineUnavailable, match=r"its last words: somewhere"),
        servers._running("ours", command, 1, "/", None, {"RTC_BENCH_RECORDINGS": "somewhere"}),
    ):
        pass


def test_an_unknown_peer_is_named() -> None:
    with pytest.raises(ConfigError, match="nobody"), servers.peer_server("nobody", None):
        pass
