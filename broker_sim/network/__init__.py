"""TCP: listeners, connections, frames in and replies out. This package does not know the meaning of requests."""
