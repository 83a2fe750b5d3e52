"""Lines of brokers' and clients' logs about groups and the partitions of `__consumer_offsets`, as rows. No Spark in it."""
