"""The host's side of one machine."""
