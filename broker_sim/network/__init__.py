"""TCP: listeners, connections, frames in and replies out. Nothing here knows what a request means."""
