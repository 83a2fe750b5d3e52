"""Consumer groups of KIP-848: their records and requests, on what all groups by epochs share (``epochs``)."""
