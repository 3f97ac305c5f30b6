"""SDP offers for the tests: the files of tests/data/sdp, and a description of our side to answer them with."""

from __future__ import annotations

from pathlib import Path

from rtc_server.transports.webrtc.ice import Credentials
from rtc_server.transports.webrtc.offer import Fingerprint
from rtc_server.transports.webrtc.sdp import LocalDescription

DIRECTORY = Path(__file__).parents[2] / "data" / "sdp"

LOCAL = LocalDescription(
    credentials=Credentials("0123456789abcdef", "0123456789abcdef0123456789abcdef"),
    fresh_credentials=Credentials("fedcba9876543210", "fedcba9876543210fedcba9876543210"),
    fingerprint=Fingerprint("sha-256", ":".join(["AB"] * 32)),
    addresses=("192.0.2.7", "2001:db8::7", "127.0.0.1"),
    port=8125,
    ssrc=0x01020304,
    cname="agent-cname",
    session_id=4611686018427387903,
)


def names() -> list[str]:
    return sorted(path.name for path in DIRECTORY.glob("*.sdp"))


def read(name: str) -> str:
    """An offer by its file name or the beginning of it; line ends as they are."""
    (path,) = DIRECTORY.glob(name if name.endswith(".sdp") else f"{name}_*.sdp")
    return path.read_bytes().decode()


def with_codecs(formats: str, *lines: str, name: str = "S01") -> str:
    """An offer with other formats in its audio section, and other `a=rtpmap` and `a=fmtp` lines."""
    kept = [line for line in read(name).split("\r\n") if not line.startswith(("a=rtpmap:", "a=fmtp:", "a=rtcp-fb:"))]
    at = next(index for index, line in enumerate(kept) if line.startswith("m=audio"))
    kept[at] = f"m=audio 9 UDP/TLS/RTP/SAVPF {formats}"
    return "\r\n".join([*kept[: at + 1], *lines, *kept[at + 1 :]])


def with_lines(offer: str, replacements: dict[str, str | None]) -> str:
    """Replace every line that begins with a key; None takes it out."""
    lines = []
    for line in offer.split("\r\n"):
        key = next((key for key in replacements if line.startswith(key)), None)
        new = line if key is None else replacements[key]
        if new is not None:
            lines.append(new)
    return "\r\n".join(lines)
