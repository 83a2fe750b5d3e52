"""The order of requests at the broker, scripted."""
