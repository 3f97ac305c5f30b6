"""Talking with devices: which microphone and speaker, through plugging and unplugging, and the microphone by keyboard.

Chromium's fake devices are three microphones and three speakers, the default among them, each microphone playing the
test's file from its start when it is opened. They can't be pulled out, so here an `enumerateDevices` that leaves some
out and a `devicechange` of our own stand for plugging; all else is the browser's.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Locator, Page, expect

from tests.e2e.conftest import OpenChromium, OpenFirefox
from tests.e2e.listen import heard_by, wait_heard
from tests.e2e.page import TalkPage
from tests.e2e.server import ServerProcess
from tests.e2e.speech import chatter, silence, write_microphone

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(90, method="signal")]

OTHER = "Fake Audio Input 2"
BOX = "Fake Audio Output 1"
PLUGS_JS = """(() => {
  const devices = navigator.mediaDevices;
  if (!devices) return;
  const all = devices.enumerateDevices.bind(devices);
  const unplugged = new Set();
  devices.enumerateDevices = async () => (await all()).filter(({ label }) => !unplugged.has(label));
  window.plug = (label, isIn) => {
    if (isIn) unplugged.delete(label);
    else unplugged.add(label);
    devices.dispatchEvent(new Event('devicechange'));
  };
})()"""


def picker(page: Page, which: str) -> Locator:
    return page.get_by_role("combobox", name=which, exact=True)


async def chosen(page: Page, which: str) -> str:
    """What a picker shows."""
    shown: str = await picker(page, which).evaluate("select => select.selectedOptions[0].text")
    return shown


async def microphones(page: Page) -> list[list[Any]]:
    """Each microphone that was opened, with whether it still is."""
    opened: list[list[Any]] = await page.evaluate(
        """() => {
            return ear.microphones.map(({ label, readyState }) => [label, readyState === 'live']);
        }"""
    )
    return opened


async def test_another_microphone_takes_over_in_the_middle_of_a_call_and_is_remembered(
    shared_echo: ServerProcess, open_chromium: OpenChromium, tmp_path: Path
) -> None:
    """The file holds speech only at its start: what is heard after the silence is the other microphone."""
    microphone = write_microphone(tmp_path / "microphone.wav", silence(0.5), chatter(2))
    talk = TalkPage(await (await open_chromium(shared_echo, microphone)).open())
    page = talk.page
    microphones_picker = picker(page, "Microphone")
    names = ["Fake Default Audio Input", "Fake Audio Input 1", "Fake Audio Input 2"]
    await expect(microphones_picker.locator("option")).to_have_text(names)
    await talk.start()
    session = await page.evaluate("rtc.client.sessionId")
    await wait_heard(page, sound=True, since_s=0)
    await wait_heard(page, sound=False)
    silent_s = (await heard_by(page)).end_s
    await microphones_picker.select_option(label=OTHER)
    await wait_heard(page, sound=True, since_s=silent_s)

    opened = await microphones(page)
    assert [is_open for _, is_open in opened] == [False, True]
    assert opened[-1][0] == OTHER
    assert await page.evaluate("rtc.client.sessionId") == session
    assert await page.evaluate("ear.peers.length") == 1
    assert await shared_echo.slots_in_use() == 1
    await expect(talk.error).to_be_empty()
    await talk.end()

    await page.reload()
    await expect(microphones_picker.locator("option")).to_have_count(3)
    assert await chosen(page, "Microphone") == OTHER
    await talk.start()
    assert await microphones(page) == [[OTHER, True]]
    await talk.end()


async def test_a_device_that_is_pulled_out_gives_way_to_the_default_and_is_used_again_when_it_is_back(
    shared_echo: ServerProcess, open_chromium: OpenChromium, tmp_path: Path
) -> None:
    microphone = write_microphone(tmp_path / "microphone.wav", chatter(20), pad_s=0)
    chromium = await open_chromium(shared_echo, microphone)
    await chromium.context.add_init_script(PLUGS_JS)
    talk = TalkPage(await chromium.open())
    page, told = talk.page, talk.page.locator("#devices-told")
    sink = "document.querySelector('audio').sinkId"
    await picker(page, "Microphone").select_option(label=OTHER)
    await picker(page, "Speaker").select_option(label=BOX)
    await talk.start()
    box = await picker(page, "Speaker").input_value()
    assert box and await page.evaluate(sink) == box
    assert await microphones(page) == [[OTHER, True]]

    await page.evaluate("label => plug(label, false)", OTHER)
    await expect(told).to_have_text(f"{OTHER} is gone: the default is used until it is back.")
    assert await chosen(page, "Microphone") == "Fake Default Audio Input"
    assert [is_open for _, is_open in await microphones(page)] == [False, True]
    assert (await microphones(page))[1][0] == "Fake Default Audio Input"
    await page.evaluate("label => plug(label, true)", OTHER)
    await expect(told).to_have_text(f"{OTHER} is back and in use.")
    assert await chosen(page, "Microphone") == OTHER
    assert (await microphones(page))[2:] == [[OTHER, True]]

    await page.evaluate("label => plug(label, false)", BOX)
    await expect(told).to_have_text(f"{BOX} is gone: the default is used until it is back.")
    assert await page.evaluate(sink) == ""
    await page.evaluate("label => plug(label, true)", BOX)
    await expect(told).to_have_text(f"{BOX} is back and in use.")
    assert await page.evaluate(sink) == box
    await wait_heard(page, sound=True)
    await talk.end()


async def test_before_the_microphone_is_allowed_a_button_stands_for_the_pickers(
    shared_echo: ServerProcess, open_chromium: OpenChromium, tmp_path: Path
) -> None:
    microphone = write_microphone(tmp_path / "microphone.wav", silence(1))
    chromium = await open_chromium(shared_echo, microphone, allowed=False)
    page = await chromium.open()
    ask = page.get_by_role("button", name="Choose microphone and speaker")
    await expect(picker(page, "Microphone")).to_be_hidden()
    await ask.click()
    await expect(page.locator("#devices-told")).to_contain_text("The microphone is blocked")
    await chromium.context.grant_permissions(["microphone"], origin=shared_echo.url)
    await ask.click()
    await expect(ask).to_be_hidden()
    await expect(picker(page, "Microphone")).to_be_focused()
    await expect(picker(page, "Speaker")).to_be_visible()
    assert [is_open for _, is_open in await microphones(page)] == [False]
    assert await shared_echo.slots_in_use() == 0


CHOOSER_JS = """(() => {
  const devices = navigator.mediaDevices;
  if (!devices) return;
  window.answers = [];
  devices.selectAudioOutput = async () => {
    const label = answers.shift();
    const found = (await devices.enumerateDevices()).find((device) => device.label === label);
    if (found) return found;
    throw new DOMException('', 'NotAllowedError');
  };
})()"""
"""A list of speakers of the browser's own, as Firefox has one: it gives what is in `answers`, or nothing."""


