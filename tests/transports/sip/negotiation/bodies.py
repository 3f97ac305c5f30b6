"""Session descriptions for the tests: the files of tests/data/sip, and others made of lines."""

from __future__ import annotations

import random
from pathlib import Path

from aiortc.sdp import SessionDescription

from rtc_server.media.audioformat import CodecName
from rtc_server.transports.sip.negotiation.agreedmedia import LocalMedia, MediaPolicy, SrtpPolicy
from rtc_server.transports.sip.negotiation.offeranswer import MediaNegotiation

DIRECTORY = Path(__file__).parents[3] / "data" / "sip"
LOCAL = LocalMedia("192.0.2.7", 40_000, 40_001)
ALL_CODECS: tuple[CodecName, ...] = ("opus", "G722", "PCMU", "PCMA")
KEY = "jnOHFmt9Wu8GviL3mdNJVK2o5zgVxX1THTmDE2LF"
OTHER_KEY = "FIYMHOenezZ6GYSU/nbdjmuIsclmjHTLL4tbUtpc"
CRYPTO = f"a=crypto:1 AES_CM_128_HMAC_SHA1_80 inline:{KEY}"


def names() -> list[str]:
    return sorted(path.stem for path in DIRECTORY.glob("*.sdp"))


def read(name: str) -> bytes:
    return (DIRECTORY / f"{name}.sdp").read_bytes()


def body(*media: str, address: str = "IN IP4 198.51.100.7") -> bytes:
    """A description of `media` lines below one c= line."""
    return "\r\n".join(["v=0", "o=- 1 1 IN IP4 198.51.100.7", "s=-", f"c={address}", "t=0 0", *media, ""]).encode()


def call(
    codecs: tuple[CodecName, ...] = ALL_CODECS, srtp: SrtpPolicy = "accept", local: LocalMedia = LOCAL, seed: int = 1
) -> MediaNegotiation:
    """A negotiation whose keys are the same in every run."""
    return MediaNegotiation(local, MediaPolicy(codecs, srtp), random.Random(seed).randbytes)


def crlf_lines(description: bytes) -> list[str]:
    """Without the line ends, which must be CRLF."""
    text = description.decode()
    assert text.endswith("\r\n")
    found = text[:-2].split("\r\n")
    assert all(found)
    assert not {"\r", "\n"} & set("".join(found))
    return found


def lines(description: bytes) -> list[str]:
    """The same, of one that aiortc can read too."""
    SessionDescription.parse(description.decode())
    return crlf_lines(description)


def media_lines(description: bytes) -> list[str]:
    return [line for line in lines(description) if line.startswith("m=")]


def version(description: bytes) -> int:
    return int(lines(description)[1].split()[2])


def direction(description: bytes) -> str:
    (found,) = (line for line in lines(description) if line[2:] in ("sendrecv", "sendonly", "recvonly", "inactive"))
    return found[2:]
