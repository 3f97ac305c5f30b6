"""RTP of one call, whatever has negotiated it: what WebRTC and telephony share.

::

    session          packets and reports of one peer              receiver, sender   its two streams
    protection       SRTP, or none                                digitformat        how digits are written

Codec, keys, payload types and digits may change in mid-call; SSRC, sequence numbers and the jitter buffer stay.
"""
