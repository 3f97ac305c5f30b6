"""The voices that this server has, by name. A caller names one of them and never a file.

A shelf is filled once, from folders: each file whose name is ``NAME.safetensors``, ``NAME.pt`` or ``NAME.wav`` with a
NAME of letters, digits, ``_`` and ``-`` is read, checked and prepared. What cannot be used is listed with its reason
and left off. A ``.pt`` and a ``.wav`` are prepared once: the result lies in a cache folder under the file's digest, so
that a caller's voice is there after a short read, and nothing is unpickled or resampled while calls are running.

The default voice is NATF0 where there is one, else the first by name.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rtc_server.engine.personaplex.checkpoint import Checkpoint
from rtc_server.engine.personaplex.config import TEXT_ROW, LmConfig
from rtc_server.engine.personaplex.convert import voice_from
from rtc_server.engine.personaplex.prompt import FIXED_CALLS, longest_opening
from rtc_server.engine.personaplex.voicearchive import unpacked
from rtc_server.engine.personaplex.voicefiles import (
    SUFFIXES,
    StoredVoice,
    VoiceAudio,
    VoiceUnusable,
    from_safetensors,
    name_of,
    read_bytes,
    write_voice,
)
from rtc_server.errors import ConfigError, UnknownVoice
from rtc_server.log import get_logger

__all__ = ["ShelvedVoice", "StoredVoice", "VoiceAudio", "VoiceShelf", "check_model", "default_cache", "shelf_of"]

log = get_logger(__name__)

DEFAULT_VOICE = "NATF0"
PREPARATION = b"rtc-server voice 1: 24 kHz, first channel, -24 LUFS"
"""Part of the digest of a prepared file: another way to prepare gives another name."""


@dataclass(frozen=True, slots=True)
class ShelvedVoice:
    """A file of a folder, as it is listed."""

    name: str
    """Of the voice; of the file where that is no name of a voice."""
    file: Path
    kind: str
    """``prepared``, ``pt`` or ``wav``."""
    seconds: float = 0.0
    frames: int = 0
    """Calls of 80 ms that it takes up in an opening."""
    problem: str = ""
    """Why it cannot be used; empty for one that can."""


class VoiceShelf:
    """Filled at construction, and then never changed; any thread may use it."""

    def __init__(
        self,
        folders: Sequence[Path],
        config: LmConfig | None = None,
        cache: Path | None = None,
        *,
        most_calls: int | None = None,
    ) -> None:
        """Of several files with one name the earliest folder counts, then the earliest kind, if it can be used.

        Args:
            config: of the model that shall speak with the voices; None: what depends on it is not checked.
            cache: folder for prepared voices; None, or where it cannot be written: they stay in memory.
            most_calls: see `check_model`.

        Raises: VoiceUnusable for a folder that cannot be listed.
        """
        self._config, self._cache, self._most_calls = config, cache, most_calls
        self._ready: dict[str, Path | StoredVoice | VoiceAudio] = {}
        self._digests: dict[str, bytes] = {}
        self._recorded: set[str] = set()
        listed = [voice for folder in folders for file in _files(folder) if (voice := self._shelve(file)) is not None]
        self.listed = tuple(sorted(listed, key=lambda voice: (voice.name != DEFAULT_VOICE, voice.name)))
        """Everything that was found, the default voice first. What cannot be used says why."""
        self._usable = {voice.name: voice for voice in self.listed if not voice.problem}
        self.names: tuple[str, ...] = tuple(self._usable)
        """Of the voices that can be used, the default first."""
        self.recorded: tuple[str, ...] = tuple(name for name in self.names if name in self._recorded)
        """Of those, the ones that are somebody speaking, and can be listened to."""

    def frames(self, name: str) -> int:
        """Calls of 80 ms that a voice takes up in an opening. Raises: UnknownVoice."""
        return self._named(name).frames

    def load(self, name: str) -> StoredVoice | VoiceAudio:
        """A voice as it was checked at the start; reads a file of a few megabytes at most.

        Raises: UnknownVoice for a name that is not on the shelf; VoiceUnusable when its file has gone, or holds another
        voice than at the start.
        """
        self._named(name)
        ready = self._ready[name]
        if not isinstance(ready, Path):
            return ready
        try:
            voice = from_safetensors(read_bytes(ready))
        except VoiceUnusable as error:
            raise VoiceUnusable(f"voice {name} cannot be loaded any more: {error.message}") from error
        if voice.digest != self._digests[name]:
            raise VoiceUnusable(f"voice {name} has changed since the start", hint="restart to take the new one")
        return voice

    def log_problems(self) -> None:
        """A warning for each file that was left off."""
        for voice in self.listed:
            if voice.problem:
                log.warning("a voice cannot be used", file=str(voice.file), reason=voice.problem)

    def _named(self, name: str) -> ShelvedVoice:
        if name not in self._usable:
            known = ", ".join(self.names) or "no voices at all"
            raise UnknownVoice(f"no voice {name[:64]!r}", hint=f"there are: {known}")
        return self._usable[name]

    def _shelve(self, file: Path) -> ShelvedVoice | None:
        """Check and prepare a file. None: another one of this name is on the shelf already."""
        kind = "prepared" if file.suffix.lower() == ".safetensors" else file.suffix.lower().removeprefix(".")
        name = name_of(file.name)
        if name in self._ready:
            return None
        try:
            if name is None:
                raise VoiceUnusable("its name is not made of 1 to 64 letters, digits, _ and -")
            voice, ready = self._prepared(file, name)
            check_model(voice, self._config, self._most_calls)
        except VoiceUnusable as error:
            return ShelvedVoice(name or file.name, file, kind, problem=str(error))
        self._ready[name], self._digests[name] = ready, voice.digest
        if isinstance(voice, VoiceAudio):
            self._recorded.add(name)
        return ShelvedVoice(name, file, kind, voice.seconds, voice.calls)

    def _prepared(self, file: Path, name: str) -> tuple[StoredVoice | VoiceAudio, Path | StoredVoice | VoiceAudio]:
        """The voice in a file, and where it is to be had from later."""
        raw = read_bytes(file)
        if file.suffix.lower() == ".safetensors":
            return from_safetensors(raw), file
        if self._cache is None:
            return (voice := voice_from(file, raw)), voice
        digest = hashlib.sha256(PREPARATION + raw).hexdigest()
        prepared = self._cache / f"{name}-{digest[:32]}.safetensors"
        if prepared.is_file():
            try:
                return from_safetensors(read_bytes(prepared)), prepared
            except VoiceUnusable:
                log.warning("a prepared voice is damaged and is made anew", file=str(prepared))
        voice = voice_from(file, raw)
        try:
            self._cache.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_voice(prepared, voice)
        except OSError as error:
            log.warning("a prepared voice stays in memory", file=str(prepared), reason=error.strerror)
            return voice, voice
        return voice, prepared


def shelf_of(
    checkpoint: Checkpoint | None, own: Path | None, cache: Path | None = None, *, most_calls: int | None = None
) -> VoiceShelf:
    """The operator's own folder first, then the voices of the checkpoint, an archive of them unpacked.

    `cache` None: `default_cache`. `most_calls`: see `check_model`.

    Raises: ConfigError when `own` is no folder; VoiceUnusable for an archive that cannot be unpacked.
    """
    cache = cache or default_cache()
    if own is not None and not own.is_dir():
        raise ConfigError(f"--voices {own} is no folder", hint="name the folder that your .wav or .safetensors lie in")
    folders = [] if own is None else [own]
    if checkpoint is not None and (voices := checkpoint.voices) is not None:
        folders.append(voices if voices.is_dir() else unpacked(voices, cache / "archives"))
    config = checkpoint.config.lm if checkpoint is not None else None
    return VoiceShelf(folders, config, cache / "prepared", most_calls=most_calls)


def default_cache() -> Path:
    """Where prepared voices are kept: in the service's own cache folder, else in the user's.

    Raises: VoiceUnusable where the user has no home.
    """
    if service := os.environ.get("CACHE_DIRECTORY"):
        return Path(service.split(":")[0], "voices")
    if user := os.environ.get("XDG_CACHE_HOME"):
        return Path(user, "rtc-server", "voices")
    try:
        return Path.home() / ".cache" / "rtc-server" / "voices"
    except RuntimeError as error:
        raise VoiceUnusable("this user has no home to keep voices in", hint="set XDG_CACHE_HOME to a folder") from error


def check_model(voice: StoredVoice | VoiceAudio, config: LmConfig | None, most_calls: int | None = None) -> None:
    """Does a voice fit a model? `most_calls`: of a voice, where prompts are pinned; None: they are not.

    Raises: VoiceUnusable for a voice that this model cannot take.
    """
    if most_calls is not None and most_calls < voice.calls:
        raise VoiceUnusable(
            f"it lasts {voice.calls} frames, and at most {most_calls} of a voice can be pinned",
            hint="use a shorter one, or drop --pin-prompt",
        )
    if config is None:
        return
    if (most := longest_opening(config) - FIXED_CALLS) < voice.calls:
        raise VoiceUnusable(f"it lasts {voice.calls} frames, and this model remembers at most {most} of a voice")
    if isinstance(voice, VoiceAudio):
        return
    if (width := voice.embeddings.shape[1]) != config.dim:
        raise VoiceUnusable(f"it is made for a model of width {width}, and this one has {config.dim}")
    highest = voice.given().amax(1)
    if int(highest[TEXT_ROW]) > config.text_card or int(highest[TEXT_ROW + 1 :].max()) > config.card:
        raise VoiceUnusable("it has tokens that this model does not know")


def _files(folder: Path) -> Iterator[Path]:
    """What may be voices, by name, and of one name the prepared one first."""
    try:
        files = [file for file in folder.iterdir() if file.suffix.lower() in SUFFIXES and not file.name.startswith(".")]
    except OSError as error:
        raise VoiceUnusable(f"the folder {folder} cannot be read: {error.strerror}") from error
    return iter(sorted(files, key=lambda file: (file.stem, SUFFIXES.index(file.suffix.lower()), file.name)))
