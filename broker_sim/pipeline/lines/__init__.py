"""What brokers' and clients' logs say of groups and of the partitions of `__consumer_offsets`: lines of text as rows. No Spark in
it."""
