"""Tools that several test packages share: the real broker (real_kafka) and a raw client of the wire protocol (wire)."""
