"""How far from the sound that was sent is what the engine hears, by what repairs the losses."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from rtc_server.bench.alignment import align
from rtc_server.bench.quality import log_spectral_distance_db
from rtc_server.media.concealment import AudioDecoder
from rtc_server.media.frames import SAMPLES_PER_MS, FloatSamples
from rtc_server.media.jitterbuffer import JitterBuffer
from rtc_server.media.opus import OpusDecoder
from tests.media.calls import Call, call
from tests.media.network import Network
from tests.media.speech import decoded, encoded, talk

SECONDS = 30.0
LOSSY = Network(loss=0.1, jitter_ms=60.0)
REPAIRS: dict[str, tuple[bool, int]] = {"silence": (False, 0), "PLC": (False, 0), "FEC": (True, 0), "RED": (False, 1)}
"""In-band FEC, copies in each packet."""
MOST_DELAY = 500 * SAMPLES_PER_MS


class Mute(OpusDecoder):
    """Knows no concealment."""

    def conceal(self, n_samples: int) -> FloatSamples:
        return np.zeros(n_samples, np.float32)


@functools.cache
def packets(fec: bool) -> tuple[list[bytes], FloatSamples]:
    payloads = encoded(talk(SECONDS), fec=fec)
    return payloads, decoded(payloads)


def distance_db(running: Call, clean: FloatSamples) -> float:
    heard = running.pcm
    return log_spectral_distance_db(align(clean, heard, -MOST_DELAY, MOST_DELAY).reference(clean), heard)


@functools.cache
def lossy_distance_db(repair: str) -> float:
    """Mean of two calls."""
    fec, copies = REPAIRS[repair]
    payloads, clean = packets(fec)
    decoder: type[AudioDecoder] = Mute if repair == "silence" else OpusDecoder
    calls = [
        call(payloads, LOSSY, seed=seed, phase_s=phase_s, copies=copies, buffer=JitterBuffer(decoder))
        for seed, phase_s in enumerate((0.012, 0.047))
    ]
    return float(np.mean([distance_db(running, clean) for running in calls]))


def test_clean_path_has_no_distance() -> None:
    payloads, clean = packets(True)
    assert distance_db(call(payloads, Network()), clean) < 0.02


def test_jitter_alone_costs_little() -> None:
    payloads, clean = packets(True)
    assert distance_db(call(payloads, Network(jitter_ms=60.0), seed=1), clean) < 0.4


@pytest.mark.parametrize(("repair", "most_db"), [("FEC", 1.4), ("RED", 0.5)])
def test_distance_at_ten_percent_loss_and_jitter(repair: str, most_db: float) -> None:
    assert lossy_distance_db(repair) <= most_db


def test_each_repair_is_clearly_better_than_the_one_before() -> None:
    silence, plc, fec, red = (lossy_distance_db(repair) for repair in REPAIRS)
    assert plc < 0.8 * silence
    assert fec < 0.85 * plc
    assert red < 0.5 * fec
