"""Finds libopus and declares the few functions of it that are used.

PyAV's wheels carry a libopus, so there is nothing to install on Linux, macOS and Windows; a system library is the
second choice. Looking for it is put off until it is needed, so that importing this package never fails.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import importlib.util
from collections.abc import Iterator
from ctypes import POINTER, c_char_p, c_int, c_void_p
from pathlib import Path

from rtc_server.errors import MissingLibrary

# opus_defines.h
APPLICATION_VOIP = 2048
SIGNAL_VOICE = 3001
SIGNAL_MUSIC = 3002
SET_BITRATE = 4002
SET_INBAND_FEC = 4012
SET_COMPLEXITY = 4010
SET_PACKET_LOSS_PERC = 4014
SET_DTX = 4016
SET_SIGNAL = 4024
GET_LOOKAHEAD = 4027
RESET_STATE = 4028

_SYSTEM_NAMES = ("libopus.so.0", "libopus.so", "libopus.0.dylib", "libopus.dylib", "opus.dll", "libopus-0.dll")
_HOMEBREW = ("/opt/homebrew/lib/libopus.0.dylib", "/usr/local/lib/libopus.0.dylib")
_HINT = "install PyAV from a wheel (pip install --only-binary av av), or the system's package (Debian: libopus0)"


def candidates() -> Iterator[str]:
    """Where a libopus may be, best first: beside PyAV, then where the system's loader looks."""
    spec = importlib.util.find_spec("av")
    if spec is not None and spec.origin:
        package = Path(spec.origin).parent
        for folder, pattern in (
            (package.parent / "av.libs", "libopus*.so*"),
            (package / ".dylibs", "libopus*.dylib"),
            (package.parent / "av.libs", "*opus*.dll"),
        ):
            yield from (str(path) for path in sorted(folder.glob(pattern)))
    found = ctypes.util.find_library("opus")
    if found:
        yield found
    yield from _SYSTEM_NAMES
    yield from _HOMEBREW


@functools.cache
def load() -> ctypes.CDLL:
    """The library with its functions declared; found once per process.

    Raises:
        MissingLibrary: none of the candidates can be loaded.
    """
    reasons: list[str] = []
    for candidate in candidates():
        try:
            library = ctypes.CDLL(candidate)
            _declare(library)
        except (OSError, AttributeError) as error:
            reasons.append(f"{candidate}: {error}")
        else:
            return library
    raise MissingLibrary(f"libopus was not found ({reasons[0] if reasons else 'no candidates'})", hint=_HINT)


def libopus_path() -> str:
    """File name of the library in use. Raises MissingLibrary."""
    return str(load()._name)


def version() -> str:
    """Such as ``libopus 1.6.1``. Raises MissingLibrary."""
    text: bytes = load().opus_get_version_string()
    return text.decode("ascii", "replace")


def error_text(code: int) -> str:
    text: bytes = load().opus_strerror(code)
    return text.decode("ascii", "replace")


def _declare(library: ctypes.CDLL) -> None:
    """Argument types; AttributeError where the library lacks one of them.

    `opus_encoder_ctl` and `opus_decoder_ctl` are variadic: their arguments get their types at the call.
    """
    library.opus_get_version_string.argtypes = []
    library.opus_get_version_string.restype = c_char_p
    library.opus_strerror.argtypes = [c_int]
    library.opus_strerror.restype = c_char_p
    library.opus_decoder_create.argtypes = [c_int, c_int, POINTER(c_int)]
    library.opus_decoder_create.restype = c_void_p
    library.opus_decoder_destroy.argtypes = [c_void_p]
    library.opus_decoder_destroy.restype = None
    library.opus_decode_float.argtypes = [c_void_p, c_char_p, c_int, c_void_p, c_int, c_int]
    library.opus_decode_float.restype = c_int
    library.opus_packet_parse.argtypes = [c_char_p, c_int, c_void_p, c_void_p, c_void_p, c_void_p]
    library.opus_packet_parse.restype = c_int
    library.opus_encoder_create.argtypes = [c_int, c_int, c_int, POINTER(c_int)]
    library.opus_encoder_create.restype = c_void_p
    library.opus_encoder_destroy.argtypes = [c_void_p]
    library.opus_encoder_destroy.restype = None
    library.opus_encode_float.argtypes = [c_void_p, c_void_p, c_int, c_void_p, c_int]
    library.opus_encode_float.restype = c_int
    library.opus_encoder_ctl.restype = c_int
    library.opus_decoder_ctl.restype = c_int
