"""Firefox ESR over WebDriver BiDi, through aiohttp alone: Debian ships no geckodriver."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.e2e.listen import EAR_JS

EXECUTABLE = shutil.which("firefox-esr")
START_WITHIN_S = 40.0
ANSWER_WITHIN_S = 30.0
_PREFS: dict[str, Any] = {
    "media.navigator.streams.fake": True,  # a tone
    "media.navigator.permission.disabled": True,  # the person says yes
    "media.peerconnection.ice.obfuscate_host_addresses": False,
    "app.update.enabled": False,
    "browser.aboutwelcome.enabled": False,
    "browser.shell.checkDefaultBrowser": False,
    "datareporting.policy.dataSubmissionEnabled": False,
    "extensions.getAddons.cache.enabled": False,
    "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False,
    "toolkit.telemetry.enabled": False,
}


class Firefox:
    """One tab of one browser. Commands are answered in any order; logged errors are kept."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.console_errors: list[str] = []
        self._socket = socket
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._reader = asyncio.create_task(self._read(), name="firefox-bidi")
        self._tab = ""

    async def start(self) -> None:
        await self._command("session.new", capabilities={})
        await self._command("session.subscribe", events=["log.entryAdded"])
        await self.before_each_page(EAR_JS)
        self._tab = (await self._command("browsingContext.getTree"))["contexts"][0]["context"]

    async def open(self, url: str) -> None:
        await self._command("browsingContext.navigate", context=self._tab, url=url, wait="complete")

    async def before_each_page(self, script: str) -> None:
        """To be run before the page's own scripts, from the next page on."""
        await self._command("script.addPreloadScript", functionDeclaration=f"() => {{ {script} }}")

    async def reload(self) -> None:
        await self._command("browsingContext.reload", context=self._tab, wait="complete")

    async def evaluate(self, expression: str) -> Any:
        """The value of an expression or promise, through JSON. No user gesture."""
        answer = await self._command(
            "script.evaluate",
            expression=f"(async () => JSON.stringify((await ({expression})) ?? null))()",
            target={"context": self._tab},
            awaitPromise=True,
        )
        if answer["type"] != "success":
            raise AssertionError(f"{expression[:80]} threw {answer['exceptionDetails']['text']}")
        return json.loads(answer["result"]["value"])

    async def click(self, selector: str) -> None:
        """A real click in the middle of the first element that fits, once it stands still."""
        await self.wait_until(
            f"""(async () => {{
                const element = document.querySelector({json.dumps(selector)});
                element.scrollIntoView({{ block: 'nearest' }});
                const place = () => JSON.stringify(element.getBoundingClientRect());
                const before = place();
                await new Promise((resolve) => setTimeout(resolve, 100));
                return before === place();
            }})()"""
        )
        locator = {"type": "css", "value": selector}
        nodes = (await self._command("browsingContext.locateNodes", context=self._tab, locator=locator))["nodes"]
        assert nodes, f"Firefox: nothing fits {selector}"
        element = {"type": "element", "element": {"sharedId": nodes[0]["sharedId"]}}
        actions = [
            {"type": "pointerMove", "x": 0, "y": 0, "origin": element},
            {"type": "pointerDown", "button": 0},
            {"type": "pointerUp", "button": 0},
        ]
        pointer = {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": actions}
        await self._command("input.performActions", context=self._tab, actions=[pointer])

    async def wait_until(self, condition: str, within_s: float = 15.0) -> None:
        """Until an expression is true."""
        deadline = asyncio.get_running_loop().time() + within_s
        while not await self.evaluate(condition):
            if asyncio.get_running_loop().time() > deadline:
                shown = await self.evaluate(
                    "document.body.dataset.state + ': ' + document.querySelector('main').innerText"
                )
                raise AssertionError(f"Firefox: not true within {within_s} s: {condition}; the page: {shown}")
            await asyncio.sleep(0.1)

    async def close(self) -> None:
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)
        await self._socket.close()

    async def _command(self, method: str, **params: Any) -> Any:
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": params})
        return await asyncio.wait_for(answer, ANSWER_WITHIN_S)

    async def _read(self) -> None:
        async for message in self._socket:
            answer = json.loads(message.data)
            if answer["type"] == "event":
                entry = answer["params"]
                if answer["method"] == "log.entryAdded" and entry["level"] == "error":
                    self.console_errors.append(f"{entry['text']} ({entry.get('source', {}).get('realm')})")
                continue
            waiting = self._waiting.pop(answer["id"], None)
            if waiting is None or waiting.done():
                continue
            if answer["type"] == "error":
                waiting.set_exception(AssertionError(f"Firefox: {answer['error']}: {answer['message']}"))
            else:
                waiting.set_result(answer["result"])


@contextlib.asynccontextmanager
async def running_firefox(profile: Path, prefs: dict[str, Any] | None = None) -> AsyncIterator[Firefox]:
    """A browser with a profile and a debugging port of its own; at the end its pages have logged no error."""
    if EXECUTABLE is None:
        pytest.skip("no Firefox here: apt-get install firefox-esr")
    process = _launch(EXECUTABLE, profile, _PREFS | (prefs or {}))
    try:
        address = await _debugging_address(profile)
        async with aiohttp.ClientSession() as http:
            firefox = Firefox(await http.ws_connect(f"ws://{address}/session", max_msg_size=1 << 28))
            try:
                await firefox.start()
                yield firefox
                await firefox.evaluate("window.rtc?.client?.close()")
            finally:
                await firefox.close()
        assert not firefox.console_errors, f"the page misbehaved: {firefox.console_errors}"
    finally:
        process.terminate()
        try:
            await asyncio.to_thread(process.wait, 10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(profile, ignore_errors=True)


def _launch(executable: str, profile: Path, prefs: dict[str, Any]) -> subprocess.Popen[bytes]:
    profile.mkdir()
    lines = (f"user_pref({json.dumps(key)}, {json.dumps(value)});" for key, value in prefs.items())
    (profile / "user.js").write_text("\n".join(lines))
    command = [executable, "--headless", "--no-remote", "--profile", str(profile)]
    command += ["--remote-debugging-port", "0", "about:blank"]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


async def _debugging_address(profile: Path) -> str:
    deadline = asyncio.get_running_loop().time() + START_WITHIN_S
    while (address := _written_address(profile)) is None:
        assert asyncio.get_running_loop().time() < deadline, f"Firefox did not start within {START_WITHIN_S} s"
        await asyncio.sleep(0.1)
    return address


def _written_address(profile: Path) -> str | None:
    """Firefox writes the port that it chose into its profile."""
    try:
        server = json.loads((profile / "WebDriverBiDiServer.json").read_text())
    except (OSError, ValueError):
        return None
    return f"{server['ws_host']}:{server['ws_port']}"
