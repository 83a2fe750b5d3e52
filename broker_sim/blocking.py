"""A cluster's face for code without an event loop."""
