"""Every message that a person can meet, provoked: it says what happened and what to do, and the page can call again.

What the server itself can be brought to say in a moment is in the other files (full, stopping, replaced, too late);
here its answers and its last words are put into its mouth, and the browser's refusals into the browser's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from playwright.async_api import Route, expect

from tests.e2e.chromium import Chromium
from tests.e2e.conftest import OpenChromium, Serve
from tests.e2e.page import LIVE_STATES, TalkPage
from tests.e2e.server import ServerProcess
from tests.e2e.speech import chatter, silence, write_microphone

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120, method="signal")]

ACTION = re.compile(
    r"\b(press|try|open|check|choose|wait|reload|start|use|allow|connect|close|click|tap|speak|say|look)\b", re.I
)
"""What to do begins with one of these."""

REFUSALS = {
    "engine_full": (503, "Everyone is talking"),
    "engine_draining": (503, "The server is going down"),
    "engine_unavailable": (503, "The agent is not available"),
    "too_many_half_open": (503, "Too many calls are starting"),
    "unauthorized": (401, "A key is needed"),
    "forbidden_origin": (403, "The server does not accept this page"),
    "unknown_voice": (422, "The agent does not have this voice"),
    "something_new": (400, "That did not work"),
}
MICROPHONES = {
    ("NotReadableError", "Device in use"): "The microphone is in use",
    ("NotAllowedError", "Permission denied by system"): "Your system blocks the microphone",
    ("NotFoundError", ""): "No microphone found",
    ("TypeError", ""): "The microphone did not start",
}
EXPECTED = ("idle", "time_limit")
"""Nothing has gone wrong: a hint, and no message."""
CALLED_AGAIN = ("engine_failed", "engine_lost", "server_stopping", "internal_error")
"""The page makes a new call by itself, unless it is told not to."""
LAST_WORDS = {
    "idle": "Nothing was heard for five minutes",
    "time_limit": "The server allows calls of this length",
    "peer_silent": "The connection broke",
    "engine_failed": "The agent is gone",
    "engine_lost": "The agent is gone",
    "server_stopping": "The server goes down",
    "internal_error": "The server ended the call",
    "replaced": "The call went elsewhere",
    "solar_flare": "solar flare",
}
REMEMBER_CHANNELS = """
    window.channels = [];
    const create = RTCPeerConnection.prototype.createDataChannel;
    RTCPeerConnection.prototype.createDataChannel = function (...options) {
        const channel = create.apply(this, options);
        if (options[0] === 'events') channels.push(channel);
        return channel;
    };
