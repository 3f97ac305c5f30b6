"""Sockets for SIP over UDP, TCP and TLS (RFC 3261 section 18), and who is behind a name (RFC 3263).

::

    listenon     where to listen            target      where to send, as a URI or a setting says it
    resolve, dns a target's addresses       addresses   which of our own addresses a peer can reach us at
    gate         whom to listen to                  turns   how long, before others in the process have theirs
    udp          one socket                 tls         certificates, and whom to trust
    connection   one TCP or TLS connection  streams     all of them: listeners, limits, reuse
    network      the whole of it: bytes in, bytes out, each with its `Flow`

Laws: whatever a stranger sends, listeners and other connections live on. What a stranger can make us keep is bounded
in number, bytes and time; who says too much is not even read. Nothing is logged that tells who called whom, or from
where.

A message over UDP goes out whatever its size. RFC 3261 section 18.1.1 would have those above 1300 bytes go over TCP,
but few trunks that are reached over UDP listen on TCP too, while fragments arrive nearly everywhere.
"""