async def test_speakers_are_offered_as_the_browser_can_use_them(
    shared_echo: ServerProcess, open_chromium: OpenChromium, tmp_path: Path
) -> None:
    microphone = write_microphone(tmp_path / "microphone.wav", silence(1))
    chromium = await open_chromium(shared_echo, microphone)
    page = await chromium.open()
    speakers, told = picker(page, "Speaker"), page.locator("#devices-told")
    await expect(speakers).to_be_visible()
    await expect(speakers.get_by_role("option", name="Choose a speaker…")).to_have_count(0)

    await page.add_init_script(CHOOSER_JS)
    await page.reload()
    await speakers.select_option(label="Choose a speaker…")
    await expect(told).to_have_text("No speaker was chosen, and the sound goes where it went.")
    assert await chosen(page, "Speaker") == "Fake Default Audio Output"
    await page.evaluate("label => void answers.push(label)", BOX)
    await speakers.select_option(label="Choose a speaker…")
    await expect(page.locator("audio")).not_to_have_js_property("sinkId", "")
    assert await chosen(page, "Speaker") == BOX
    await expect(told).to_be_empty()

    await page.add_init_script("delete HTMLMediaElement.prototype.setSinkId")
    await page.reload()
    await expect(picker(page, "Microphone")).to_be_visible()
    await expect(speakers).to_be_hidden()


FORGETFUL_JS = """(() => {
  const devices = navigator.mediaDevices;
  if (!devices) return;
  const all = devices.enumerateDevices.bind(devices);
  const given = new Set();
  Object.assign(window, { asked: [], person: 'agrees' });
  devices.enumerateDevices = async () =>
    (await all()).filter(({ kind, deviceId }) => kind !== 'audiooutput' || given.has(deviceId));
  devices.selectAudioOutput = async ({ deviceId = '' } = {}) => {
    asked.push(deviceId);
    if (!navigator.userActivation.isActive) throw new DOMException('', 'InvalidStateError');
    if (person === 'hesitates') await new Promise(() => {});
    const wanted = (device) => (deviceId ? device.deviceId === deviceId : device.label === 'Fake Audio Output 1');
    const found = (await all()).find((device) => device.kind === 'audiooutput' && wanted(device));
    if (!found || person === 'declines') throw new DOMException('', 'NotAllowedError');
    given.add(found.deviceId);
    return found;
  };
})()"""
"""As in Firefox: no speaker is listed before it was given out since the page was loaded, which needs a gesture."""


