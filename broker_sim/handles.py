"""Handles on groups, logs and brokers of a running cluster."""
