"""A process that holds an engine, and the socket to it. `rtc_server.engine.remote` is what the server sees of it.

::

    incarnation   one life of the process: requests and their answers, and a watch over both     (server)
    child         the process itself: launch, last words, end                                    (server)
    worker        the main program of the process: a `LocalEngine` that serves a socket          (engine)
    link          messages over the socket, on an event loop                                     (both)
    messages      what is said
    wire          frames: JSON, and sound as it is
    telemetry     the process's metrics, so that one address shows them all

The law: whatever the process does, the server's event loop never waits for it. It may stall, lie, or die in the middle
of a frame; the calls that it holds are then lost, and nothing else is.
"""
