"""What is said in SDP: codecs, addresses, keys, hold (RFC 8866, 3264, 4568). Pure text work."""
