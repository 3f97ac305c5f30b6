"""The outside: each transport turns its wire into calls of `session.leg.Leg`. They do not import one another; what
webrtc and sip share is in `rtp`."""
