"""``rtc-server talk`` as it is typed, against servers of both kinds: what is heard, what is read, how it ends."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
import wave
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from rtc_server import cli
from rtc_server.media.wav import read_wav
from tests.talk.servers import Site, breaking_off, moshi_echo, pcm_echo, refusing, serving

FRAMES = 4
Talk = Callable[..., int]


@pytest.fixture(autouse=True)
def no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RTC_API_KEY", raising=False)


def tone(frames: float = FRAMES) -> NDArray[np.int16]:
    time_s = np.arange(round(frames * 1920)) / 24_000
    return (8000 * np.sin(2 * np.pi * 440 * time_s)).astype(np.int16)


@pytest.fixture
def talk(tmp_path: Path) -> Talk:
    """Says the tone, and writes what comes back to ``out.wav``."""
    with wave.open(str(tmp_path / "in.wav"), "wb") as file:
        file.setparams((1, 2, 24_000, 0, "NONE", ""))
        file.writeframes(tone().tobytes())

    def run(url: str, *flags: str) -> int:
        files = ["--in", str(tmp_path / "in.wav"), "--out", str(tmp_path / "out.wav")]
        return cli.main(["talk", "--url", url, *files, *flags])

    return run


def test_raw_pcm_brings_every_sample_back_and_waits_for_the_last_one(
    talk: Talk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving({"/v1/audio/duplex": pcm_echo}) as site:
        assert talk(site.url, "--persona", "a pilot", "--voice", "NATF2", "--seed", "7") == 0
    assert np.array_equal(read_wav(tmp_path / "out.wav"), tone())
    assert site.texts[0] == {
        "type": "open",
        "persona": "a pilot",
        "voice": "NATF2",
        "seed": 7,
        "rate": 24000,
        "format": "f32",
        "pace": "input",
    }
    assert site.texts[-1] == {"type": "close"}
    assert capsys.readouterr().out == " word" * (FRAMES - 1) + "\n"


def test_moshi_brings_the_same_back_as_opus_can(talk: Talk, tmp_path: Path) -> None:
    with serving({"/api/chat": moshi_echo}) as site:
        assert talk(site.url, "--persona", "a pilot") == 0
    (request,) = [request for request in site.requests if request.path == "/api/chat"]
    assert dict(request.query) == {"text_prompt": "a pilot", "voice_prompt": ""}
    heard = read_wav(tmp_path / "out.wav").astype(np.float64)[2000:6000]
    spectrum = np.abs(np.fft.rfft(heard * np.hanning(heard.size)))
    assert np.argmax(spectrum) * 24_000 / heard.size == pytest.approx(440, abs=6)
    assert all(message[0] == 1 for message in site.binary)
    assert len(site.binary) == FRAMES
    assert site.closed_with == 1000


@pytest.mark.parametrize("ending", ["", "/"])
def test_the_address_may_name_the_socket_and_the_key(ending: str, talk: Talk) -> None:
    with serving({"/proxy/api/chat": moshi_echo}) as site:
        address = site.url.replace("http", "ws")
        assert talk(f"{address}/proxy/api/chat{ending}?worker=3#token=secret") == 0
    (request,) = site.requests
    assert request.query["worker"] == "3"
    assert request.headers["Authorization"] == "Bearer secret"


def test_the_key_comes_from_the_environment(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RTC_API_KEY", "from the environment")
    with serving({"/v1/audio/duplex": pcm_echo}) as site:
        assert talk(site.url) == 0
    assert site.requests[0].headers["Authorization"] == "Bearer from the environment"


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (401, "wants a key, and this is not it; set RTC_API_KEY"),
        (403, "does not let this machine in"),
        (404, "answers, but has no /v1/audio/duplex or /api/chat (404)"),
        (200, "answers, but has no /v1/audio/duplex or /api/chat (200)"),
        (503, "takes no call now (503)"),
    ],
)
def test_an_answer_that_is_no_socket_is_one_sentence(
    status: int, message: str, talk: Talk, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving({"/api/chat": moshi_echo, "/v1/audio/duplex": pcm_echo}, status) as site:
        assert talk(site.url) == 1
    assert message in one_error(capsys)


@pytest.mark.parametrize(
    ("answer", "flags", "message"),
    [
        (refusing(1013, "every slot is in use", b"\x05full"), (), "takes no call now: every slot is in use; try again"),
        (refusing(1008, "", b"\x05seed=x is not possible"), (), "refuses the call (1008): seed=x is not possible"),
        (refusing(1000, ""), (), "refuses the call (1000)"),
        (breaking_off(1011, "the engine has died"), (), "has ended the call (1011): the engine has died"),
        (breaking_off(1001, "", b"\x05the server stops"), (), "has ended the call (1001): the server stops"),
        (breaking_off(None), (), "the connection to the server broke off"),
    ],
)
def test_why_a_server_ends_a_call_is_told(
    answer: object, flags: tuple[str, ...], message: str, talk: Talk, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving({"/api/chat": answer}) as site:  # type: ignore[dict-item]
        assert talk(site.url, *flags) == 1
    assert message in one_error(capsys)


def test_a_server_that_ends_a_call_in_order_is_no_failure(talk: Talk, capsys: pytest.CaptureFixture[str]) -> None:
    with serving({"/api/chat": breaking_off(1000, "", b"\x05\x1b[2Jit was nice")}) as site:
        assert talk(site.url) == 0
    err = capsys.readouterr().err
    assert "it was nice" in err and "\x1b" not in err


def test_what_was_heard_before_a_call_broke_off_is_kept(talk: Talk, tmp_path: Path) -> None:
    async def half(connection: object, site: Site) -> None:
        await connection.send_json({"type": "ready"})  # type: ignore[attr-defined]
        await connection.send_bytes(np.full(100, 0.5, np.float32).tobytes())  # type: ignore[attr-defined]
        await connection.close(code=1011)  # type: ignore[attr-defined]

    with serving({"/v1/audio/duplex": half}) as site:
        assert talk(site.url) == 1
    assert read_wav(tmp_path / "out.wav").tolist() == [16384] * 100


def test_a_server_that_is_not_there_is_one_sentence(talk: Talk, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    assert talk(f"http://127.0.0.1:{port}") == 1
    assert "nobody answers" in (error := one_error(capsys)) and "rtc-server serve" in error


def test_what_is_no_web_server_is_one_sentence(talk: Talk, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:

        def answer() -> None:
            connection, _ = other.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"220 mail at your service\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        assert talk(f"http://127.0.0.1:{other.getsockname()[1]}", "--protocol", "moshi") == 1
        thread.join()
    assert "is no web server" in one_error(capsys)


def test_plain_http_behind_https_is_one_sentence(talk: Talk, capsys: pytest.CaptureFixture[str]) -> None:
    with serving({"/api/chat": moshi_echo}) as site:
        assert talk(site.url.replace("http", "https")) == 1
    assert "TLS" in one_error(capsys)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--url", "ftp://localhost"), "is no address of a web server"),
        (("--url", "http://"), "is no address of a web server"),
        (("--url", "http://localhost:99999"), "is no address of a web server"),
        (("--url", "http://me:secret@localhost"), "has a user name in it"),
        (("--url", "http://localhost/api/chat", "--protocol", "pcm"), "which is not --protocol pcm"),
        (("--seed", "-3"), "--seed -3 must be 0 or more"),
        (("--in", "missing.wav"), "cannot read missing.wav"),
        (("--in", __file__), "give a WAV file"),
        (("--out", "missing/out.wav"), "missing is no folder"),
        (("--out", "."), "it is a folder"),
        (("--token", "two\nlines"), "no key has"),
    ],
)
def test_wrong_usage_is_one_sentence(
    flags: tuple[str, ...], message: str, talk: Talk, capsys: pytest.CaptureFixture[str]
) -> None:
    assert talk("http://127.0.0.1:9", *flags) == 2
    assert message in one_error(capsys)


def test_without_sounddevice_it_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    assert cli.main(["talk"]) == 2
    error = one_error(capsys)
    assert "pip install '.[talk]'" in error and "--in FILE.wav" in error


@pytest.mark.parametrize("path", ["/api/chat", "/v1/audio/duplex"])
def test_ctrl_c_ends_the_call_cleanly(path: str, tmp_path: Path) -> None:
    with wave.open(str(tmp_path / "in.wav"), "wb") as file:
        file.setparams((1, 2, 24_000, 0, "NONE", ""))
        file.writeframes(tone(1000).tobytes())
    with serving({path: moshi_echo if path == "/api/chat" else pcm_echo}) as site:

        def interrupt() -> None:
            assert site.is_live.wait(20)
            while len(site.binary) < 2:
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        files = ["--in", str(tmp_path / "in.wav"), "--out", str(tmp_path / "out.wav")]
        assert cli.main(["talk", "--url", site.url, *files]) == 0
        thread.join()
    assert len(read_wav(tmp_path / "out.wav")) > 1000
    if path == "/api/chat":
        assert site.closed_with == 1000
    else:
        assert site.texts[-1] == {"type": "close"}


def one_error(capsys: pytest.CaptureFixture[str]) -> str:
    """The last line that a person reads."""
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    lines = [line for line in captured.err.splitlines() if line.startswith("rtc-server: ")]
    assert len(lines) == 1, captured.err
    return lines[0]
