"""The real engine in a real browser, on tiny random weights: it babbles, and all of it is the pipeline.

Two people talk at once, with other voices and personas. What reached the engine is written down at its door, and the
same sound through ``rtc-server offline`` gives exactly the same tokens.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import wave
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect

from rtc_server.engine.stepper import FRAME_SAMPLES
from tests.e2e.conftest import OpenChromium, Serve
from tests.e2e.listen import SPEECH_RMS, heard_by
from tests.e2e.page import TalkPage
from tests.e2e.server import ROOT
from tests.e2e.speech import chatter, silence, write_microphone
from tests.engine.personaplex.tiny import tiny_checkpoint

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180, method="signal")]

TALK_S = 4.0
CALLERS = (("ALTO", "hi"), ("BASS", "the"))
"""Voice and persona of each."""


async def test_two_callers_hold_a_call_and_its_sound_replays_to_the_same_tokens(
    serve: Serve, open_chromium: OpenChromium, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoint = tiny_checkpoint(tmp_path / "tiny")
    (tap := tmp_path / "tap").mkdir()
    monkeypatch.setenv("TAP_FOLDER", str(tap))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    flags = ("--model", str(checkpoint), "--device", "cpu", "--threads", "1", "--persona", "hi")
    flags += ("--engine-process", "on")
    server = await serve("tests.e2e.tapped:TappedPersonaPlex", 2, *flags)

    talks = []
    for number, (voice, persona) in enumerate(CALLERS):
        microphone = write_microphone(tmp_path / f"{number}.wav", silence(0.3), chatter(60), pad_s=0)
        talk = TalkPage(await (await open_chromium(server, microphone)).open())
        await expect(talk.engine).to_contain_text(re.compile("personaplex", re.IGNORECASE))
        await talk.voice.select_option(voice)
        await talk.persona.fill(persona)
        await talk.start()
        talks.append(talk)
        await asyncio.sleep(TALK_S)
    for talk in talks:
        assert (await heard_by(talk.page)).loudness() > SPEECH_RMS
        assert await talk.said("agent")
        await talk.end()
    await server.wait_slots_in_use(0)

    for number, (voice, persona) in enumerate(CALLERS):
        prompt = json.loads((tap / f"{number}.json").read_text())
        assert (prompt["voice"], prompt["persona"]) == (voice, persona)
        live = [json.loads(line) for line in (tap / f"{number}.jsonl").read_text().splitlines()]
        assert len(live) > TALK_S / 0.080 * 0.8
        assert len({tuple(frame[9:]) for frame in live}) > 10, "the caller's voice did not reach the engine"
        assert await asyncio.to_thread(_replay, checkpoint, tap, number, prompt) == live


def _replay(checkpoint: Path, tap: Path, number: int, prompt: dict[str, Any]) -> list[list[int]]:
    """The tokens that the sound at the engine's door makes offline."""
    sound = (tap / f"{number}.pcm").read_bytes()
    with wave.open(str(tap / f"{number}.wav"), "wb") as file:
        file.setparams((1, 2, 24_000, 0, "NONE", ""))
        file.writeframes(sound)
    command = [sys.executable, "-m", "rtc_server", "offline", f"{number}.wav", f"{number}.out.wav"]
    command += ["--text", f"{number}.out.jsonl", "--model", str(checkpoint), "--slots", "2"]
    command += [
        "--engine",
        "tests.e2e.tapped:SteadyPersonaPlex",
        "--device",
        "cpu",
        "--threads",
        "1",
        "--seed",
        str(prompt["seed"]),
    ]
    command += ["--voice", prompt["voice"], "--persona", prompt["persona"]]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run(command, cwd=tap, env=environment, check=True, timeout=120)
    assert (tap / f"{number}.out.wav").stat().st_size == len(sound) + 44
    lines = [json.loads(line) for line in (tap / f"{number}.out.jsonl").read_text().splitlines()]
    assert [line["frame"] for line in lines] == list(range(len(sound) // (2 * FRAME_SAMPLES)))
    return [line["tokens"] for line in lines]
