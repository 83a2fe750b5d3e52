"""The keys of all APIs, and what their message modules declare of them. Written by `make docs`; a test keeps it current."""

from __future__ import annotations

import enum

from kafka_wire.schema import Api


class ApiKey(enum.IntEnum):
    """API keys by Kafka's names (ApiKeys.java); those that ``kafka_wire.messages`` has a module for."""

    @property
    def kafka_name(self) -> str:
        """The name in Kafka's documentation: ``OffsetCommit``."""
        return "".join(map(str.capitalize, self.name.split("_")))

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    INCREMENTAL_ALTER_CONFIGS = 44
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92
    STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE = 93


APIS = (
    Api(
        0, "3-13", flexible="9+", advertised={"3.4": "0-9", "3.7": "0-10", "3.8": "0-11", "4.0": "3-12", "4.1": "3-13"}
    ),
    Api(
        1,
        "4-18",
        flexible="12+",
        advertised={"3.4": "0-13", "3.5": "0-15", "3.7": "0-16", "3.9": "0-17", "4.0": "4-17", "4.1": "4-18"},
    ),
    Api(2, "0-11", flexible="6+", advertised={"3.4": "0-7", "3.5": "0-8", "3.9": "0-9", "4.0": "1-10", "4.2": "1-11"}),
    Api(3, "0-13", flexible="9+", advertised={"3.4": "0-12", "4.0": "0-13"}),
    Api(8, "0-10", flexible="8+", advertised={"3.4": "0-8", "3.7": "0-9", "4.0": "2-9", "4.2": "2-10"}),
    Api(9, "0-10", flexible="6+", advertised={"3.4": "0-8", "3.7": "0-9", "4.0": "1-9", "4.2": "1-10"}),
    Api(10, "0-6", flexible="3+", advertised={"3.4": "0-4", "3.8": "0-5", "3.9": "0-6"}),
    Api(11, "0-9", flexible="6+", advertised={"3.4": "0-9", "4.0": "2-9", "4.1": "0-9"}),
    Api(12, "0-4", flexible="4+", advertised={"3.4": "0-4"}),
    Api(13, "0-5", flexible="4+", advertised={"3.4": "0-5"}),
    Api(14, "0-5", flexible="4+", advertised={"3.4": "0-5"}),
    Api(15, "0-6", flexible="5+", advertised={"3.4": "0-5", "4.0": "0-6"}),
    Api(16, "0-5", flexible="3+", advertised={"3.4": "0-4", "3.8": "0-5"}),
    Api(17, "0-1", advertised={"3.4": "0-1"}),
    Api(18, "0-5", flexible="3+", advertised={"3.4": "0-3", "3.9": "0-4", "4.4": "0-5"}),
    Api(19, "0-7", flexible="5+", advertised={"3.4": "0-7", "4.0": "2-7"}),
    Api(20, "0-6", flexible="4+", advertised={"3.4": "0-6", "4.0": "1-6"}),
    Api(21, "0-2", flexible="2+", advertised={"3.4": "0-2"}),
    Api(22, "0-5", flexible="2+", advertised={"3.4": "0-4", "3.8": "0-5"}),
    Api(23, "0-4", flexible="4+", advertised={"3.4": "0-4", "4.0": "2-4"}),
    Api(24, "0-5", flexible="3+", advertised={"3.4": "0-3", "3.6": "0-4", "3.8": "0-5"}),
    Api(25, "0-4", flexible="3+", advertised={"3.4": "0-3", "3.8": "0-4"}),
    Api(26, "0-5", flexible="3+", advertised={"3.4": "0-3", "3.8": "0-4", "4.0": "0-5"}),
    Api(27, "0-2", flexible="1+", advertised={"3.4": "0-1", "4.0": "1", "4.2": "1-2"}),
    Api(28, "0-6", flexible="3+", advertised={"3.4": "0-3", "3.8": "0-4", "4.0": "0-5", "4.4": "0-6"}),
    Api(29, "0-3", flexible="2+", advertised={"3.4": "0-3", "4.0": "1-3"}),
    Api(30, "0-3", flexible="2+", advertised={"3.4": "0-3", "4.0": "1-3"}),
    Api(31, "0-3", flexible="2+", advertised={"3.4": "0-3", "4.0": "1-3"}),
    Api(32, "0-4", flexible="4+", advertised={"3.4": "0-4", "4.0": "1-4"}),
    Api(33, "0-2", flexible="2+", advertised={"3.4": "0-2"}),
    Api(35, "0-5", flexible="2+", advertised={"3.4": "0-4", "4.0": "1-4", "4.3": "1-5"}),
    Api(36, "0-2", flexible="2+", advertised={"3.4": "0-2"}),
    Api(37, "0-3", flexible="2+", advertised={"3.4": "0-3"}),
    Api(42, "0-3", flexible="2+", advertised={"3.4": "0-2", "4.4": "0-3"}),
    Api(44, "0-1", flexible="1+", advertised={"3.4": "0-1"}),
    Api(47, "0", advertised={"3.4": "0"}),
    Api(48, "0-1", flexible="1+", advertised={"3.4": "0-1"}),
    Api(50, "0", flexible="0+", advertised={"3.5": "0-0"}),
    Api(51, "0", flexible="0+", advertised={"3.5": "0-0"}),
    Api(60, "0-2", flexible="0+", advertised={"3.4": "0", "3.7": "0-1", "4.0": "0-2"}),
    Api(61, "0", flexible="0+", advertised={"3.4": "0"}),
    Api(65, "0", flexible="0+", advertised={"3.4": "0"}),
    Api(66, "0-2", flexible="0+", advertised={"3.4": "0", "3.8": "0-1", "4.1": "0-2"}),
    Api(68, "0-1", flexible="0+", advertised={"3.7": "0-0", "4.0": "0-1"}),
    Api(69, "0-1", flexible="0+", advertised={"3.8": "0-0", "4.0": "0-1"}),
    Api(74, "0-1", flexible="0+", advertised={"3.7": "0", "4.1": "0-1"}),
    Api(75, "0", flexible="0+", advertised={"3.8": "0"}),
    Api(76, "1", flexible="0+", advertised={"4.1": "1"}),
    Api(77, "1", flexible="0+", advertised={"4.1": "1"}),
    Api(78, "1-2", flexible="0+", advertised={"4.1": "1", "4.2": "1-2"}),
    Api(79, "1-2", flexible="0+", advertised={"4.1": "1", "4.2": "1-2"}),
    Api(83, "0", flexible="0+", advertised={"4.1": "0"}),
    Api(84, "0", flexible="0+", advertised={"4.1": "0"}),
    Api(85, "0-1", flexible="0+", advertised={"4.1": "0", "4.2": "0-1"}),
    Api(86, "0", flexible="0+", advertised={"4.1": "0"}),
    Api(87, "0-1", flexible="0+", advertised={"4.1": "0", "4.2": "0-1"}),
    Api(88, "0-1", flexible="0+", advertised={"4.2": "0", "4.4": "0-1"}),
    Api(89, "0-1", flexible="0+", advertised={"4.2": "0", "4.4": "0-1"}),
    Api(90, "0-1", flexible="0+", advertised={"4.1": "0", "4.2": "0-1"}),
    Api(91, "0", flexible="0+", advertised={"4.1": "0"}),
    Api(92, "0", flexible="0+", advertised={"4.1": "0"}),
    Api(93, "0", flexible="0+", advertised={"4.4": "0"}),
)
"""``API`` of every message module, in the order of the keys."""
