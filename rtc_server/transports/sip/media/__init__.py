"""The audio of a phone call: ports, where it goes, and the leg that ties it to a session."""
