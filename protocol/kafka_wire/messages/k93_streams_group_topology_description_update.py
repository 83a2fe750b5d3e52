"""StreamsGroupTopologyDescriptionUpdate (93, KIP-1331). A member of a streams group describes its topology, node by node."""

from __future__ import annotations

from kafka_wire.schema import Api, Entity, array, int8, int16, int32, message, nested, string, struct

API = Api(93, "0", flexible="0+", advertised={"4.4": "0"})


@struct
class TopologyDescriptionNode:
    name: str = string(default="")
    node_type: int = int8(default=0)
    source_topics: list[str] = array("string", default_factory=list, entity=Entity.TOPIC)
    sink_topic: str | None = string(nullable="0+", default=None, entity=Entity.TOPIC)
    stores: list[str] = array("string", default_factory=list)
    successors: list[str] = array("string", default_factory=list)


@struct
class TopologyDescriptionSubtopology:
    subtopology_id: str = string(default="")
    nodes: list[TopologyDescriptionNode] = array(TopologyDescriptionNode, default_factory=list)


@struct
class TopologyDescriptionGlobalStore:
    source: TopologyDescriptionNode = nested(TopologyDescriptionNode, default_factory=TopologyDescriptionNode)
    processor: TopologyDescriptionNode = nested(TopologyDescriptionNode, default_factory=TopologyDescriptionNode)


@struct
class TopologyDescription:
    subtopologies: list[TopologyDescriptionSubtopology] = array(TopologyDescriptionSubtopology, default_factory=list)
    global_stores: list[TopologyDescriptionGlobalStore] = array(TopologyDescriptionGlobalStore, default_factory=list)


@message(API)
class StreamsGroupTopologyDescriptionUpdateRequest:
    group_id: str = string(default="", entity=Entity.GROUP)
    member_id: str = string(default="", entity=Entity.MEMBER)
    topology_epoch: int = int32(default=0)
    topology_description: TopologyDescription = nested(TopologyDescription, default_factory=TopologyDescription)


@message(API)
class StreamsGroupTopologyDescriptionUpdateResponse:
    throttle_time_ms: int = int32(default=0)
    error_code: int = int16(default=0)
    error_message: str | None = string(nullable="0+", default=None)
