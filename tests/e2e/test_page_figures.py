"""What the page shows of a call can be trusted, and handed on."""

from __future__ import annotations

import asyncio
import json
import re
import statistics
import sys
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.e2e.conftest import OpenChromium
from tests.e2e.page import TalkPage
from tests.e2e.server import ServerProcess
from tests.e2e.speech import chatter, silence, write_microphone

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120, method="signal")]

TWOFOLD = 2.0
"""The two measure at the same time, and the benchmark is a load of its own."""
SERVER_PARTS = ("Jitter buffer, server", "Engine’s thinking", "Waiting to be sent")
KEEP_STATS_JS = """() => {
    window.told = [];
    const shown = (ms) => `${ms.toFixed(ms < 10 ? 1 : 0)} ms`;
    rtc.client.addEventListener('session.stats', ({ detail }) => {
        told.push([detail.jitter_delay_ms, detail.tick_ms, detail.playout_delay_ms].map(shown));
    });
}"""
"""What the server tells of the `SERVER_PARTS` from now on, as the page writes figures."""
BENCH_S = 8


async def test_the_latency_shown_is_what_the_benchmark_measures(
    shared_echo: ServerProcess, open_chromium: OpenChromium, tmp_path: Path
) -> None:
    """Less what is the browser's own, its jitter buffer and its sound device: the benchmark's client has neither. The
    page lists both apart, from getStats. What is the server's is what the server tells, to the digit."""
    microphone = write_microphone(tmp_path / "mic.wav", silence(0.5), chatter(30), pad_s=0)
    talk = TalkPage(await (await open_chromium(shared_echo, microphone)).open())
    await talk.start()
    await talk.page.locator("#latency summary").click()
    await talk.page.evaluate(KEEP_STATS_JS)
    async with asyncio.timeout(15):
        while len(await talk.page.evaluate("told")) < 2:
            await asyncio.sleep(0.1)
    await talk.page.wait_for_timeout(2000)  # so long a reading may be behind
    measuring = asyncio.create_task(bench(shared_echo.url))
    shown: list[float] = []
    while not measuring.done():
        parts = await parts_shown(talk)
        assert [parts[name] for name in SERVER_PARTS] in await talk.page.evaluate("told")
        shown.append(milliseconds(await talk.page.locator("#latency-figure").inner_text()) - of_browser_ms(parts))
        await asyncio.sleep(1)
    measured = await measuring
    assert measured / TWOFOLD < statistics.median(shown) < measured * TWOFOLD, (shown, measured)
    await talk.end()


async def test_figures_have_a_graph_and_diagnostics_can_be_copied(
    shared_echo: ServerProcess, open_chromium: OpenChromium, tmp_path: Path
) -> None:
    microphone = write_microphone(tmp_path / "mic.wav", silence(0.5), chatter(30), pad_s=0)
    chromium = await open_chromium(shared_echo, microphone)
    talk = TalkPage(await chromium.open())
    await talk.persona.fill("You keep secrets.")
    await talk.start()
    await talk.page.locator("#latency summary").click()
    for figure in ("mouthToEar", "roundTrip", "jitterDelay", "lossUp", "lossDown", "tick"):
        row = talk.page.get_by_test_id(f"figure-{figure}")
        await expect(row.locator("dd")).to_have_text(re.compile(r"\d"))
        await expect(row.locator("path")).to_have_attribute("d", re.compile(r"M.*L"))
    await chromium.context.grant_permissions(["microphone", "clipboard-read", "clipboard-write"], origin=chromium.url)
    await talk.page.get_by_role("button", name="Copy diagnostics").click()
    await expect(talk.page.locator("#diagnostics-told")).to_contain_text("Copied")
    copied = await talk.page.evaluate("navigator.clipboard.readText()")
    described = json.loads(copied)
    assert described["path"]["local"] in ("host", "prflx") and described["path"]["protocol"] == "udp"
    assert described["received"]["packets"] > 0 and described["last_minute"]["tick"]["median"] > 0
    assert described["call"]["persona_chars"] == len("You keep secrets.") and "secrets" not in copied
    assert "session.ready" in [note["what"] for note in described["events"]]
    await talk.end()
    await expect(talk.page.get_by_test_id("figure-tick").locator("dd")).to_have_text(re.compile(r"\d"))


async def test_a_call_that_failed_can_be_described_without_a_clipboard(
    shared_echo: ServerProcess, open_chromium: OpenChromium, tmp_path: Path
) -> None:
    microphone = write_microphone(tmp_path / "mic.wav", silence(1))
    talk = TalkPage(await (await open_chromium(shared_echo, microphone, allowed=False)).open())
    await talk.page.add_init_script("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    await talk.page.reload()
    await talk.call.click()
    await talk.wait_state("failed")
    await talk.page.locator("#latency summary").click()
    await talk.page.get_by_role("button", name="Copy diagnostics").click()
    box = talk.page.locator("#diagnostics-text")
    await expect(box).to_be_focused()
    described = json.loads(await box.input_value())
    assert any(note["what"].startswith("problem microphone_denied") for note in described["events"])


async def parts_shown(talk: TalkPage) -> dict[str, str]:
    """What the page lists under its figure, all of it from one moment."""
    parts: list[list[str]] = await talk.page.locator("#latency-parts > div").evaluate_all(
        "parts => parts.map(({ children }) => [...children].map(({ textContent }) => textContent))"
    )
    return dict(parts)


def of_browser_ms(parts: dict[str, str]) -> float:
    return milliseconds(parts["Jitter buffer, browser"]) + milliseconds(parts["Sound device"])


def milliseconds(text: str) -> float:
    found = re.search(r"([\d.]+) ms", text)
    assert found, text
    return float(found[1])


async def bench(url: str) -> float:
    """Mouth to ear in milliseconds, as the README's command measures it on the same server."""
    command = ["-m", "rtc_server", "bench", "latency", "--url", url, "--json", "--seconds", str(BENCH_S)]
    command += ["--repeat", "1", "--connects", "0", "--client-cpu", "none"]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, error = await process.communicate()
    assert process.returncode == 0, error.decode()
    figures = json.loads(out.splitlines()[0])
    return float(figures["m2e_p50_ms"])
