"""A real-time media server that puts full-duplex speech models on the line.

Imports point one way::

    cli -> server -> http -> transports -> session -> engine.client

Everybody may use ``media``, ``events``, ``errors``, ``metrics`` and ``log``; ``media`` and ``engine.stepper`` import
nothing of ours above them; torch stands only in ``engine/personaplex``. ``tests/test_architecture.py`` keeps it so.

Words: a *frame* is 80 ms for the engine (1920 samples, 24 kHz, mono), a *packet* is one RTP packet of 20 ms, a *chunk*
is whatever came off a socket, a *slot* is one row of the engine's batch, a *tick* is one engine step for all live
slots, a *leg* is one caller's connection.
"""

__version__ = "0.1.0"
