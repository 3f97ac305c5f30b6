"""Who may call whom: trunks, their numbers, and the gate that all requests of strangers meet."""
