import json
from collections.abc import Iterator
from typing import cast

import aiohttp
import pytest

from rtc_server.bench import client, servers, webrtcline
from rtc_server.bench.client import ClientSpec
from rtc_server.bench.latency import LatencyOptions, run
from rtc_server.bench.loadrun import run_client
from rtc_server.bench.servers import Target
from rtc_server.bench.signaling import Signaling
from rtc_server.errors import PeerError


def test_the_loop_is_encoded_into_whole_packets_that_decode_to_20_ms() -> None:
    payloads = webrtcline.opus_loop()
    assert len(payloads) == 500
    signaling = Signaling(cast(aiohttp.ClientSession, None), "http://127.0.0.1:1", "plain")
    decode = webrtcline.WebRtcLine(signaling, events=False).make_decoder()
    assert {decode(payload).size for payload in payloads[:50]} == {480}
    assert decode(b"").size == 0


def test_a_spec_survives_its_way_to_the_client() -> None:
    spec = ClientSpec(url="http://127.0.0.1:1", calls=3, drop_at=(1.0, 2.0), cpu=None)
    assert client.from_json(client.to_json(spec)) == spec


def test_a_server_that_is_not_there_is_one_clear_message() -> None:
    with pytest.raises(PeerError, match=r"call 1 of 1: cannot reach http://127\.0\.0\.1:1/v1/sessions.*running"):
        run_client(Target("nobody", "http://127.0.0.1:1"), ClientSpec(seconds=3))


@pytest.fixture(scope="module")
def peer() -> Iterator[Target]:
    with servers.peer_server("aiortc", None) as target:
        yield target


@pytest.mark.e2e
def test_a_stock_peer_is_measured(peer: Target) -> None:
    figures = run_client(peer, ClientSpec(calls=2, seconds=4, connects=1))
    assert figures["calls"] == 2
    assert figures["connects"] == 3
    assert figures["silent_calls"] == 0
    assert isinstance(figures["bursts"], int) and figures["bursts"] >= 4
    m2e_ms = figures["m2e_p50_ms"]
    # 20 packet + 13 codecs + 80 prefetch + 60 for the rest of the block is the least a stock server of 80 ms can do.
    assert isinstance(m2e_ms, float) and m2e_ms > 170


@pytest.mark.e2e
def test_the_benchmark_prints_a_line_per_run(peer: Target, capsys: pytest.CaptureFixture[str]) -> None:
    options = LatencyOptions(url=peer.url, seconds=6, connects=0, drop_at=(1.5,), repeat=1, events=False, json=True)
    assert run(options) == 0
    (line,) = capsys.readouterr().out.splitlines()
    row = json.loads(line)
    assert (row["bench"], row["server"], row["run"], row["dropped"]) == ("latency", peer.url, 1, 1)
    assert row["m2e_before_ms"] > 0 and row["m2e_after_2s_ms"] > 0
