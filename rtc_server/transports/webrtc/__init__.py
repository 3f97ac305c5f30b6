"""WebRTC: ICE-lite on one UDP port; DTLS, SRTP and SCTP from aiortc; RTP, RTCP, Opus and pacing are ours.

::

    offer, negotiation, answer   text: an offer in, an answer out (sdp: what both agreed on; codecchoice: the codec)
    addresses        what an answer offers                        remotecandidates   where an ICE-lite peer is
    udp_mux, ice     one port, who is who (ice_controlling: towards peers that are ICE-lite themselves)
    dtls, flights, contract   aiortc on our own datagrams
    connection       ICE, DTLS and SCTP of one peer               datachannel   events, bounded both ways
    tracks           the call's audio, for us and for aiortc
    peer             one caller: a `session.leg.Leg`              transport   makes callers out of offers

Laws: nothing of a stranger gets past the mux. An answer is ready within milliseconds: nothing is gathered, resolved or
waited for. Every call that does not come about is gone after its deadlines, and whatever ends frees all that it held.
"""
