"""The transaction coordinator: a pure function of its events, under the rules of ``coordinator.outcome``."""
