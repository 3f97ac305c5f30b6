"""What ``rtc-server check`` says of phone calls."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from rtc_server import cli, config, sipcheck
from rtc_server.finding import Finding
from rtc_server.sipcheck import examine_sip
from rtc_server.transports.sip.flow import Address
from rtc_server.transports.sip.network.resolve import ServerRecord
from rtc_server.transports.sip.network.target import Target
from rtc_server.transports.sip.optionsprobe import Answer, ask_options


class Ipv4Only:
    async def servers(self, name: str) -> Sequence[ServerRecord]:
        return ()

    async def addresses(self, host: str) -> Sequence[str]:
        return ("127.0.0.1",)


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


@pytest.mark.parametrize(
    ("listen", "target", "lacks"),
    [
        ("tcp:127.0.0.1:0", "udp:127.0.0.1:5999", "no udp place"),
        ("tcp:127.0.0.1:0", "udp:sip.example.invalid", "no udp place"),
        ("udp:127.0.0.1:0", "udp:[::1]:5999", "no udp place with an IPv6 address"),
        ("udp:[::1]:0", "udp:127.0.0.1:5999", "no udp place with an IPv4 address"),
    ],
)
def test_a_udp_target_that_no_place_leads_to_is_told_once_and_not_asked(
    tmp_path: Path, listen: str, target: str, lacks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    monkeypatch.setattr(sipcheck, "_ask_trunk", lambda *question: asked.append(question))
    file = tmp_path / "rtc.toml"
    file.write_text(f'[sip]\nlisten = ["{listen}"]\n' + TRUNK.format(target=target))
    settings = config.load({"engine": "echo"}, file)
    (finding,) = [finding for finding in examine_sip(settings) if finding.subject == "trunk carrier"]
    assert finding.ok is False and not asked
    assert lacks in finding.found and "listen" in finding.advice


def test_a_name_that_only_places_of_another_family_could_lead_to_is_not_reached(
    tmp_path: Path, trunk: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a call: the answer that other sockets would get is worth nothing."""
    monkeypatch.setattr(sipcheck, "ask_options", partial(ask_options, resolver=Ipv4Only()))
    port = trunk.getsockname()[1]
    text = '[sip]\nlisten = ["udp:[::1]:0", "tcp:127.0.0.1:0"]\n' + TRUNK.format(target=f"udp:ip4-only.test:{port}")
    finding = findings(tmp_path, text)["trunk carrier"]
    assert finding.ok is False and "no udp place that leads there" in finding.found
    assert "listen" in finding.advice


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


@pytest.mark.parametrize(("seen_as", "advised"), [(("198.51.100.9", 5060), True), (("2001:db8::9", 5060), False)])
def test_how_a_trunk_sees_us_is_compared_with_an_address_of_the_same_family(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seen_as: Address, advised: bool
) -> None:
    async def answer(target: Target, *_: object, **__: object) -> Answer:
        return Answer(200, "OK", 1.0, ("192.0.2.7", 5060), seen_as, None, None)

    monkeypatch.setattr(sipcheck, "ask_options", answer)
    text = '[sip]\nlisten = ["udp:127.0.0.1:0", "tcp:[::1]:0"]\nadvertise_ip = "203.0.113.5"\n'
    found = findings(tmp_path, text + TRUNK.format(target="udp:192.0.2.7"))
    assert ("198.51.100.9" in found["trunk carrier"].advice) is advised
    assert "203.0.113.5" in found["SIP udp"].found and "203.0.113.5" not in found["SIP tcp"].found


def test_a_target_over_which_no_number_may_be_called_is_told(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        text = '[sip]\nlisten = ["udp:127.0.0.1:0"]\n' + TRUNK.format(target=f"tcp:127.0.0.1:{closed.getsockname()[1]}")
        silent, both = findings(tmp_path, text)["may_dial"], findings(tmp_path, text + NUMBERS)["may_dial"]
        assert "may_dial" not in findings(tmp_path, text + 'may_dial = ["+1555*"]\n')
    assert (silent.ok, both.ok) == (False, None)  # with numbers, calls may come in all the same
    for finding in (silent, both):
        assert "trunk carrier" in finding.found and "no number may be called" in finding.found
        assert "number_not_allowed" in finding.found and "may_dial = " in finding.advice


WEBHOOK = """
[sip]
listen = ["udp:127.0.0.1:0"]
webhook_url = "{url}"
webhook_secret = "sixteen characters"
webhook_on_failure = "{on_failure}"
"""


@pytest.mark.parametrize(("on_failure", "ok", "so"), [("reject", False, "rejected"), ("accept", None, "accepted")])
def test_a_webhook_that_nobody_listens_at_is_told_with_what_becomes_of_calls(
    tmp_path: Path, on_failure: str, ok: bool | None, so: str
) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://user:hunter2@127.0.0.1:{closed.getsockname()[1]}/calls?key=hunter2"
        finding = findings(tmp_path, WEBHOOK.format(url=url, on_failure=on_failure))["webhook"]
    assert finding.ok is ok
    assert "Connection refused" in finding.found and so in finding.found and "webhook_on_failure" in finding.found
    assert "webhook_url" in finding.advice and "hunter2" not in str(finding)


def test_a_webhook_whose_name_leads_nowhere_is_told(tmp_path: Path) -> None:
    url = "https://no-such-host.invalid/calls"
    finding = findings(tmp_path, WEBHOOK.format(url=url, on_failure="reject"))["webhook"]
    assert finding.ok is False and "https://no-such-host.invalid:443 cannot be reached" in finding.found


def test_a_webhook_that_should_speak_tls_and_does_not_is_told(tmp_path: Path) -> None:
    with socket.socket() as plain:
        plain.bind(("127.0.0.1", 0))
        plain.listen()
        plain.settimeout(10)

        def answer() -> None:
            connection, _ = plain.accept()
            with connection:
                connection.recv(1)
                connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                connection.recv(65_536)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        url = f"https://127.0.0.1:{plain.getsockname()[1]}/calls"
        finding = findings(tmp_path, WEBHOOK.format(url=url, on_failure="reject"))["webhook"]
        thread.join(10)
    assert finding.ok is False and "no TLS" in finding.found


@pytest.mark.parametrize(("on_failure", "so"), [("reject", "rejected"), ("accept", "accepted")])
def test_a_webhook_that_listens_is_not_asked_about_a_call_that_there_is_not(
    tmp_path: Path, on_failure: str, so: str
) -> None:
    with socket.socket() as application:
        application.bind(("127.0.0.1", 0))
        application.listen()
        url = f"http://127.0.0.1:{application.getsockname()[1]}/calls"
        finding = findings(tmp_path, WEBHOOK.format(url=url, on_failure=on_failure))["webhook"]
        connection, _ = application.accept()
        with connection:
            assert connection.recv(1) == b""
    assert finding.ok and so in finding.found


def test_without_a_webhook_there_is_no_row_of_one(tmp_path: Path) -> None:
    assert "webhook" not in findings(tmp_path, '[sip]\nlisten = ["udp:127.0.0.1:0"]\n')


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
