"""Phone calls: SIP (RFC 3261) with RTP (RFC 3550), from a trunk to a session and back.

::

    network       bytes: UDP, TCP, TLS            message       text: requests, responses, headers, digest
    transaction   until it has arrived            dialog        what two ends know of each other
    negotiation   offer and answer in SDP         media         ports, where packets go, the leg of a session
    trunk         who may call whom               call          from the INVITE to the BYE
    useragent     knows them all                  optionsprobe  asks a server whether it is there
    flow, hosts   which way a message went, and how addresses are written

Message, transaction, dialog and negotiation are sans-IO: bytes and moments go in, bytes come out.
"""
