"""Rules for requests."""
