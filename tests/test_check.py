from __future__ import annotations

import io
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from rtc_server import check, config


def examined(**flags: object) -> dict[str, check.Finding]:
    settings = config.load({"engine": "echo", "port": 0, "udp_port": 0, **flags})
    return {finding.subject: finding for finding in check.examine(settings)}


def test_everything_is_looked_at() -> None:
    findings = examined()
    assert list(findings) == [
        "libopus", "engine", "GPU", "page", "addresses", "UDP port", "TCP port", "TLS", "access", "TURN", "phone",
    ]  # fmt: skip
    assert findings["libopus"].ok and "opus" in findings["libopus"].found
    assert findings["engine"].ok and "echo" in findings["engine"].found
    assert findings["page"].ok


def test_our_own_page_comes_with_a_note_how_to_get_the_official_one(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<p>")
    note = "PersonaPlex's own client instead: --web-ui personaplex"
    page = examined()["page"]
    assert page.ok and not page.advice and note in page.found
    assert note not in examined(web_ui=str(tmp_path))["page"].found


def test_another_page_is_looked_at_too(tmp_path: Path) -> None:
    assert examined(web_ui=str(tmp_path))["page"].ok is False
    (tmp_path / "index.html").write_text("<p>")
    assert examined(web_ui=str(tmp_path))["page"].ok
    assert "hub" in examined(web_ui="personaplex")["page"].found


def test_taken_udp_port_is_named_with_what_to_do() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("0.0.0.0", 0))
        port = other.getsockname()[1]
        finding = examined(udp_port=port)["UDP port"]
    assert finding.ok is False
    assert str(port) in finding.found and "--udp-port" in finding.advice


def test_taken_tcp_port_is_named_with_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        finding = examined(port=other.getsockname()[1])["TCP port"]
    assert finding.ok is False
    assert "--port" in finding.advice


def test_machine_without_network_is_told_that_a_browser_cannot_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "advertised_addresses", lambda *_: ["127.0.0.1"])
    finding = examined()["addresses"]
    assert finding.ok is False
    assert "a browser cannot connect" in finding.found


def test_unknown_engine_is_a_finding_not_a_traceback() -> None:
    finding = examined(engine="ecko")["engine"]
    assert finding.ok is False
    assert "echo" in finding.advice


def test_outside_host_without_tls_is_warned_about() -> None:
    assert examined(host="0.0.0.0", auth="none")["TLS"].ok is False


def test_a_wrong_turn_setting_is_a_finding_not_a_traceback() -> None:
    assert examined()["TURN"].ok is None
    finding = examined(turn_urls=["turn:t.example"])["TURN"]
    assert finding.ok is False
    assert "RTC_TURN_SECRET" in finding.advice


def test_run_prints_and_tells_by_its_status() -> None:
    out = io.StringIO()
    settings = config.load({"engine": "ecko", "port": 0, "udp_port": 0})
    assert check.run(settings, Console(file=out, width=200)) == 1
    assert "did you mean" in out.getvalue()


@pytest.mark.e2e
def test_check_with_the_demo_engine_ends_cleanly() -> None:
    """Native threads of a model that outlive the interpreter would abort it."""
    command = [sys.executable, "-m", "rtc_server", "check", "--engine", "cascade", "--port", "0", "--udp-port", "0"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert "Demo engine" in run.stdout
