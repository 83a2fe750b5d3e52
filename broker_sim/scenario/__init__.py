"""Scenarios: incidents as files, with their cluster, clients, steps and expectations."""
