"""The hash of what a group reads: numbers that hash4j, which Kafka takes for it, made of the same topics. (That Kafka feeds it so is
checked beside real brokers: tests/conformance/test_consumer_group_records.py.)"""

from __future__ import annotations

from broker_sim.coordinator.epochs.metadata_hash import metadata_hash, topic_hash
from broker_sim.coordinator.topics import TopicImage, Topics

ID = bytes.fromhex("01020304050607089102030405060708")
PLAIN, WITH_RACKS, WIDE, BOTH = 7254710364867000407, 4894331663470229727, 5302380012180876378, -4118974457939941788


def test_a_topic_s_hash_is_kafkas() -> None:
    assert topic_hash("orders", TopicImage(ID, 2)) == PLAIN
    assert topic_hash("orders", TopicImage(ID, 2, (("a", "b-é"), ("a",)))) == WITH_RACKS
    assert topic_hash("wide", TopicImage(ID, 300)) == WIDE


def test_a_group_s_hash_is_that_of_its_topics_by_name_and_follows_them() -> None:
    topics = Topics()
    topics.change({"wide": TopicImage(ID, 300), "orders": TopicImage(ID, 2)})
    assert metadata_hash(["wide", "orders", "nowhere", "orders"], topics) == BOTH
    assert metadata_hash(["nowhere"], topics) == 0
    topics.change({"orders": TopicImage(ID, 2, (("a",),))})
    assert metadata_hash(["wide", "orders"], topics) not in (0, BOTH)
    topics.change({"orders": TopicImage(ID, 2)})
    assert metadata_hash(["orders", "wide"], topics) == BOTH
