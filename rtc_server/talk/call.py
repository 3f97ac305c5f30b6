"""One conversation over a socket that is open: speaks, listens, hangs up."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Protocol

import aiohttp

from rtc_server.errors import PeerError
from rtc_server.media.frames import FloatSamples
from rtc_server.talk.connect import Socket
from rtc_server.talk.protocol import CallProtocol, Done, Farewell, Heard, Message, Ready, Remark, Sound, Words
from rtc_server.talk.screen import Screen

DONE_WITHIN_S = 10.0
"""So long may a server be silent that owes an answer."""
GOODBYE_WITHIN_S = 3.0
"""So long waits a person who has hung up."""
LINGER_S = 1.0
"""Where a server cannot be asked whether it has answered everything, this is waited for the last of it."""


class Microphone(Protocol):
    async def frame(self) -> FloatSamples | None:
        """The next frame, [1920] samples at 24 kHz; None: no more comes."""


class Speaker(Protocol):
    def play(self, pcm: FloatSamples) -> None:
        """[n] samples at 24 kHz. Never blocks."""


class Call:
    """Runs once. Three tasks, all its own; the socket is closed at the end.

    The microphone is not asked before the agent is ready: what is said to nobody is not sent.
    """

    def __init__(
        self,
        socket: Socket,
        protocol: CallProtocol,
        microphone: Microphone,
        speakers: Sequence[Speaker],
        screen: Screen,
    ) -> None:
        self._socket = socket
        self._protocol = protocol
        self._microphone = microphone
        self._speakers = speakers
        self._screen = screen
        self._ready = asyncio.Event()
        self._messages = 0
        self._remark = ""
        """The last one of the server's, which may say why it closes."""

    async def run(self, hang_up: asyncio.Event) -> None:
        """Until the microphone is at its end, `hang_up` is set, or the server closes.

        Raises: PeerError when the server refuses or breaks off; what microphone and speakers raise.
        """
        listening = asyncio.create_task(self._listen(), name="talk-listen")
        speaking = asyncio.create_task(self._speak(), name="talk-speak")
        hanging_up = asyncio.create_task(hang_up.wait(), name="talk-hang-up")
        tasks = (listening, speaking, hanging_up)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if not listening.done() and speaking.done():
                speaking.result()
                await self._finish(listening)
            elif not listening.done():
                speaking.cancel()
                await self._hang_up(listening)
            else:
                self._judge(listening.result())
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._socket.close()

    async def _speak(self) -> None:
        await self._send(self._protocol.opening())
        await self._ready.wait()
        while (frame := await self._microphone.frame()) is not None:
            await self._send([self._protocol.audio(frame)])

    async def _send(self, messages: Sequence[Message]) -> None:
        with contextlib.suppress(aiohttp.ClientError, ConnectionError):  # the listener hears what is wrong
            for message in messages:
                if isinstance(message, str):
                    await self._socket.send_str(message)
                else:
                    await self._socket.send_bytes(message)

    async def _listen(self) -> Farewell | None:
        """How the server closed; None: it has answered everything."""
        while True:
            message = await self._socket.receive()
            self._messages += 1
            match message.type:
                case aiohttp.WSMsgType.TEXT | aiohttp.WSMsgType.BINARY:
                    for heard in self._protocol.receive(message.data):
                        if isinstance(heard, Done):
                            return None
                        self._hear(heard)
                case aiohttp.WSMsgType.CLOSE:
                    return Farewell(message.data, message.extra or "")
                case _:
                    return Farewell(None)

    def _hear(self, heard: Heard) -> None:
        match heard:
            case Ready():
                if not self._ready.is_set():
                    self._ready.set()
                    self._screen.remark("The agent listens. Ctrl-C ends the call.")
            case Sound(pcm=pcm):
                for speaker in self._speakers:
                    speaker.play(pcm)
            case Words(text=text):
                self._screen.words(text)
            case Remark(text=text):
                self._remark = text
                if self._ready.is_set():  # before, it is why there will be no call
                    self._screen.remark(text, "yellow")

    async def _finish(self, listening: asyncio.Task[Farewell | None]) -> None:
        """Say that this was all, and hear what is still to come. Raises: PeerError when the server does not answer."""
        closing = self._protocol.closing()
        if closing:
            await self._send(closing)
            await self._until_silent(listening)
        else:
            await asyncio.wait([listening], timeout=LINGER_S)
        if listening.done():
            self._judge(listening.result())
        elif closing:
            raise PeerError(f"the server has not answered for {DONE_WITHIN_S:g} s what it was sent last")

    async def _until_silent(self, listening: asyncio.Task[Farewell | None]) -> None:
        heard = -1
        while heard != self._messages and not listening.done():
            heard = self._messages
            await asyncio.wait([listening], timeout=DONE_WITHIN_S)

    async def _hang_up(self, listening: asyncio.Task[Farewell | None]) -> None:
        """Say goodbye to whoever still listens."""
        if self._ready.is_set() and (closing := self._protocol.closing()):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(GOODBYE_WITHIN_S):
                    await self._send(closing)
                    await asyncio.wait([listening])

    def _judge(self, farewell: Farewell | None) -> None:
        """The server ended the call. Raises: PeerError unless that was in order."""
        if farewell is None:
            return
        why = farewell.reason or self._remark
        because = f": {why}" if why else ""
        match farewell.code:
            case 1000 if self._ready.is_set():
                self._screen.remark(f"The server has ended the call{because}.")
            case None:
                raise PeerError(f"the connection to the server broke off{because}")
            case 1013:
                raise PeerError(f"the server takes no call now{because}", hint="try again in a few seconds")
            case code if not self._ready.is_set():
                raise PeerError(f"the server refuses the call ({code}){because}")
            case code:
                raise PeerError(f"the server has ended the call ({code}){because}")
