from __future__ import annotations

import asyncio
import time
import wave
from pathlib import Path

import av
import numpy as np
import pytest
from aiortc import MediaStreamTrack, RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.contrib.media import MediaRecorder, MediaRelay
from aiortc.mediastreams import MediaStreamError

from rtc_server.media.frames import FRAME_SAMPLES, PACKET_SAMPLES, SAMPLE_RATE, FloatSamples
from rtc_server.media.pcmfifo import PcmFifo
from rtc_server.media.playout import Playout
from rtc_server.transports.webrtc.tracks import TAP_BLOCKS, AgentAudioTrack, UserAudioTrack
from tests.transports.webrtc.callers import TONE_HZ, Caller, let_aioice_use_loopback


class Tone:
    """A `FrameSource`: 440 Hz, counted frame by frame."""

    def __init__(self) -> None:
        self.frames = 0

    def take(self, now: float) -> FloatSamples:
        at = np.arange(FRAME_SAMPLES) + self.frames * FRAME_SAMPLES
        self.frames += 1
        return (0.5 * np.sin(at * 2 * np.pi * 440 / SAMPLE_RATE)).astype(np.float32)

    def skip(self, frames: int) -> None:
        self.frames += frames


def samples(frame: av.AudioFrame) -> FloatSamples:
    assert (frame.format.name, frame.layout.name, frame.sample_rate) == ("s16", "mono", SAMPLE_RATE)
    return (frame.to_ndarray()[0] / 32768).astype(np.float32)


async def reader_of(track: UserAudioTrack | AgentAudioTrack) -> asyncio.Task[av.AudioFrame]:
    """A `recv` that waits."""
    task = asyncio.ensure_future(track.recv())
    await asyncio.sleep(0)
    return task


async def test_recv_gives_the_frames_that_were_taken() -> None:
    track = UserAudioTrack(Tone())
    track.take(0.0)
    first = await reader_of(track)
    taken = [track.take(0.08), track.take(0.16)]
    frames = [await first, await track.recv()]
    assert [frame.pts for frame in frames] == [FRAME_SAMPLES, 2 * FRAME_SAMPLES]
    for frame, pcm in zip(frames, taken, strict=True):
        np.testing.assert_allclose(samples(frame), pcm, atol=1 / 32000)


async def test_slow_reader_gets_the_newest_frames_and_sees_the_gap() -> None:
    track = UserAudioTrack(Tone())
    first = await reader_of(track)
    for tick in range(1 + 3 * TAP_BLOCKS):
        track.take(tick * 0.08)
    await first
    positions = [(await track.recv()).pts for _ in range(TAP_BLOCKS - 1)]
    assert positions[-1] == 3 * TAP_BLOCKS * FRAME_SAMPLES
    assert np.diff(positions).tolist() == [FRAME_SAMPLES] * (TAP_BLOCKS - 2)


async def test_track_that_nobody_reads_keeps_nothing() -> None:
    track = UserAudioTrack(Tone())
    for tick in range(1000):
        track.take(tick * 0.08)
    assert not track._tap._blocks


async def test_ended_track_raises_for_its_readers() -> None:
    user, agent = UserAudioTrack(Tone()), AgentAudioTrack(Playout(), paced=True)
    readers = [await reader_of(user), await reader_of(agent)]
    user.stop()
    agent.stop()
    for reader in readers:
        with pytest.raises(MediaStreamError):
            await reader
    unpaced = AgentAudioTrack(Playout())
    unpaced.stop()
    with pytest.raises(MediaStreamError):
        await unpaced.recv()


async def test_paced_agent_track_gives_copies_of_the_packets() -> None:
    track = AgentAudioTrack(Playout(), paced=True)
    first = await reader_of(track)
    track.write(0.0, Tone().take(0.0))
    sent = [track.next_packet(slot * 0.02) for slot in range(4)]
    frames = [await first, *[await track.recv() for _ in range(3)]]
    assert [frame.pts for frame in frames] == [slot * PACKET_SAMPLES for slot in range(4)]
    for frame, packet in zip(frames, sent, strict=True):
        np.testing.assert_allclose(samples(frame), packet.pcm, atol=1 / 32000)