async def test_a_speaker_that_the_browser_lists_only_when_asked_for_it_is_used_again_by_the_next_visit(
    shared_echo: ServerProcess, open_chromium: OpenChromium, tmp_path: Path
) -> None:
    microphone = write_microphone(tmp_path / "microphone.wav", chatter(30), pad_s=0)
    chromium = await open_chromium(shared_echo, microphone)
    await chromium.context.add_init_script(FORGETFUL_JS)
    talk = TalkPage(await chromium.open())
    page, speakers, told = talk.page, picker(talk.page, "Speaker"), talk.page.locator("#devices-told")
    sink = "document.querySelector('audio').sinkId"
    await speakers.select_option(label="Choose a speaker…")
    await expect(page.locator("audio")).not_to_have_js_property("sinkId", "")
    box = await page.evaluate(sink)
    assert await page.evaluate("asked") == [""]

    await page.reload()
    await expect(speakers).to_be_visible()
    assert await chosen(page, "Speaker") == "Default speaker"
    await talk.start()
    assert await page.evaluate("asked") == [box]
    await expect(page.locator("audio")).to_have_js_property("sinkId", box)
    assert await chosen(page, "Speaker") == BOX
    await expect(told).to_have_text(f"{BOX} is back and in use.")
    await wait_heard(page, sound=True)
    await talk.end()
    await talk.start()
    assert await page.evaluate("asked") == [box], "it is listed now"
    assert await page.evaluate(sink) == box
    await talk.end()

    for person in ("declines", "hesitates"):
        await page.reload()
        await expect(speakers).to_be_visible()
        await page.evaluate("person => void Object.assign(window, { person })", person)
        await talk.start()
        assert await page.evaluate(sink) == ""
        if person == "declines":
            await expect(told).to_contain_text(f"did not give {BOX} back")
            await expect(told).to_contain_text("choose it again")
        await talk.end()
        await talk.start()
        assert await page.evaluate("asked") == [box], "once is enough"
        await talk.end()
    await page.evaluate("void (person = 'agrees')")
    await speakers.select_option(label="Choose a speaker…")
    await expect(page.locator("audio")).to_have_js_property("sinkId", box)


async def test_space_held_mutes_who_is_open_and_opens_who_is_muted(
    shared_echo: ServerProcess, open_chromium: OpenChromium, tmp_path: Path
) -> None:
    microphone = write_microphone(tmp_path / "microphone.wav", silence(0.5), chatter(60), pad_s=0)
    talk = TalkPage(await (await open_chromium(shared_echo, microphone)).open())
    page, keyboard, hint = talk.page, talk.page.keyboard, talk.page.locator("#keys-hint")
    await talk.start()
    await expect(hint).to_have_text("M mutes. Hold Space to mute for a moment.")
    await wait_heard(page, sound=True)
    await keyboard.down(" ")
    await expect(talk.mute).to_have_attribute("aria-pressed", "true")
    await wait_heard(page, sound=False)
    await keyboard.up(" ")
    await expect(talk.mute).to_have_attribute("aria-pressed", "false")

    await keyboard.press("m")
    await expect(hint).to_have_text("M unmutes. Hold Space to talk.")
    await keyboard.down(" ")
    await expect(talk.mute).to_have_attribute("aria-pressed", "false")
    await wait_heard(page, sound=True)
    await keyboard.up(" ")
    await expect(talk.mute).to_have_attribute("aria-pressed", "true")

    await picker(page, "Microphone").focus()
    for key in ("m", " ", "Escape"):
        await keyboard.press(key)
    await expect(talk.mute).to_have_attribute("aria-pressed", "true")
    await talk.mute.focus()
    await keyboard.press(" ")  # presses the button
    await expect(talk.mute).to_have_attribute("aria-pressed", "false")
    await talk.wait_live()
    await talk.end()


