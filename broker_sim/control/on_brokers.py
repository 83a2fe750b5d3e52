"""Operations on brokers, on the clock, and on whole clusters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from broker_sim.api.cluster_options import INTERNAL_TOPICS, ON_DEMAND, ClockName, Release, TopicsKind
from broker_sim.api.time_control import WAIT
from broker_sim.common.text import UsageError
from broker_sim.config.settings import SECURITY_PROTOCOLS
from broker_sim.control.on_scenarios import SCENARIO_FILE, running, scenario_of
from broker_sim.control.resolve import check_broker
from broker_sim.control.shapes import BROKER, CLOCK, CLUSTER
from broker_sim.control.table import OPERATIONS, operation
from broker_sim.fields.field import Field
from broker_sim.fields.kinds import (
    Choice,
    Count,
    Duration,
    Flag,
    ListOf,
    MapOf,
    NameOrNumber,
    Password,
    SettingValue,
    Text,
)

if TYPE_CHECKING:
    from broker_sim.api.cluster import Cluster
    from broker_sim.control.clusters import Clusters

LONGEST_STEP_S = 3653 * 86400.0
NODE = Field("broker", Count(0), "the broker's node id", required=True, example=1)
GRACEFUL = Field("graceful", Flag(), "controlled shutdown: leaders move away first (default: only for a restart)")


def shown(cluster: Cluster, node_id: int) -> dict[str, Any]:
    """A broker as JSON; see shapes.BROKER."""
    broker = cluster.state.brokers[node_id]
    return {
        "broker": node_id,
        "host": broker.host,
        "port": broker.port,
        "rack": broker.rack,
        "alive": broker.alive,
        "leads": sum(partition.leader == node_id for partition in cluster.state.partitions()),
    }


@operation("broker.list", "GET /brokers", answer={"brokers": [BROKER]})
async def list_brokers(cluster: Cluster, given: dict[str, Any]) -> Any:
    """List all brokers: address, rack, whether they are alive, number of led partitions."""
    return {"brokers": [shown(cluster, node_id) for node_id in cluster.state.brokers]}


@operation("broker.get", "GET /brokers/{broker}", NODE, answer=BROKER)
async def get_broker(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Show a broker: address, rack, whether it is alive, number of led partitions."""
    check_broker(cluster, given["broker"])
    return shown(cluster, given["broker"])


