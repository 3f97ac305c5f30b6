"""Requests and their responses, sent until they arrive (RFC 3261 section 17). Sans-IO."""
