"""Settings under Kafka's own names: `definitions` is the data, `settings` what is done with it."""
