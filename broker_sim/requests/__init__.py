"""A request from its frame to its handler and back: its route, its context, what it is about, and how it fails."""
