"""WebSockets: the same sessions as over WebRTC, for clients that send audio through a socket.

::

    wire             what a leg needs: a socket that sends, and a dialect, one protocol's words
    intake           the caller's audio: bounded, at the pace of its own or of time
    outbox, pings    what is to be sent: bounded, and held to what the peer has read
    closing          codes and sentences of the end
    leg              one caller: a `session.leg.Leg`
    moshi, pcm       the dialects

Laws: nothing here reads a socket, that is the endpoint's part. Nothing waits without a bound, and who does not read is
let go. A leg has one task, and leaves none behind.
"""
