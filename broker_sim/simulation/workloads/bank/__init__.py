"""A bank on Kafka: tellers read orders, and write what they do about them, with their offsets, in transactions.

Three topics: ``orders`` in, ``accounts`` and ``audit`` out. Whoever reads what is committed finds each order carried out once, whatever
became of tellers, brokers and coordinators on the way; `book` knows what must hold, `world` lets it live.
"""
