"""Which content coding a client wants of an answer (RFC 9110, sections 8.4 and 12.5.3). Sans-IO."""

from __future__ import annotations

import gzip
from collections.abc import Iterator

IDENTITY, GZIP = "identity", "gzip"
_ALIASES = {"x-gzip": GZIP}


def wants_gzip(accept_encoding: str) -> bool:
    """Does a client that says so take gzip, and like it as much as plain bytes?

    Says it nothing of plain bytes, it gets gzip wherever it takes it. Malformed parts say nothing.
    """
    weights = dict(_weights(accept_encoding))
    rest = weights.get("*", 0.0)
    return weights.get(GZIP, rest) > 0 and weights.get(GZIP, rest) >= weights.get(IDENTITY, 0.0)


def compressed(body: bytes) -> bytes | None:
    """The same bytes for the same body; None where nothing is won."""
    smaller = gzip.compress(body, compresslevel=9, mtime=0)
    return smaller if len(smaller) < len(body) else None


def _weights(accept_encoding: str) -> Iterator[tuple[str, float]]:
    for part in accept_encoding.lower().split(","):
        coding, _, parameters = part.partition(";")
        name, _, value = parameters.partition("=")
        if (weight := _weight(value) if name.strip() == "q" else 1.0) is not None:
            yield _ALIASES.get(coding.strip(), coding.strip()), weight


def _weight(text: str) -> float | None:
    try:
        weight = float(text)
    except ValueError:
        return None
    return weight if 0 <= weight <= 1 else None
