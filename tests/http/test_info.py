from __future__ import annotations

from dataclasses import replace

from tests.engine.steppers import SAMPLING
from tests.http.conftest import Site


async def test_config_tells_engine_slots_and_limits(site: Site) -> None:
    await site.client.post("/v1/sessions", json={"sdp": "v=0"})
    config = await (await site.client.get("/v1/config")).json()
    assert config["engine"]["name"] == "fake"
    assert config["engine"]["voices"] == ["alto", "bass"]
    assert config["slots"] == {"total": 2, "free": 1}
    assert config["limits"]["sdp_bytes"] == 32 * 1024
    assert config["connectivity"] == {"ok": True, "message": "", "addresses": ["192.0.2.1"]}
    assert config["limits"]["max_seed"] == 2**63 - 1
    assert config["engine"]["sampling"] is None and config["engine"]["voice_samples"] == {}
    assert config["auth"] is False


async def test_config_tells_what_of_the_sampling_can_be_chosen(site: Site) -> None:
    site.house.engine.spec = replace(site.house.engine.spec, sampling=SAMPLING)
    config = await (await site.client.get("/v1/config")).json()
    assert config["engine"]["sampling"] == {
        "audio_temperature": {"default": 0.8, "min": 0, "max": 10},
        "audio_top_k": {"default": 250, "min": 1, "max": 250},
        "text_temperature": {"default": 0.7, "min": 0, "max": 10},
        "text_top_k": {"default": 25, "min": 1, "max": 250},
    }


async def test_voices_mark_the_default(site: Site) -> None:
    voices = await (await site.client.get("/v1/voices")).json()
    assert voices == {
        "voices": [
            {"name": "alto", "default": True, "sample": None},
            {"name": "bass", "default": False, "sample": None},
        ]
    }


async def test_health_is_always_ok_and_readiness_follows_the_engine(site: Site) -> None:
    assert await (await site.client.get("/health")).json() == {"status": "ok"}
    assert (await site.client.get("/readyz")).status == 200
    site.house.engine.ready = False
    assert (await site.client.get("/readyz")).status == 503
    assert (await site.client.get("/health")).status == 200
    assert (await site.client.get("/livez")).status == 200


async def test_draining_server_is_not_ready(site: Site) -> None:
    site.house.admission.draining = True
    response = await site.client.get("/readyz")
    assert response.status == 503
    assert (await response.json())["draining"] is True
