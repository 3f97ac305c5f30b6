"""Phone calls: SIP (RFC 3261) with RTP (RFC 3550), from a trunk to a session and back."""
