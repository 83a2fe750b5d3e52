"""What every room may use: time, text, slices of long work, the command line's parsers. It knows nothing of Kafka."""
