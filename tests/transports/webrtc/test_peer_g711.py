"""Real peers without Opus over real sockets: stock aiortc that offers G.711 only."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import numpy as np
import pytest
from aiortc import MediaStreamTrack, RTCRtpSender
from aiortc.mediastreams import MediaStreamError

from rtc_server.errors import UnsupportedOffer
from tests.transports.webrtc.callers import TONE_HZ, Caller, echoing, house, let_aioice_use_loopback
from tests.transports.webrtc.waiting import eventually

pytestmark = pytest.mark.e2e

HEARD_HZ = 8000


@pytest.fixture(autouse=True)
def loopback(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    let_aioice_use_loopback(monkeypatch)
    yield


class PhoneCaller(Caller):
    """Offers only the codecs that it is told to; hears them at 8 kHz mono."""

    def __init__(self, *codecs: str) -> None:
        super().__init__()
        self.prefer(*codecs)

    def prefer(self, *codecs: str) -> None:
        """For the next offer: these and no others, in this order."""
        known = {codec.mimeType: codec for codec in RTCRtpSender.getCapabilities("audio").codecs}
        (transceiver,) = self.connection.getTransceivers()
        transceiver.setCodecPreferences([known[f"audio/{codec}"] for codec in codecs])

    @property
    def heard_samples(self) -> int:
        return sum(map(len, self.heard))

    def heard_hz(self) -> float:
        pcm = np.concatenate(self.heard)[-HEARD_HZ // 2 :]
        return float(np.argmax(np.abs(np.fft.rfft(pcm * np.hanning(pcm.size))))) * HEARD_HZ / pcm.size

    async def _listen(self, track: MediaStreamTrack) -> None:
        try:
            while True:
                frame = await track.recv()
                assert frame.sample_rate == HEARD_HZ and frame.layout.nb_channels == 1
                self.heard.append(frame.to_ndarray()[0].astype(np.float32) / 32768)
        except MediaStreamError:
            return


@pytest.mark.parametrize("codec", ["PCMU", "PCMA"])
async def test_client_without_opus_hears_its_echo(codec: str) -> None:
    async with house() as home:
        caller = PhoneCaller(codec)
        leg, handler = await home.connect(caller)
        async with echoing(leg):
            await eventually(lambda: caller.heard_samples > 2 * HEARD_HZ)
        assert caller.heard_hz() == pytest.approx(TONE_HZ, abs=5)
        assert leg.stats().loss == 0.0
        assert leg.jitter_buffer.counters.concealed_samples < 24_000
        await caller.close()
        await eventually(lambda: handler.closed == ["peer_closed"])
        home.assert_nothing_left()


async def test_the_first_g711_codec_of_the_offer_is_taken() -> None:
    async with house() as home:
        caller = PhoneCaller("PCMA", "PCMU")
        await home.connect(caller)
        (transceiver,) = caller.connection.getTransceivers()
        assert [codec.mimeType for codec in transceiver._codecs] == ["audio/PCMA"]
        await caller.close()


async def test_call_keeps_g711_though_a_later_offer_prefers_opus() -> None:
    async with house() as home:
        caller = PhoneCaller("PCMU")
        leg, handler = await home.connect(caller)
        async with echoing(leg):
            await eventually(lambda: caller.heard_samples > HEARD_HZ)
            caller.prefer("opus", "PCMU")
            await caller.answer(await leg.renegotiate(await caller.offer()))
            heard = caller.heard_samples
            await eventually(lambda: caller.heard_samples > heard + HEARD_HZ)
        assert caller.heard_hz() == pytest.approx(TONE_HZ, abs=5)
        assert not handler.closed
        await caller.close()


async def test_later_offer_without_the_codec_in_use_is_refused_and_the_call_goes_on() -> None:
    async with house() as home:
        caller = PhoneCaller("PCMU")
        leg, handler = await home.connect(caller)
        async with echoing(leg):
            await eventually(lambda: caller.heard_samples > HEARD_HZ)
            without = (await caller.offer()).replace(" 0\r\n", " 8\r\n").replace("rtpmap:0 PCMU", "rtpmap:8 PCMA")
            with pytest.raises(UnsupportedOffer, match="drops PCMU"):
                await leg.renegotiate(without)
            heard = caller.heard_samples
            await eventually(lambda: caller.heard_samples > heard + HEARD_HZ)
        assert caller.heard_hz() == pytest.approx(TONE_HZ, abs=5)
        assert not handler.closed
        await caller.close()


async def test_g711_call_is_held_and_taken_up_again() -> None:
    async with house() as home:
        caller = PhoneCaller("PCMU")
        leg, _ = await home.connect(caller)
        async with echoing(leg):
            await eventually(lambda: caller.heard_samples > HEARD_HZ)
            (transceiver,) = caller.connection.getTransceivers()
            transceiver.direction = "inactive"
            await caller.answer(await leg.renegotiate(await caller.offer()))
            assert not leg.expects_audio
            await asyncio.sleep(0.3)
            heard = caller.heard_samples
            await asyncio.sleep(0.3)
            assert caller.heard_samples - heard < HEARD_HZ / 5
            transceiver.direction = "sendrecv"
            await caller.answer(await leg.renegotiate(await caller.offer()))
            heard = caller.heard_samples
            await eventually(lambda: caller.heard_samples > heard + HEARD_HZ)
        assert caller.heard_hz() == pytest.approx(TONE_HZ, abs=5)
        await caller.close()