@operation(
    "broker.down",
    "POST /brokers/{broker}/down",
    NODE,
    GRACEFUL,
    Field("noticed_after", Duration(), "how long Metadata still lists the broker; Kafka: about 9 s (default: 0)"),
    answer=BROKER,
)
async def take_down(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Stop a broker: connections are reset, other replicas become leaders; it keeps its port."""
    check_broker(cluster, given["broker"])
    unnoticed = given.get("noticed_after", 0)
    await cluster.broker_down(given["broker"], graceful=given.get("graceful", False), noticed_after=unnoticed)
    return shown(cluster, given["broker"])


@operation(
    "broker.up",
    "POST /brokers/{broker}/up",
    NODE,
    Field("elect", Choice(("preferred",)), "preferred: elect the first replica of every partition afterwards"),
    answer=BROKER,
)
async def bring_up(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Start a stopped broker on the same port."""
    check_broker(cluster, given["broker"])
    try:
        await cluster.broker_up(given["broker"], elect=given.get("elect"))
    except OSError as error:
        raise UsageError(f"broker {given['broker']} can't bind its port: {error.strerror or error}") from None
    return shown(cluster, given["broker"])


@operation("broker.restart", "POST /brokers/{broker}/restart", NODE, GRACEFUL, answer=BROKER)
async def restart(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Restart a broker; its coordinators load from their logs."""
    check_broker(cluster, given["broker"])
    await cluster.broker(given["broker"]).restart(graceful=given.get("graceful", True))
    return shown(cluster, given["broker"])


@operation(
    "broker.advertise",
    "POST /brokers/{broker}/advertise",
    NODE,
    Field(
        "listener",
        Text(),
        "NAME://HOST:PORT, or HOST:PORT of the first listener",
        required=True,
        example="localhost:32768",
    ),
    answer=BROKER,
)
async def advertise(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Advertise another address of a broker, as Kafka's advertised.listeners, from the next response on."""
    check_broker(cluster, given["broker"])
    cluster.broker(given["broker"]).advertise(given["listener"])
    return shown(cluster, given["broker"])


@operation(
    "broker.restart_all",
    "POST /brokers/restart",
    Field("graceful", Flag(), "send pending responses before the connections are closed"),
    answer={"brokers": [BROKER]},
)
async def restart_all(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Restart all brokers at the same time; every coordinator loads from its log."""
    await cluster.restart_all(graceful=given.get("graceful", False))
    return {"brokers": [shown(cluster, node_id) for node_id in cluster.state.brokers]}


# --- clock ------------------------------------------------------------------------------------------------------------


def _clock(cluster: Cluster) -> dict[str, Any]:
    time, timer = cluster.time, cluster.time.next_timer()
    shown = None if timer is None else {"due_ms": timer[0], "timer": timer[1]}
    return {"mode": time.mode, "rate": time.rate, "now_ms": time.now_ms(), "next_timer": shown}


@operation("clock.get", "GET /clock", answer=CLOCK)
async def get_clock(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Show the brokers' clock: mode, rate, time, next timer."""
    return _clock(cluster)


@operation(
    "clock.advance",
    "POST /clock/advance",
    Field("by", Duration(most=LONGEST_STEP_S), "how far to advance", required=True, example="45s"),
    Field(
        "expire",
        ListOf(Text()),
        "members that send no heartbeats meanwhile, by member id, instance id or client id",
        example=["consumer-2"],
    ),
    Field(
        "wait", Duration(), f"real time for the others to rejoin before a rebalance timeout passes (default: {WAIT})"
    ),
    answer={"now_ms": "integer", "fired": ["string"]},
    waits=True,
)
async def advance(cluster: Cluster, given: dict[str, Any]) -> Any:
    """Advance a manual clock: each timer fires at its deadline; connected members not named in expire stay alive."""
    fired = await cluster.time.advance(given["by"], expire=given.get("expire", []), wait=given.get("wait", WAIT))
    return {"now_ms": cluster.time.now_ms(), "fired": fired}


# --- clusters ---------------------------------------------------------------------------------------------------------


def overview(clusters: Clusters, name: str) -> dict[str, Any]:
    """A cluster as JSON; see shapes.CLUSTER."""
    cluster = clusters.get(name)
    return {
        "id": name,
        "bootstrap": cluster.bootstrap,
        "listeners": {name: cluster.bootstrap_of(name) for name in cluster.listener_names},
        "brokers": len(cluster.brokers),
        "as_version": cluster.config.as_version,
        "security_protocol": cluster.security.protocol,
        "ca": cluster.security.ca_pem,
        "clock": cluster.time.mode,
        "topics": list(cluster.state.topics),
    }


CLUSTER_ID = Field("cluster", Text(), "the cluster's id", required=True, example="default")


@operation("cluster.list", "GET /clusters", answer={"clusters": [CLUSTER]}, on="clusters")
async def list_clusters(clusters: Clusters, given: dict[str, Any]) -> Any:
    """List the virtual clusters of the process."""
    return {"clusters": [overview(clusters, name) for name, _ in clusters.items()]}


@operation("cluster.get", "GET /clusters/{cluster}", CLUSTER_ID, answer=CLUSTER, on="clusters")
async def get_cluster(clusters: Clusters, given: dict[str, Any]) -> Any:
    """Show a virtual cluster: bootstrap address, release, clock, topics."""
    return overview(clusters, given["cluster"])


@operation(
    "cluster.create",
    "POST /clusters",
    Field("id", Text(), "id of the cluster (default: generated); letters, digits, dots, dashes", example="test-1"),
    Field("brokers", Count(1, 100), "number of brokers", default=1, example=3),
    Field(
        "topics",
        TopicsKind(),
        "topic name: partitions (-1: num.partitions), or a map with partitions and settings",
        example={"orders": 6},
    ),
    Field("as_version", Release(), "the Kafka release to behave as", default="4.1", example="4.1"),
    Field(
        "config", MapOf(SettingValue()), "settings by Kafka's names", example={"group.initial.rebalance.delay.ms": "0"}
    ),
    Field(
        "security_protocol",
        Choice(SECURITY_PROTOCOLS),
        "what clients must do",
        default=SECURITY_PROTOCOLS[0],
    ),
    Field("users", MapOf(Password()), "passwords by user name, for SASL", example={"alice": "secret"}),
    Field(
        "internal_topics",
        Choice(INTERNAL_TOPICS),
        "when __consumer_offsets and the other internal topics are created",
        default=ON_DEMAND,
    ),
    Field("clock", ClockName(), "real, scaled:N or manual", default="real", example="manual"),
    Field("seed", NameOrNumber(), "seed of the random numbers"),
    Field(
        "scenario", Text(), "an included scenario whose cluster and topics it has; with scenario_file: the file's name"
    ),
    Field("scenario_file", SCENARIO_FILE, "the text of a scenario file, whose cluster and topics it has"),
    Field("data", Text(), "name of its directory within the data directory (default: in memory)"),
    answer=CLUSTER,
    on="clusters",
)
async def create_cluster(clusters: Clusters, given: dict[str, Any]) -> Any:
    """Start a virtual cluster on its own ports; of a scenario, parameters that are not their defaults replace the file's."""
    from broker_sim.api.cluster import ClusterError

    options = dict(given)
    name, data = options.pop("id", None), options.pop("data", None)
    file = options.pop("scenario", None), options.pop("scenario_file", None)
    scenario = None if file == (None, None) else scenario_of(*file)
    if scenario is not None:
        options = _of_scenario(scenario.cluster, options)
    try:
        name = await clusters.create(name, data=data, **options)
    except ClusterError as error:
        raise UsageError(str(error)) from None
    if scenario is not None:
        try:
            running().prepare(clusters.get(name), scenario)
        except UsageError:
            await clusters.delete(name)
            raise
    return overview(clusters, name)


def _of_scenario(cluster: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a cluster that is made for a scenario."""
    parameters = OPERATIONS["cluster.create"].parameters
    given = {key: value for key, value in options.items() if value not in (parameters[key].default, {}, [])}
    file = {key: value for key, value in cluster.items() if value is not None}
    config = {**cluster["config"], **given.get("config", {})}
    return {**options, **file, **given, "config": config}


@operation("cluster.delete", "DELETE /clusters/{cluster}", CLUSTER_ID, answer={"deleted": "string"}, on="clusters")
async def delete_cluster(clusters: Clusters, given: dict[str, Any]) -> Any:
    """Stop a virtual cluster; the cluster that the process was started for can't be stopped."""
    await clusters.delete(given["cluster"])
    return {"deleted": given["cluster"]}
