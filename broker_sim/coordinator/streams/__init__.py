"""Streams groups (KIP-1071): the members are Kafka Streams threads, which get tasks of one topology.

The third kind of groups on the epoch core (``epochs``). The first member sends the topology, which then stays the same; the coordinator
determines the numbers of partitions of its internal topics, and the broker creates them.
"""
