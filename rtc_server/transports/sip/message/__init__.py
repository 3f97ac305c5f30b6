"""SIP as text: messages, headers, framing and digest (RFC 3261 sections 7, 18.3, 20 and 22). Sans-IO."""
