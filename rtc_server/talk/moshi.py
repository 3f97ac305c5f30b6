"""The caller's side of ``/api/chat``, as this server, Moshi's and PersonaPlex's own have it. Sans-IO."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import ClassVar

from rtc_server.media.frames import FloatSamples
from rtc_server.media.oggopus import OggOpusReader, OggOpusWriter
from rtc_server.talk.protocol import Heard, Message, Ready, Remark, Sound, Wishes, Words
from rtc_server.transports.websocket.moshi import Kind, message


class MoshiProtocol:
    """A `CallProtocol`. Raises: MissingLibrary without libopus."""

    path: ClassVar[str] = "/api/chat"

    def __init__(self, wishes: Wishes) -> None:
        self._wishes = wishes
        self._own_voice = OggOpusWriter()
        self._voice = OggOpusReader()
        self._text = codecs.getincrementaldecoder("utf-8")("replace")

    @property
    def query(self) -> dict[str, str]:
        """Both prompts always, since PersonaPlex's own server insists on them; the seed, which breaks it, if wanted."""
        query = {"text_prompt": self._wishes.persona or "", "voice_prompt": self._wishes.voice or ""}
        if self._wishes.seed is not None:
            query["seed"] = str(self._wishes.seed)
        return query

    def opening(self) -> Sequence[Message]:
        return ()

    def audio(self, pcm: FloatSamples) -> bytes:
        return message(Kind.AUDIO, self._own_voice.encode(pcm))

    def closing(self) -> Sequence[Message]:
        return ()

    def receive(self, message: Message) -> Sequence[Heard]:
        if isinstance(message, str) or not message:
            return ()
        kind, payload = message[0], message[1:]
        match kind:
            case Kind.HANDSHAKE:
                return (Ready(),)
            case Kind.AUDIO:
                pcm = self._voice.feed(payload)
                return (Sound(pcm),) if pcm.size else ()
            case Kind.TEXT:
                text = self._text.decode(payload)
                return (Words(text),) if text else ()
            case Kind.ERROR:
                return (Remark(payload.decode(errors="replace")),)
        return ()
