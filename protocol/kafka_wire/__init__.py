"""Kafka's wire and record formats: pure bytes <-> dataclasses. Imports nothing of the broker."""
