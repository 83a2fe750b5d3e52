"""Helpers for all packages: time, text, contents of responses, slices of long work, parsers. Only `answers` knows Kafka's messages."""
