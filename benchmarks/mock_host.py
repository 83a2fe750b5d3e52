"""Holds librdkafka's mock cluster of one broker: ``python mock_host.py`` prints its address and waits to be ended.

The mock lives in a thread of the library; this interpreter sleeps.
"""

from __future__ import annotations

import signal


def main() -> None:
    """Start, print host:port, wait for a signal."""
    from confluent_kafka import Producer

    producer = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    (broker,) = producer.list_topics(timeout=10).brokers.values()
    print(f"{broker.host}:{broker.port}", flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
