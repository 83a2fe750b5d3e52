"""What several test packages share: the real broker (real_kafka) and a raw client of the wire (wire)."""
