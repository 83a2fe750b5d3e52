"""Metrics: what a scrape shows, held beside a real broker and read by real alerts."""
