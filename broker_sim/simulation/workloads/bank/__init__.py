"""A bank on Kafka: tellers read orders, and write what they do about them, with their offsets, in transactions.

Three topics: ``orders`` in, ``accounts`` and ``audit`` out. A read_committed consumer finds each order carried out once, whatever
faults tellers, brokers and coordinators had; `book` has the rules, `world` runs the workload.
"""
