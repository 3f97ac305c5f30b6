from __future__ import annotations

import io
import wave
from dataclasses import replace

import numpy as np
import pytest

from rtc_server.errors import EngineUnavailable
from tests.http.conftest import KEY, MakeSite, Site

FRAMES = np.arange(3 * 1920, dtype=np.int16).reshape(3, 1920)
PATH = "/v1/voices/bass/sample"


@pytest.fixture
async def choir(site: Site) -> Site:
    """Of alto and bass only bass can be listened to; and of one with an odd name."""
    engine = site.house.engine
    engine.spec = replace(engine.spec, voices=("alto", "bass", "ça va?"), voice_samples=("bass", "ça va?"))
    engine.samples = {"bass": FRAMES, "ça va?": FRAMES}
    return site


async def test_a_sample_is_a_wav_file(choir: Site) -> None:
    response = await choir.client.get(PATH)
    assert (response.status, response.content_type) == (200, "audio/wav")
    assert "max-age" in response.headers["Cache-Control"] and response.headers["ETag"]
    with wave.open(io.BytesIO(await response.read())) as file:
        assert (file.getframerate(), file.getnchannels(), file.getsampwidth()) == (24_000, 1, 2)
        pcm = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    np.testing.assert_array_equal(pcm, FRAMES.reshape(-1))


async def test_a_sample_is_made_once_and_costs_no_slot(choir: Site) -> None:
    etag = (await choir.client.get(PATH)).headers["ETag"]
    again = await choir.client.get(PATH, headers={"If-None-Match": etag})
    assert (again.status, again.headers["ETag"], await again.read()) == (304, etag, b"")
    assert (await choir.client.head(PATH)).status == 200
    assert choir.house.engine.sampled == ["bass"] and choir.house.engine.prompts == []


async def test_an_engine_that_starts_again_is_asked_again(choir: Site) -> None:
    await choir.client.get(PATH)
    choir.house.engine.spec = replace(choir.house.engine.spec)
    await choir.client.get(PATH)
    assert choir.house.engine.sampled == ["bass", "bass"]


async def test_voices_and_config_say_where_there_is_one(choir: Site) -> None:
    voices = (await (await choir.client.get("/v1/voices")).json())["voices"]
    paths = {voice["name"]: voice["sample"] for voice in voices}
    assert paths == {"alto": None, "bass": PATH, "ça va?": "/v1/voices/%C3%A7a%20va%3F/sample"}
    config = await (await choir.client.get("/v1/config")).json()
    assert config["engine"]["voice_samples"] == {name: path for name, path in paths.items() if path}
    for path in filter(None, paths.values()):
        assert (await choir.client.get(path)).status == 200


async def test_a_voice_is_also_known_by_its_file(choir: Site) -> None:
    assert (await choir.client.get("/v1/voices/bass.pt/sample")).status == 200


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("alto", "no sample"),
        ("tenor", "unknown"),
        ("%2e%2e%2f%2e%2e%2fetc%2fpasswd", "unknown"),
        ("..%5cbass", "unknown"),
        ("bass%00", "unknown"),
        ("%F0%9F%8E%B5", "unknown"),
        ("x" * 3000, "unknown"),
    ],
)
async def test_what_cannot_be_listened_to_is_a_404_with_a_hint(choir: Site, name: str, word: str) -> None:
    response = await choir.client.get(f"/v1/voices/{name}/sample")
    body = await response.json()
    assert (response.status, body["code"]) == (404, "no_voice_sample")
    assert word in body["message"] and "/v1/voices" in body["hint"] and len(body["message"]) < 200
    assert choir.house.engine.sampled == []


@pytest.mark.parametrize("path", ["/v1/voices/../../etc/passwd/sample", "/v1/voices//sample", "/v1/voices/a/b/sample"])
async def test_a_path_is_no_name(choir: Site, path: str) -> None:
    assert (await choir.client.get(path)).status == 404


@pytest.mark.parametrize(
    ("wanted", "status", "told"),
    [
        ("bytes=0-1", 206, "bytes 0-1/11564"),
        ("bytes=44-", 206, "bytes 44-11563/11564"),
        ("bytes=-100", 206, "bytes 11464-11563/11564"),
        ("bytes=0-999999", 206, "bytes 0-11563/11564"),
        ("bytes=11564-", 416, "bytes */11564"),
        ("bytes=5-2", 200, None),
        ("lines=1-2", 200, None),
        ("bytes=0-1,5-6", 200, None),
    ],
)
async def test_players_may_ask_for_a_part(choir: Site, wanted: str, status: int, told: str | None) -> None:
    whole = await (await choir.client.get(PATH)).read()
    response = await choir.client.get(PATH, headers={"Range": wanted})
    assert (response.status, response.headers.get("Content-Range")) == (status, told)
    body = await response.read()
    if status == 206 and told is not None:
        first, last = map(int, told.removeprefix("bytes ").partition("/")[0].split("-"))
        assert body == whole[first : last + 1]


async def test_a_part_of_another_file_is_not_given(choir: Site) -> None:
    response = await choir.client.get(PATH, headers={"Range": "bytes=0-1", "If-Range": '"another"'})
    assert response.status == 200


async def test_an_engine_that_is_away_is_told_and_asked_again(choir: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(voice: str) -> None:
        raise EngineUnavailable("the engine has stopped")

    with monkeypatch.context() as patch:
        patch.setattr(choir.house.engine, "voice_sample", away)
        assert (await choir.client.get(PATH)).status == 503
    assert (await choir.client.get(PATH)).status == 200


async def test_samples_need_the_key(make_site: MakeSite) -> None:
    site = await make_site(api_key=KEY)
    assert (await site.client.get(PATH)).status == 401
    assert (await site.client.get(f"{PATH}?token={KEY}")).status == 404


async def test_what_is_kept_is_bounded(choir: Site) -> None:
    names = tuple(f"voice-{number}" for number in range(40))
    engine = choir.house.engine
    engine.spec = replace(engine.spec, voices=names, voice_samples=names)
    engine.samples = dict.fromkeys(names, FRAMES)
    for name in (*names, *names[-16:]):
        assert (await choir.client.get(f"/v1/voices/{name}/sample")).status == 200
    assert engine.sampled == list(names)
