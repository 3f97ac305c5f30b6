"""WebRTC: ICE-lite on one UDP port; DTLS, SRTP and SCTP from aiortc; RTP, RTCP, Opus and pacing are ours."""
