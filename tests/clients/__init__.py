"""Real clients against the broker: one list of behaviours, one small driver program per client."""
