from __future__ import annotations

import numpy as np
import pytest

from rtc_server.media.audioformat import AudioFormat, CodecName
from rtc_server.media.codecs import AudioEncoder, make_decoder, make_encoder
from rtc_server.media.concealment import AudioDecoder
from rtc_server.media.jitterbuffer import JitterBuffer
from tests.media.speech import speech

FORMATS = {
    "opus": AudioFormat("opus", 111, 48_000),
    "PCMU": AudioFormat("PCMU", 0, 8_000),
    "PCMA": AudioFormat("PCMA", 8, 8_000),
    "G722": AudioFormat("G722", 9, 8_000),
}


@pytest.mark.parametrize("codec", FORMATS)
def test_each_codec_says_20_ms_and_hears_them(codec: CodecName) -> None:
    encoder: AudioEncoder = make_encoder(FORMATS[codec])
    decoder: AudioDecoder = make_decoder(FORMATS[codec])
    for at in range(0, 24_000, 480):
        encoder.follow(at // 2400, 24_000)
        payload = encoder.encode(speech()[at : at + 480])
        assert decoder.duration_samples(payload) == 480
        assert decoder.decode(payload).shape == (480,)
    assert decoder.conceal(480).size >= 480
    decoder.reset()


@pytest.mark.parametrize("codec", FORMATS)
def test_only_opus_leaves_pauses_out(codec: CodecName) -> None:
    encoder = make_encoder(FORMATS[codec], dtx=True)
    payloads = [encoder.encode(np.zeros(480, np.float32)) for _ in range(100)]
    empty = sum(not payload for payload in payloads)
    assert empty > 50 if codec == "opus" else not empty


@pytest.mark.parametrize("codec", FORMATS)
def test_jitter_buffer_of_the_codec_and_its_clock_gives_the_speech_back(codec: CodecName) -> None:
    audio, pcm = FORMATS[codec], speech()
    encoder = make_encoder(audio)
    buffer = JitterBuffer(lambda: make_decoder(audio), audio.clock_hz)
    frames = []
    for slot in range(pcm.size // 480):
        payload = encoder.encode(pcm[slot * 480 : slot * 480 + 480])
        buffer.put(slot * 0.02, slot, slot * audio.clock_hz // 50, payload, 7)
        if slot % 4 == 3:
            frames.append(buffer.take(slot * 0.02 + 0.01))
    heard = np.concatenate(frames)
    assert buffer.counters.lost_samples == buffer.counters.late == 0
    assert np.sqrt(np.mean(heard**2)) == pytest.approx(np.sqrt(np.mean(pcm**2)), rel=0.15)


@pytest.mark.parametrize(("codec", "delay_samples"), [("PCMU", 192), ("PCMA", 192), ("G722", 129)])
def test_delay_of_encoder_and_decoder_together_is_known(codec: CodecName, delay_samples: int) -> None:
    """At 24 kHz: 8 ms, or 5.4 ms."""
    encoder, decoder = make_encoder(FORMATS[codec]), make_decoder(FORMATS[codec])
    said = speech()[: 24_000 * 3]
    heard = np.concatenate([decoder.decode(encoder.encode(said[at : at + 480])) for at in range(0, said.size, 480)])
    alike = [float(heard[late:] @ said[: said.size - late]) for late in range(300)]
    assert int(np.argmax(alike)) == delay_samples


def test_bitrate_is_the_peers() -> None:
    narrow = make_encoder(AudioFormat("opus", 111, 48_000, max_bitrate_bps=12_000))
    payloads = [narrow.encode(speech()[at : at + 480]) for at in range(0, 48_000, 480)]
    assert np.mean([len(payload) for payload in payloads]) < 12_000 / 8 / 50 * 1.2
