"""What outlives a transaction: dialogs, and the session timer (RFC 3261 section 12, RFC 4028). Sans-IO."""
