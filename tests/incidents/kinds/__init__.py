"""Kinds of events in groups: `async def kind(stage)` for each kind, which sets up its groups and writes the ledger's events."""
