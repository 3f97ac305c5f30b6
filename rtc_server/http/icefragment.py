"""ICE restarts the WHIP way: a PATCH with nothing but new credentials (RFC 8840; RFC 9725, section 4.3). Sans-IO.

A fragment that has other credentials than the last offer stands for that offer with these credentials and with its
candidates, so a leg need not know of fragments. Its answer is what the leg's answer says of ICE. A fragment that brings
only candidates changes nothing: a peer that sends checks is found by them.
"""

from __future__ import annotations

from dataclasses import dataclass

_UFRAG, _PWD, _CANDIDATE = "a=ice-ufrag:", "a=ice-pwd:", "a=candidate:"
_OF_SESSION = ("a=ice-lite", "a=ice-options:", "a=group:")
_OF_SECTION = ("m=", "a=mid:", _UFRAG, _PWD, _CANDIDATE, "a=end-of-candidates")


@dataclass(frozen=True, slots=True)
class OfferAnswer:
    """The last offer of a leg's peer and the leg's answer, as SDP."""

    offer: str
    answer: str

    @property
    def entity_tag(self) -> str:
        """Names the ICE session (RFC 9725, section 4.3.1): our username fragment, which each restart replaces. Empty
        where there is none."""
        ufrag = _first(self.answer, _UFRAG)
        return f'"{ufrag}"' if ufrag else ""

    def restarted_by(self, fragment: str) -> str | None:
        """The offer that the fragment stands for; None when it brings no other credentials."""
        ufrag, pwd = _first(fragment, _UFRAG), _first(fragment, _PWD)
        if not ufrag or not pwd or (ufrag, pwd) == (_first(self.offer, _UFRAG), _first(self.offer, _PWD)):
            return None
        candidates = [line.strip() for line in fragment.splitlines() if line.startswith(_CANDIDATE)]
        lines: list[str] = []
        for line in self.offer.splitlines():
            if line.startswith(_UFRAG):
                lines.append(_UFRAG + ufrag)
            elif line.startswith(_PWD):
                lines += [_PWD + pwd, *candidates]
            elif not (candidates and line.startswith(_CANDIDATE)):
                lines.append(line)  # a peer that names no candidates is where it was
        return "".join(f"{line}\r\n" for line in lines)

    @property
    def answer_fragment(self) -> str:
        """What the answer says of ICE, with its first media section: all share one transport."""
        lines = self.answer.splitlines()
        starts = [index for index, line in enumerate(lines) if line.startswith("m=")] or [len(lines)]
        end = starts[1] if len(starts) > 1 else len(lines)
        head = [line for line in lines[: starts[0]] if line.startswith(_OF_SESSION)]
        section = [line for line in lines[starts[0] : end] if line.startswith(_OF_SECTION)]
        return "".join(f"{line}\r\n" for line in [*head, *section])


def origin_of(sdp: str) -> list[str]:
    """Who made an offer (RFC 8866, section 5.2): name and session id, the same in all offers of a connection."""
    return _first(sdp, "o=").split()[:2]


def fingerprint_of(sdp: str) -> str:
    """Of the certificate (RFC 8122): the same in all offers of a connection."""
    return _first(sdp, "a=fingerprint:").upper()


def _first(sdp: str, prefix: str) -> str:
    """The value of the first line with this beginning."""
    return next((line.removeprefix(prefix).strip() for line in sdp.splitlines() if line.startswith(prefix)), "")