async def test_agent_track_keeps_the_clock_where_recv_is_the_only_reader() -> None:
    now = [100.0]
    track = AgentAudioTrack(Playout(), clock=lambda: now[0])
    positions = []
    for late_s in (0.0, 0.021, 0.041, 0.5, 0.501, 0.541):
        now[0] = 100.0 + late_s
        positions.append((await track.recv()).pts // PACKET_SAMPLES)
    assert positions == [0, 1, 2, 25, 26, 27]


@pytest.mark.e2e
async def test_media_recorder_writes_what_the_user_said(tmp_path: Path) -> None:
    track = UserAudioTrack(Tone())
    recorder = MediaRecorder(str(tmp_path / "user.wav"))
    recorder.addTrack(track)
    await recorder.start()
    await asyncio.sleep(0)
    for tick in range(25):
        track.take(tick * 0.08)
        await asyncio.sleep(0.002)
    await asyncio.sleep(0.2)
    await recorder.stop()
    with wave.open(str(tmp_path / "user.wav")) as file:
        rate_hz = file.getframerate()
        pcm = np.frombuffer(file.readframes(file.getnframes()), np.int16).reshape(-1, file.getnchannels())[:, 0]
    assert pcm.size / rate_hz > 1.5
    spectrum = np.abs(np.fft.rfft(pcm[: rate_hz // 2].astype(float)))
    assert 2 * np.argmax(spectrum) == pytest.approx(440, abs=4)


@pytest.mark.e2e
async def test_media_relay_gives_the_same_frames_to_many() -> None:
    track = UserAudioTrack(Tone())
    relay = MediaRelay()
    proxies = [relay.subscribe(track) for _ in range(3)]
    waiting = [asyncio.ensure_future(proxy.recv()) for proxy in proxies]
    await asyncio.sleep(0.01)
    track.take(0.0)
    frames = await asyncio.wait_for(asyncio.gather(*waiting), 5)
    assert {frame.pts for frame in frames} == {0}
    for proxy in proxies:
        proxy.stop()
    track.stop()


async def hear(remote: MediaStreamTrack, fifo: PcmFifo) -> None:
    """What a stock connection decodes (48 kHz stereo) into a source of frames."""
    resampler = av.AudioResampler(format="s16", layout="mono", rate=SAMPLE_RATE)
    try:
        while True:
            for frame in resampler.resample(await remote.recv()):
                fifo.put(0.0, frame.to_ndarray()[0])
    except MediaStreamError:
        return


@pytest.mark.e2e
async def test_stock_server_side_connection_holds_a_call_through_the_same_two_tracks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    let_aioice_use_loopback(monkeypatch)
    server, caller = RTCPeerConnection(RTCConfiguration(iceServers=[])), Caller()
    fifo = PcmFifo()
    user, agent = UserAudioTrack(fifo), AgentAudioTrack(Playout())
    server.addTrack(agent)
    tasks: list[asyncio.Task[None]] = []
    server.on("track", lambda remote: tasks.append(asyncio.ensure_future(hear(remote, fifo))))
    await server.setRemoteDescription(RTCSessionDescription(await caller.offer(), "offer"))
    await server.setLocalDescription(await server.createAnswer())
    await caller.answer(server.localDescription.sdp)
    next_s = time.monotonic()
    while sum(map(len, caller.heard)) < 2 * 48_000:
        next_s += 0.08
        await asyncio.sleep(max(0.0, next_s - time.monotonic()))
        now = time.monotonic()
        agent.write(now, user.take(now))
    assert caller.heard_hz() == pytest.approx(TONE_HZ, abs=5)
    await caller.close()
    await server.close()
    await asyncio.gather(*tasks)


async def test_skipped_frames_show_as_a_jump_of_the_readers_clock() -> None:
    track = UserAudioTrack(Tone())
    first = await reader_of(track)
    track.take(0.0)
    track.skip(3)
    second_frame = track.take(0.32)
    assert (await first).pts == 0
    second = await track.recv()
    assert second.pts == 4 * FRAME_SAMPLES
    np.testing.assert_allclose(samples(second), second_frame, atol=1 / 32000)
