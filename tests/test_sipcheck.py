"""What ``rtc-server check`` says of phone calls."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from rtc_server import cli, config, sipcheck
from rtc_server.finding import Finding
from rtc_server.sipcheck import examine_sip
from rtc_server.transports.sip.optionsprobe import ask_options

TRUNK = """
[[sip.trunks]]
name = "carrier"
target = "{target}"
"""


def findings(tmp_path: Path, text: str) -> dict[str, Finding]:
    file = tmp_path / "rtc.toml"
    file.write_text(text)
    return {finding.subject: finding for finding in examine_sip(config.load({"engine": "echo"}, file))}


@pytest.fixture
def trunk() -> Iterator[socket.socket]:
    """Answers each datagram with the status that stands in `answers`."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound


def answer_once(trunk: socket.socket, status: str) -> threading.Thread:
    def answer() -> None:
        data, source = trunk.recvfrom(4096)
        head = [
            line for line in data.decode().split("\r\n") if line.split(":")[0] in ("Via", "From", "Call-ID", "CSeq")
        ]
        lines = [f"SIP/2.0 {status}", *head, "To: <sip:x@127.0.0.1>;tag=1", "Content-Length: 0", "", ""]
        trunk.sendto("\r\n".join(lines).encode(), source)

    thread = threading.Thread(target=answer, daemon=True)
    thread.start()
    return thread


def test_without_phone_calls_nothing_is_asked(tmp_path: Path) -> None:
    (finding,) = findings(tmp_path, "").values()
    assert (finding.subject, finding.ok) == ("phone", None)


def test_each_place_answers_itself_and_says_what_it_is_known_as(tmp_path: Path) -> None:
    text = '[sip]\nlisten = ["udp:127.0.0.1:0", "tcp:0.0.0.0:0"]\nadvertise_ip = "203.0.113.5"\n'
    found = findings(tmp_path, text)
    assert found["SIP udp"].ok and found["SIP tcp"].ok
    assert "as 127.0.0.1:" in found["SIP udp"].found and "203.0.113.5" in found["SIP tcp"].found
    assert found["trunks"].ok is False  # nobody could call


def test_a_place_that_is_taken_is_named_with_what_to_do(tmp_path: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", 0))
        port = other.getsockname()[1]
        finding = findings(tmp_path, f'[sip]\nlisten = ["udp:127.0.0.1:{port}"]\n')["SIP udp"]
    assert finding.ok is False
    assert f"127.0.0.1:{port}" in finding.found and "another server" in finding.advice


@pytest.mark.parametrize(("status", "ok"), [("200 OK", True), ("404 Not Found", True), ("503 Busy", False)])
def test_a_trunk_is_asked_whether_it_takes_calls(tmp_path: Path, trunk: socket.socket, status: str, ok: bool) -> None:
    thread = answer_once(trunk, status)
    port = trunk.getsockname()[1]
    text = '[sip]\nlisten = ["udp:127.0.0.1:0"]\n' + TRUNK.format(target=f"udp:127.0.0.1:{port}")
    finding = findings(tmp_path, text)["trunk carrier"]
    thread.join(5)
    assert finding.ok is ok and status in finding.found


def test_a_trunk_that_cannot_be_found_is_told(tmp_path: Path) -> None:
    text = '[sip]\nlisten = ["udp:127.0.0.1:0"]\n' + TRUNK.format(target="udp:no-such-host.invalid")
    finding = findings(tmp_path, text)["trunk carrier"]
    assert finding.ok is False and finding.advice


def test_a_trunk_that_answers_no_options_is_a_warning_since_calls_may_work(
    tmp_path: Path, trunk: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sipcheck, "ask_options", partial(ask_options, timeout_s=0.2))
    port = trunk.getsockname()[1]
    text = '[sip]\nlisten = ["udp:127.0.0.1:0"]\n' + TRUNK.format(target=f"udp:127.0.0.1:{port}")
    finding = findings(tmp_path, text)["trunk carrier"]
    assert finding.ok is None
    assert "does not answer OPTIONS" in finding.found and "calls may work" in finding.advice


def test_a_trunk_to_which_no_connection_leads_takes_no_calls(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        text = '[sip]\nlisten = ["udp:127.0.0.1:0"]\n' + TRUNK.format(target=f"tcp:127.0.0.1:{port}")
        finding = findings(tmp_path, text)["trunk carrier"]
    assert finding.ok is False and "firewall" in finding.advice


def test_fewer_ports_than_slots_are_a_warning(tmp_path: Path) -> None:
    text = '[sip]\nlisten = ["udp:127.0.0.1:0"]\nrtp_ports = "20000-20005"\n'
    finding = findings(tmp_path, text)["RTP ports"]
    assert finding.ok is None
    assert "3 of the 4 calls" in finding.found and "two ports" in finding.advice
    assert "RTP ports" not in findings(tmp_path, text.replace("20005", "20007"))


@pytest.fixture
def _logging_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", list(root.handlers))
    monkeypatch.setattr(root, "level", root.level)


@pytest.mark.usefixtures("_logging_as_before")
def test_rows_are_all_that_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "rtc.toml"
    file.write_text('[sip]\nlisten = ["udp:127.0.0.1:0", "tcp:127.0.0.1:0"]\n' + INBOUND + NUMBERS)
    arguments = ["check", "--engine", "echo", "--port", "0", "--udp-port", "0", "--config", str(file)]
    cli.main(arguments)
    said = capsys.readouterr()
    assert "SIP udp" in said.out and said.err == ""
    cli.main([*arguments, "--log-level", "info"])
    assert "SIP port open" in capsys.readouterr().err


def test_a_missing_password_is_a_finding(tmp_path: Path) -> None:
    text = (
        '[sip]\nlisten = ["udp:127.0.0.1:0"]\n[[sip.trunks]]\nname = "a"\nusername = "u"\npassword_file = "no/such"\n'
    )
    finding = findings(tmp_path, text)["phone"]
    assert finding.ok is False and "no/such" in finding.found


INBOUND = '[[sip.trunks]]\nname = "in"\naddresses = ["192.0.2.0/24"]\nusername = "u"\npassword = "hunter2"\n'
NUMBERS = '[[sip.trunks.numbers]]\npattern = "+1555*"\n'


def test_a_trunk_that_only_calls_us_is_listed(tmp_path: Path) -> None:
    finding = findings(tmp_path, '[sip]\nlisten = ["udp:127.0.0.1:0"]\n' + INBOUND + NUMBERS)["trunk in"]
    assert finding.ok
    assert "192.0.2.0/24, username u; numbers +1555*" in finding.found and "hunter2" not in finding.found


def test_trunks_that_no_call_can_come_of_are_findings(tmp_path: Path) -> None:
    assert findings(tmp_path, '[sip]\nlisten = ["udp:127.0.0.1:0"]\n' + INBOUND)["trunk in"].ok is False
    assert findings(tmp_path, INBOUND + NUMBERS)["phone"].ok is False
