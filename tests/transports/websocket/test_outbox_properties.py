"""What holds of the outbox in whatever order things happen."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from rtc_server.media.frames import FRAME_SAMPLES
from rtc_server.session.worth import Worth
from rtc_server.transports.websocket.outbox import AUDIO_SAMPLES, WAITING_MESSAGES, WINDOW_SAMPLES, Outbox
from tests.transports.websocket.fakes import frame

CALLS = ("write", "put", "next", "flush", "hold", "release", "acknowledge")


@given(calls=st.lists(st.tuples(st.sampled_from(CALLS), st.integers(1, 40)), max_size=60))
def test_bounds_and_order_hold_whatever_happens(calls: list[tuple[str, int]]) -> None:
    outbox = Outbox()
    written = put = 0
    acknowledged: int | None = None
    frames: list[int] = []
    words: list[int] = []
    for now, (call, times) in enumerate(calls):
        for _ in range(times):
            match call:
                case "write":
                    written += 1
                    outbox.write(now, frame(written / 4096))
                case "put":
                    put += 1
                    outbox.put(now, str(put), Worth(put % 3))
                case "next":
                    match outbox.next(now):
                        case str(word):
                            words.append(int(word))
                        case np.ndarray() as pcm if pcm[-1]:  # else it is the fade that a flush leaves
                            frames.append(round(float(pcm[-1]) * 4096))
                    outbox.sent(now)
                case "flush":
                    outbox.flush()
                case "hold":
                    outbox.hold()
                case "release":
                    outbox.release(now)
                case "acknowledge":
                    acknowledged = outbox.played_samples
                    outbox.acknowledge(now, acknowledged)
            assert outbox.queued_samples <= AUDIO_SAMPLES
            assert outbox.message_room + (put - len(words) - outbox.dropped_messages) == WAITING_MESSAGES
            if acknowledged is not None:
                assert outbox.played_samples - acknowledged < WINDOW_SAMPLES + FRAME_SAMPLES
    assert frames == sorted(set(frames)) and words == sorted(set(words))
    outbox.finish()
    while outbox.next(0) is not None:
        outbox.sent(0)
    assert outbox.is_empty and outbox.queued_samples == 0 and outbox.message_room == WAITING_MESSAGES
