"""A page of somebody else's calls ``/api/chat`` from Chromium: the recorder, codec and policy of the official clients.

The page is not ours to look at: it is served as it is with ``--web-ui``.
"""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import numpy as np
import pytest

from tests.e2e.conftest import OpenChromium, Serve
from tests.e2e.listen import Recording, best_lag
from tests.e2e.speech import RATE_HZ, said, silence, write_microphone

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(60, method="signal")]

PAGE = Path(__file__).with_name("recorder")
DECODED_HZ = 24_000
HEARD_S = 3.5


async def test_ogg_pages_of_a_recorder_come_back_as_speech(
    serve: Serve, open_chromium: OpenChromium, tmp_path: Path
) -> None:
    if not (PAGE / "node_modules").exists():
        pytest.skip("no opus-recorder here: make peers")
    speech = said("03_barge_in", 0)[: 2 * RATE_HZ]
    microphone = write_microphone(tmp_path / "microphone.wav", silence(0.5), speech)
    server = await serve("echo", 1, "--web-ui", str(PAGE))
    page = await (await open_chromium(server, microphone)).open()

    await page.click("#talk")
    await page.wait_for_selector("body[data-state=live]")
    while await page.evaluate("caller.seconds()") < HEARD_S:
        await asyncio.sleep(0.1)
    decoded = np.frombuffer(base64.b64decode(await page.evaluate("caller.decoded()")), "<f4")
    await page.evaluate("caller.hangUp()")
    await server.wait_slots_in_use(0)

    _, fit = best_lag(Recording(speech, RATE_HZ), Recording(decoded, DECODED_HZ))
    assert fit > 0.7  # a hole of a busy machine costs some, and other words have less than 0.5
