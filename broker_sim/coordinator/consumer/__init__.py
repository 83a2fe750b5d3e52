"""Consumer groups of KIP-848: their records and requests, on what all epoch-based groups share (``epochs``)."""
