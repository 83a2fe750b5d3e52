"""Settings under Kafka's own names: `definitions` is the data, `settings` their use."""
