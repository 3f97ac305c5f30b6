import asyncio

from rtc_server.bench.pacer import SLICE_S, SLICES, Pacer


class VirtualTime:
    """A clock that only `sleep` moves; after `until_s` it sleeps for ever."""

    def __init__(self, until_s: float, overslept_s: float = 0.0) -> None:
        self.now_s = 0.0
        self.ended = asyncio.Event()
        self._until_s = until_s
        self._overslept_s = overslept_s

    def clock(self) -> float:
        return self.now_s

    async def sleep(self, seconds: float) -> None:
        if self.now_s >= self._until_s:
            self.ended.set()
            await asyncio.Event().wait()
        self.now_s += seconds + self._overslept_s
        await asyncio.sleep(0)


class Listener:
    def __init__(self) -> None:
        self.due_s: list[float] = []

    def send_packet(self, due_s: float) -> None:
        self.due_s.append(due_s)


async def pace(pacer: Pacer, time: VirtualTime) -> None:
    pacer.start()
    await time.ended.wait()
    await pacer.stop()


async def test_each_call_is_due_every_20_ms_and_the_calls_are_spread() -> None:
    time = VirtualTime(until_s=1.0)
    pacer = Pacer(time.clock, time.sleep)
    listeners = [Listener() for _ in range(2 * SLICES)]
    for listener in listeners:
        pacer.add(listener)
    await pace(pacer, time)
    for listener in listeners:
        assert 49 <= len(listener.due_s) <= 50
        steps = zip(listener.due_s, listener.due_s[1:], strict=False)
        assert {round(later - earlier, 6) for earlier, later in steps} == {0.020}
    firsts = sorted(listener.due_s[0] for listener in listeners)
    assert firsts == sorted(2 * [SLICE_S * number for number in range(1, SLICES + 1)])


async def test_a_late_wake_up_is_measured_and_moves_no_deadline() -> None:
    time = VirtualTime(until_s=1.0, overslept_s=0.001)
    pacer = Pacer(time.clock, time.sleep)
    listener = Listener()
    pacer.add(listener)
    await pace(pacer, time)
    assert [round(due_s, 6) for due_s in listener.due_s[:3]] == [0.020, 0.040, 0.060]
    assert pacer.lateness_ms().max() < 1.001
    pacer.reset()
    assert pacer.lateness_ms().size == 0


async def test_a_call_that_was_removed_gets_nothing() -> None:
    time = VirtualTime(until_s=0.1)
    pacer = Pacer(time.clock, time.sleep)
    listener = Listener()
    pacer.add(listener)
    pacer.remove(listener)
    pacer.remove(listener)
    await pace(pacer, time)
    assert listener.due_s == []
