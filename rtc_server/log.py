"""Structured logs: readable lines on a terminal, JSON lines elsewhere.

Laws: a message is a fixed text, what varies goes into fields. Never in a record: speech, text, prompts, SDP, addresses
of callers, credentials. Records of a session carry its `session_id`.
"""

from __future__ import annotations

import logging
import sys
from typing import Any

import structlog

Logger = structlog.stdlib.BoundLogger


def get_logger(name: str, **fields: Any) -> Logger:
    return structlog.stdlib.get_logger(name, **fields)


def configure(level: str = "info", log_format: str = "auto") -> None:
    """Set up logging for a process. `log_format`: ``json``, ``text``, or ``auto``: JSON unless stderr is a terminal."""
    json_lines = log_format == "json" or (log_format == "auto" and not sys.stderr.isatty())
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
    ]
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer() if json_lines else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    for chatty in ("aioice", "aiortc", "asyncio", "aiohttp.access"):
        logging.getLogger(chatty).setLevel(max(logging.WARNING, root.level))
    # It logs the address of whoever sends malformed HTTP; defects of ours are logged by the error middleware.
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
    # It warns of every subprotocol that a WebSocket's client offers: some put a key there.
    logging.getLogger("aiohttp.websocket").setLevel(logging.ERROR)
