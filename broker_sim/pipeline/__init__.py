"""What happened to the consumer groups, on Spark: from the logs of a simulated or a real cluster, and from the journal.

It knows the protocol's bytes and the journal's words, no broker: so it runs where the logs are.
"""
