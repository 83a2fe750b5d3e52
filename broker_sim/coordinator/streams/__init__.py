"""Streams groups (KIP-1071): the members are Kafka Streams threads, and what is assigned to them are the tasks of one topology.

The third payload on the epoch core (``epochs``). The topology comes with the first member and stays as it is; the coordinator decides
how many partitions its internal topics have, and the broker creates them.
"""