"""


@pytest.fixture
def microphone(tmp_path: Path) -> Path:
    return write_microphone(tmp_path / "mic.wav", silence(0.5), chatter(30), pad_s=0)


async def test_what_the_server_refuses_with(
    shared_echo: ServerProcess, open_chromium: OpenChromium, microphone: Path
) -> None:
    chromium = await open_chromium(shared_echo, microphone)
    chromium.expected_errors.append("Failed to load resource")
    talk = TalkPage(await chromium.open())
    for code, (status, title) in REFUSALS.items():
        await talk.page.route("**/v1/sessions", refusing(status, code))
        await talk.call.click()
        await reads_well(talk, title)
        await talk.page.unroute("**/v1/sessions")
    await talk.page.route("**/v1/sessions", lambda route: route.abort())
    await talk.call.click()
    await reads_well(talk, "The server does not answer")
    await talk.page.unroute("**/v1/sessions")
    await talk.page.route("**/v1/sessions", lambda route: route.fulfill(status=200, body="<html>a proxy's</html>"))
    await talk.call.click()
    await reads_well(talk, "This is not the server that was expected")
    await talk.page.unroute("**/v1/sessions")
    await talk.start()
    await expect(talk.error).to_be_empty()
    await talk.end()


async def test_what_the_browser_refuses_with(
    shared_echo: ServerProcess, open_chromium: OpenChromium, microphone: Path
) -> None:
    chromium = await open_chromium(shared_echo, microphone)
    talk = TalkPage(await chromium.open())
    await talk.page.evaluate("void (window.original = navigator.mediaDevices.getUserMedia)")
    for (name, message), title in MICROPHONES.items():
        refusal = f"new DOMException({json.dumps(message)}, {json.dumps(name)})"
        await talk.page.evaluate(f"void (navigator.mediaDevices.getUserMedia = async () => {{ throw {refusal}; }})")
        await talk.call.click()
        await reads_well(talk, title)
    await talk.page.evaluate("void (navigator.mediaDevices.getUserMedia = original)")
    await talk.start()
    await talk.end()
    await talk.page.evaluate(
        "void (HTMLMediaElement.prototype.play = async () => { throw new DOMException('', 'NotAllowedError'); })"
    )
    await talk.call.click()
    await talk.expect_error("The browser holds back the sound")
    await talk.page.evaluate("void (HTMLMediaElement.prototype.play = async () => {})")
    await talk.status.click()
    await expect(talk.error).to_be_empty()
    await talk.end()


async def test_a_browser_that_does_not_record_says_so_and_the_call_goes_on(
    shared_echo: ServerProcess, open_chromium: OpenChromium, microphone: Path
) -> None:
    talk = TalkPage(await (await open_chromium(shared_echo, microphone)).open())
    await talk.page.evaluate(
        "void (MediaRecorder.prototype.start = () => { throw new DOMException('', 'NotSupportedError'); })"
    )
    await talk.start()
    await talk.page.locator("#record").click()
    await reads_well(talk, "This browser does not record", state=LIVE_STATES)
    await expect(talk.page.locator("#record")).to_have_attribute("aria-pressed", "false")
    await talk.end()


async def test_a_browser_without_webrtc_is_told_at_once(
    shared_echo: ServerProcess, open_chromium: OpenChromium
) -> None:
    chromium = await open_chromium(shared_echo)
    await chromium.context.add_init_script("delete window.RTCPeerConnection")
    talk = TalkPage(await chromium.open())
    await reads_well(talk, "This browser cannot make calls", state="ready")


async def test_a_network_without_a_way_for_sound(
    shared_echo: ServerProcess, open_chromium: OpenChromium, microphone: Path
) -> None:
    """The answer names a port where nobody is."""
    chromium = await open_chromium(shared_echo, microphone)
    chromium.expected_errors.append("status of 404")  # the server has given up by the time that the page says goodbye
    talk = TalkPage(await chromium.open())

    async def mislead(route: Route) -> None:
        answer = await route.fetch()
        body = await answer.json()
        body["sdp"] = re.sub(
            r"(a=candidate:\S+ 1 udp \d+) \S+ \d+", r"\1 127.0.0.1 9", body["sdp"], flags=re.IGNORECASE
        )
        body["sdp"] = re.sub(r"a=ice-pwd:\S+", "a=ice-pwd:" + "x" * 24, body["sdp"])
        await route.fulfill(response=answer, json=body)

    await talk.page.route("**/v1/sessions", mislead)
    await talk.call.click()
    await reads_well(talk, "No connection for the sound", within_ms=40_000)


async def test_each_way_in_which_a_call_ends(serve: Serve, open_chromium: OpenChromium, microphone: Path) -> None:
    # The server has not really ended these calls, and keeps each for a moment.
    server = await serve("echo", len(LAST_WORDS), "--resume-s", "1")
    chromium = await open_chromium(server, microphone)
    chromium.expected_errors.append("net::ERR_FAILED")
    talk = await open_to_be_told(chromium)
    for reason, text in LAST_WORDS.items():
        await talk.start()
        await say(talk, {"type": "session.ending", "in_s": 3, "reason": reason})
        await talk.expect_error("This call is about to end")
        if reason in CALLED_AGAIN:  # the page is to find no server that it could call
            await talk.page.route("**/v1/config", lambda route: route.abort())
        await say(talk, {"type": "session.ended", "reason": reason})
        await talk.wait_state("ended")
        if reason in CALLED_AGAIN:
            await talk.page.get_by_role("button", name="Don’t call again").click()
        if reason in EXPECTED:
            await expect(talk.error).to_be_empty()
        hint_or_error = talk.page.locator("#hint") if reason in EXPECTED else talk.error
        await expect(hint_or_error).to_be_visible()
        await expect(hint_or_error).to_contain_text(text)
        await talk.page.unroute("**/v1/config")


async def test_a_server_that_comes_back_is_called_again(
    serve: Serve, open_chromium: OpenChromium, microphone: Path
) -> None:
    server = await serve("echo", 2, "--resume-s", "1")
    chromium = await open_chromium(server, microphone)
    talk = await open_to_be_told(chromium)
    await talk.start()
    await say(talk, {"type": "session.ended", "reason": "server_stopping"})
    await talk.expect_error("makes a new call by itself")
    await talk.wait_live()
    await talk.expect_error("This is a new conversation")
    await talk.end()


async def test_a_link_whose_key_is_mangled_asks_for_the_whole_link_and_takes_it_in_the_same_tab(
    shared_echo: ServerProcess, open_chromium: OpenChromium
) -> None:
    talk = TalkPage(await (await open_chromium(shared_echo)).open("/#token=%D0%BA%D0%BB%D1%8E%D1%87"))
    await reads_well(talk, "A key is needed", state="ready")
    await talk.page.evaluate("location.hash = '#token=a-key-as-keys-are'")
    await expect(talk.engine).to_have_attribute("data-health", "free")
    await expect(talk.error).to_be_empty()
    assert "token" not in talk.page.url


async def test_a_microphone_asked_for_in_vain_is_told_again_each_time(
    shared_echo: ServerProcess, open_chromium: OpenChromium, microphone: Path
) -> None:
    talk = TalkPage(await (await open_chromium(shared_echo, microphone)).open())
    await talk.start()
    await talk.page.evaluate(
        "void (navigator.mediaDevices.getUserMedia = async () => { throw new DOMException('', 'NotFoundError'); })"
    )
    await talk.page.evaluate("ear.microphones[0].stop(); ear.microphones[0].dispatchEvent(new Event('ended'))")
    await talk.expect_error("The microphone is gone")
    for _ in range(2):
        title = await talk.error.locator("strong").element_handle()
        await talk.page.get_by_role("button", name="Use the microphone").click()
        await talk.expect_error("Still no microphone found")
        assert title is not None and not await title.evaluate("(title) => title.isConnected"), "it is read out again"
    await talk.end()


def refusing(status: int, code: str) -> Callable[[Route], Awaitable[None]]:
    """What answers an offer with this error."""
    body = {"code": code, "message": "the reason is a new one", "hint": "try it without"}

    async def refuse(route: Route) -> None:
        await route.fulfill(status=status, json=body, headers={"Retry-After": "7"})

    return refuse


async def open_to_be_told(chromium: Chromium) -> TalkPage:
    """A page to which `say` can say what only a server says."""
    await chromium.context.add_init_script(REMEMBER_CHANNELS)
    return TalkPage(await chromium.open())


async def say(talk: TalkPage, event: dict[str, object]) -> None:
    """As if it came from the server."""
    await talk.page.evaluate(
        "event => channels.at(-1).dispatchEvent(new MessageEvent('message', { data: JSON.stringify(event) }))", event
    )


async def reads_well(talk: TalkPage, title: str, state: str = "failed", within_ms: float = 15_000) -> None:
    await talk.wait_state(state, within_ms)
    await talk.expect_error(title)
    text = await talk.error.locator("p").inner_text()
    assert text[0].isupper() and text.rstrip().endswith((".", "…")), text
    assert ACTION.search(text), f"{title}: nothing to do in {text!r}"
    assert await talk.call.is_enabled()
