"""What every room may use: time, text, what an answer says, slices of long work, parsers. Of Kafka `answers` alone knows."""
