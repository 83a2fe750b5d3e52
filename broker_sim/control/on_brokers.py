"""Operations on brokers, on the clock, and on whole clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker_sim.control.shapes import BROKER, CLOCK, CLUSTER
from broker_sim.control.table import Parameter, operation

if TYPE_CHECKING:
    from broker_sim.cluster import Cluster

LONGEST_STEP_S = 366 * 86400.0
NODE = Parameter("broker", "int", "the broker's node id", required=True, least=0, example=1)


@operation("broker.list", "GET /brokers", answer={"brokers": [BROKER]})
async def list_brokers(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Every broker."""
    raise NotImplementedError


@operation("broker.get", "GET /brokers/{broker}", NODE, answer=BROKER)
async def get_broker(cluster: Cluster, given: dict[str, Any]) -> Any:
    """One broker."""
    raise NotImplementedError


@operation("broker.down", "POST /brokers/{broker}/down", NODE, answer=BROKER)
async def take_down(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Take a broker down: its connections are reset, other replicas lead what it led; it keeps its port."""
    raise NotImplementedError


@operation("broker.up", "POST /brokers/{broker}/up", NODE, answer=BROKER)
async def bring_up(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Bring a broker up again, on the port it had."""
    raise NotImplementedError


@operation("broker.restart", "POST /brokers/{broker}/restart", NODE, answer=BROKER)
async def restart(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Take a broker down and up; its coordinators start again from their logs."""
    raise NotImplementedError


@operation("clock.get", "GET /clock", answer=CLOCK)
async def get_clock(cluster: Cluster, given: dict[str, Any]) -> Any:
    """What time it is for the brokers."""
    raise NotImplementedError


@operation(
    "clock.advance",
    "POST /clock/advance",
    Parameter("by", "duration", "how far", required=True, least=0, most=LONGEST_STEP_S, example="45s"),
    Parameter(
        "expire",
        "list",
        "members (member, instance or client ids) that send no heartbeat meanwhile",
        example=["consumer-2"],
    ),
    answer={"now_ms": "integer", "fired": ["object"]},
    waits=True,
)
async def advance(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Let time pass on a manual clock: each timer fires at its own instant; members not named in expire stay alive."""
    raise NotImplementedError


CLUSTER_ID = Parameter("cluster", "str", "the cluster's id", required=True, example="default")


@operation("cluster.list", "GET /clusters", answer={"clusters": [CLUSTER]}, on="clusters")
async def list_clusters(clusters: Any, given: dict[str, Any]) -> Any:
    """Every virtual cluster of the process."""
    raise NotImplementedError


@operation("cluster.get", "GET /clusters/{cluster}", CLUSTER_ID, answer=CLUSTER, on="clusters")
async def get_cluster(clusters: Any, given: dict[str, Any]) -> Any:
    """One virtual cluster."""
    raise NotImplementedError


@operation(
    "cluster.create",
    "POST /clusters",
    Parameter("id", "str", "its id (default: a new one); letters, digits, dots, dashes", example="test-1"),
    Parameter("brokers", "int", "number of brokers", default=1, least=1, most=100, example=3),
    Parameter(
        "topics",
        "map",
        "topics and their numbers of partitions (-1: num.partitions)",
        items="int",
        example={"orders": 6},
    ),
    Parameter("as_version", "str", "the Kafka to behave as", example="4.1"),
    Parameter("config", "map", "broker settings by Kafka's names", example={"group.initial.rebalance.delay.ms": "0"}),
    Parameter("clock", "str", "real, scaled:N or manual", default="real", example="manual"),
    Parameter("seed", "int", "for what is left to chance"),
    Parameter("data", "str", "keep its logs under this name in the data directory (default: in memory)"),
    answer=CLUSTER,
    on="clusters",
)
async def create_cluster(clusters: Any, given: dict[str, Any]) -> Any:
    """Start a virtual cluster on ports of its own."""
    raise NotImplementedError


@operation("cluster.delete", "DELETE /clusters/{cluster}", CLUSTER_ID, answer={"deleted": "string"}, on="clusters")
async def delete_cluster(clusters: Any, given: dict[str, Any]) -> Any:
    """Stop a virtual cluster; the one that the process was started with stays."""
    raise NotImplementedError
