"""Groups from elsewhere: the output of `kafka-consumer-groups`, or JSON, becomes records of `__consumer_offsets`."""