async def test_whoever_turns_to_another_tab_with_space_held_is_muted_until_they_are_back(
    shared_echo: ServerProcess, open_chromium: OpenChromium, tmp_path: Path
) -> None:
    """The key comes up where the page cannot see it."""
    microphone = write_microphone(tmp_path / "microphone.wav", silence(0.5), chatter(60), pad_s=0)
    chromium = await open_chromium(shared_echo, microphone)
    talk = TalkPage(await chromium.open())
    page, keyboard = talk.page, talk.page.keyboard
    devtools = await chromium.context.new_cdp_session(page)
    await devtools.send("Emulation.setFocusEmulationEnabled", {"enabled": False})  # Playwright pretends otherwise
    other = await chromium.context.new_page()
    await page.bring_to_front()
    await talk.start()

    async def go_and_come_back(for_ms: float = 0) -> None:
        """Down here, up there."""
        await keyboard.down(" ")
        await other.bring_to_front()
        await has_focus(page, False)
        await expect(talk.mute).to_have_attribute("aria-pressed", "true")
        await page.wait_for_timeout(for_ms)
        await expect(talk.mute).to_have_attribute("aria-pressed", "true")
        assert await page.evaluate("rtc.client.muted")
        await other.keyboard.up(" ")
        await page.bring_to_front()
        await has_focus(page, True)

    await go_and_come_back(for_ms=700)  # nothing opens it while nobody looks
    await expect(talk.mute).to_have_attribute("aria-pressed", "false")
    assert not await page.evaluate("rtc.client.muted")

    # The click that brings the page back is one on Unmute.
    await page.evaluate("addEventListener('focus', () => document.querySelector('#mute').click(), { once: true })")
    await go_and_come_back()
    await page.wait_for_timeout(700)
    await expect(talk.mute).to_have_attribute("aria-pressed", "false")

    await keyboard.press("m")
    await go_and_come_back()  # who was muted
    await expect(talk.mute).to_have_attribute("aria-pressed", "true")
    await expect(talk.page.locator("#hint")).to_have_text("You are muted: the agent hears silence.")

    await talk.mute.click()
    await keyboard.down(" ")
    await hide(page, True)
    await expect(talk.mute).to_have_attribute("aria-pressed", "true")
    await hide(page, False)
    await expect(talk.mute).to_have_attribute("aria-pressed", "false")
    await keyboard.up(" ")
    await expect(talk.mute).to_have_attribute("aria-pressed", "false")
    await talk.end()


async def has_focus(page: Page, wanted: bool) -> None:
    async with asyncio.timeout(15):
        while await page.evaluate("document.hasFocus()") != wanted:
            await asyncio.sleep(0.05)


async def hide(page: Page, is_hidden: bool) -> None:
    """A browser without a window hides no page, so this tells it that it is hidden."""
    await page.evaluate(
        """isHidden => {
            const values = { hidden: isHidden, visibilityState: isHidden ? 'hidden' : 'visible' };
            for (const [name, value] of Object.entries(values))
                Object.defineProperty(document, name, { value, configurable: true });
            document.dispatchEvent(new Event('visibilitychange'));
        }""",
        is_hidden,
    )


async def test_firefox_shows_the_pickers_it_has_devices_for(
    shared_echo: ServerProcess, open_firefox: OpenFirefox
) -> None:
    """It tells names only of devices that the person has allowed; speakers are in a list of its own."""
    firefox = await open_firefox()
    await firefox.open(shared_echo.url)
    assert await firefox.evaluate("document.querySelector('#speaker').offsetParent === null")
    await firefox.click("#call")
    await firefox.wait_until("document.body.dataset.phase === 'live'")
    await firefox.wait_until("document.querySelector('#microphone').offsetParent !== null")
    speakers = await firefox.evaluate("[...document.querySelector('#speaker').options].map(({ text }) => text)")
    assert speakers[0] == "Default speaker" and speakers[-1] == "Choose a speaker…"
    assert await firefox.evaluate("document.querySelector('#speaker').offsetParent !== null")
    # Firefox would open its list, where the machine has a speaker; this is what it answers where there is none.
    await firefox.evaluate(
        """(() => {
            const picker = document.querySelector('#speaker');
            const nothing = async () => { throw new DOMException('', 'NotFoundError'); };
            navigator.mediaDevices.selectAudioOutput = nothing;
            picker.selectedIndex = picker.length - 1;
            picker.dispatchEvent(new Event('change'));
        })()"""
    )
    await firefox.wait_until("document.querySelector('#devices-told').textContent.includes('no speaker to choose')")
    used = "[document.querySelector('#speaker').value, document.querySelector('audio').sinkId]"
    assert await firefox.evaluate(used) == ["", ""]
    assert await firefox.evaluate("document.querySelector('#devices-ask').hidden")
    names = await firefox.evaluate("[...document.querySelector('#microphone').options].map(({ text }) => text)")
    assert len(names) > 1 and all(names)

    await firefox.evaluate(
        """(() => {
            const picker = document.querySelector('#microphone');
            picker.selectedIndex = 1;
            picker.dispatchEvent(new Event('change'));
        })()"""
    )
    await firefox.wait_until("ear.microphones.map(({ readyState }) => readyState).join() === 'ended,live'")
    before = await firefox.evaluate("ear.stats()")
    await firefox.wait_until(
        f"""(async () => (await ear.stats())['outbound-rtp'].packetsSent >
            {before["outbound-rtp"]["packetsSent"]} + 50)()"""
    )
    assert await firefox.evaluate("document.body.dataset.phase") == "live"
    await firefox.click("#call")
    await firefox.wait_until("document.body.dataset.state === 'ended'")
