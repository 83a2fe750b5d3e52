"""A member of a share group (librdkafka's share consumer) that prints what it was given, a line for each record: value, delivery count,
and how it acknowledges it. Records that begin with "again" are released at their first delivery, those that begin with "bad" are
rejected. Ends when so many records were accepted, and leaves.

    python confluent_share_member.py BOOTSTRAP GROUP TOPIC ACCEPTED
"""

from __future__ import annotations

import sys
import time

from confluent_kafka import AcknowledgeType, ShareConsumer


def main(bootstrap: str, group: str, topic: str, wanted: str) -> None:
    consumer = ShareConsumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "share.acknowledgement.mode": "explicit"}
    )
    consumer.subscribe([topic])
    print("subscribed", flush=True)
    accepted, end = 0, time.monotonic() + 60
    while accepted < int(wanted) and time.monotonic() < end:
        for message in consumer.poll(0.5):
            if message.error() is not None:
                print("error", message.error(), flush=True)
                continue
            value, count = message.value().decode(), message.delivery_count()
            kind = AcknowledgeType.ACCEPT
            if value.startswith("again") and count == 1:
                kind = AcknowledgeType.RELEASE
            elif value.startswith("bad"):
                kind = AcknowledgeType.REJECT
            else:
                accepted += 1
            consumer.acknowledge(message, kind)
            print(value, count, kind.name.lower(), flush=True)
        for partition, error in consumer.commit_sync().items():
            if error is not None:
                print("refused", partition, error, flush=True)
    print("accepted", accepted, flush=True)
    consumer.close()
    print("left", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
