"""The load client: many light calls to one server, measured, as a process of its own.

``python -m rtc_server.bench.client`` reads one `ClientSpec` as JSON from standard input, makes the calls, and writes
``{"figures": {...}}`` or ``{"error": {code, message, hint}}`` to standard output.
"""

from __future__ import annotations

import asyncio
import dataclasses
import gc
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from rtc_server import log
from rtc_server.bench import affinity, figures, signals
from rtc_server.bench.figures import CallRecord, Figures, Setup, Window
from rtc_server.bench.impairment import Uplink
from rtc_server.bench.lightcall import LightCall
from rtc_server.bench.line import Line
from rtc_server.bench.options import SIP
from rtc_server.bench.pacer import Pacer
from rtc_server.bench.procstat import Usage, load_of_machine, read_usage
from rtc_server.bench.sipline import sip_line
from rtc_server.bench.webrtcline import webrtc_line
from rtc_server.errors import PeerError, RtcServerError

SETTLE_S = 2.0
TAIL_S = 2.0
"""An echo may come so long after the end of the window."""
HEAD_S = 1.0
"""Bursts are counted from so long before the window, to have something to compare with when it begins."""
LOOP_OFFSET_STEP_PACKETS = 37
"""Calls begin at different places of the loop."""


@dataclass(frozen=True, slots=True)
class ClientSpec:
    """What one run shall do. `url`, `adapter` and `server_pid` are filled in once the server runs."""

    url: str = ""
    adapter: str = "plain"
    """How it is called; `options.SIP` for phone calls."""
    calls: int = 1
    seconds: float = 20.0
    connects: int = 0
    """Short calls made one after the other before the others, for the set-up times alone."""
    join_every_s: float = 0.0
    """While the others are measured, one more caller comes again and again, and stays half of this time. 0: nobody."""
    events: bool = True
    """Offer the data channel for events; phone calls have none."""
    loss: float = 0.0
    drop_at: tuple[float, ...] = ()
    """Seconds after the window's begin at which one uplink packet of each call is lost."""
    server_pid: int | None = None
    cpu: int | None = None


class LoadClient:
    """Makes the calls of one run. Every call is closed on every way out."""

    def __init__(self, spec: ClientSpec, line: Line) -> None:
        self._spec = spec
        self._line = line
        self._pacer = Pacer()
        self._calls: list[LightCall] = []
        self._setups: list[Setup] = []
        self._joined = 0

    async def run(self) -> Figures:
        """Raises: PeerError when a call cannot be made, or no call hears anything."""
        self._pacer.start()
        try:
            for _ in range(self._spec.connects):
                await self._hang_up(await self._dial())
            for number in range(self._spec.calls):
                try:
                    self._calls.append(await self._dial())
                except PeerError as error:
                    raise PeerError(
                        f"call {number + 1} of {self._spec.calls}: {error.message}", hint=error.hint
                    ) from error
            gc.collect()
            gc.freeze()
            gc.disable()  # the lists of packets only grow: walking them would be seen as lateness
            await asyncio.sleep(SETTLE_S)
            window = await self._measure()
            await asyncio.sleep(TAIL_S)
        finally:
            gc.enable()
            await self._pacer.stop()
            await asyncio.gather(*(call.close() for call in self._calls))
        return self._figures(window)

    async def _dial(self) -> LightCall:
        number = len(self._calls)
        uplink = Uplink(self._spec.loss, self._spec.drop_at, seed=number)
        call = await self._line.dial(_loop_offset_packets(number), uplink)
        try:
            self._pacer.add(call)
            await call.first_packet()
        except BaseException:
            await self._hang_up(call)
            raise
        self._setups.append(call.setup)
        return call

    async def _hang_up(self, call: LightCall) -> None:
        self._pacer.remove(call)
        await call.close()

    async def _measure(self) -> Window:
        self._pacer.reset()
        begin_s = time.monotonic()
        for call in self._calls:
            call.uplink.begin(begin_s)
        server_before = self._usage()
        cpu_before_s = time.process_time()
        joining = asyncio.create_task(self._join_again_and_again(), name="bench-joining")
        try:
            await asyncio.sleep(self._spec.seconds)
        finally:
            joining.cancel()
            await asyncio.gather(joining, return_exceptions=True)
        server_after = self._usage()
        end_s = time.monotonic()
        cpu_s = time.process_time() - cpu_before_s
        return Window(begin_s, end_s, server_before, server_after, cpu_s, self._pacer.lateness_ms().tolist())

    async def _join_again_and_again(self) -> None:
        while self._spec.join_every_s:
            call = await self._dial()
            self._joined += 1
            try:
                await asyncio.sleep(self._spec.join_every_s / 2)
            finally:
                await self._hang_up(call)
            await asyncio.sleep(self._spec.join_every_s / 2)

    def _usage(self) -> Usage | None:
        return None if self._spec.server_pid is None else read_usage(self._spec.server_pid)

    def _figures(self, window: Window) -> Figures:
        records = [_record(call, number, window) for number, call in enumerate(self._calls)]
        if not any(record.packets for record in records):
            raise PeerError("the calls connected, but no audio came")
        drops_s = [window.begin_s + at for at in sorted(self._spec.drop_at)]
        echo = figures.echo_figures(records, window, drops_s, self._line.make_decoder)
        if not echo["bursts"]:
            raise PeerError(
                "no burst came back within 6 s: the server does not echo", hint="measure against the engine `echo`"
            )
        return {
            "calls": self._spec.calls,
            "seconds": round(window.length_s, 1),
            **echo,
            **figures.setup_figures(self._setups),
            **figures.packet_figures(records, window, self._line.clock_hz),
            **figures.cost_figures(len(records), window),
            "joined": self._joined,
            "events": sum(call.events for call in self._calls),
            "load1": load_of_machine(),
        }


def _loop_offset_packets(number: int) -> int:
    return number * LOOP_OFFSET_STEP_PACKETS % signals.LOOP_PACKETS


def _record(call: LightCall, number: int, window: Window) -> CallRecord:
    spoken: Sequence[tuple[int, float]] = ()
    if call.first_capture_s is not None:
        start_s = call.first_capture_s
        first = call.packets_sent_by(window.begin_s - HEAD_S)
        last = call.packets_sent_by(window.end_s)
        spoken = [
            (burst, start_s + onset_s)
            for burst, onset_s in signals.bursts_between(first, last, _loop_offset_packets(number))
        ]
    return CallRecord(call.received(), spoken, call.uplink.dropped)


async def measure(spec: ClientSpec) -> Figures:
    line = sip_line(spec.url) if spec.adapter == SIP else webrtc_line(spec.url, spec.adapter, spec.events)
    async with line as opened:
        return await LoadClient(spec, opened).run()


def main() -> int:
    spec = from_json(sys.stdin.read())
    log.configure("warning")
    affinity.pin(0, spec.cpu)
    try:
        # A selector loop everywhere: the calls read their sockets themselves.
        with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
            result: dict[str, object] = {"figures": runner.run(measure(spec))}
    except RtcServerError as error:
        result = {"error": error.to_json()}
    json.dump(result, sys.stdout)
    return 0


def to_json(spec: ClientSpec) -> str:
    return json.dumps(dataclasses.asdict(spec))


def from_json(text: str) -> ClientSpec:
    given = json.loads(text)
    return ClientSpec(**{**given, "drop_at": tuple(given["drop_at"])})


if __name__ == "__main__":
    raise SystemExit(main())
