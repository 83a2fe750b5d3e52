"""The transaction coordinators of a cluster: `CoordinatorRuntime` over ``__transaction_state``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker_sim.config.settings import BrokerConfig
from broker_sim.coordinator.outcome import AllocateProducerId, Elected, PersisterRequest, ProducerIdAllocated, TimerKey
from broker_sim.coordinator.shard_loader import ShardLoader
from broker_sim.coordinator.transaction.policy import TransactionSettings, policy_of
from broker_sim.coordinator.transaction.shard import TransactionShard
from broker_sim.coordinator.transaction.store import TransactionLoader
from broker_sim.metadata.cluster_state import ClusterState, KafkaError, Partition
from broker_sim.metadata.topics import TRANSACTION_TOPIC
from broker_sim.runtime.coordinator_kind import CoordinatorKind
from broker_sim.runtime.coordinator_runtime import CoordinatorRuntime
from broker_sim.runtime.shard_context import ShardContext
from broker_sim.storage import partition_for
from kafka_wire.api_keys import release
from kafka_wire.errors import Err
from kafka_wire.remembered import remembered

if TYPE_CHECKING:
    from broker_sim.runtime.transaction_observer import TransactionObserver

_TIMERS: dict[str | int, str] = {
    "timeout": "timeout of the transaction of {0}",
    "markers": "markers of the transaction of {0}",
    "append": "append timeout of {1}",
    "expire": "expiry of transactional ids of {1}",
}


_partition_of = remembered(entries=16384)(partition_for)


class TransactionCoordinator(CoordinatorRuntime[TransactionShard]):
    """The transaction coordinators of a cluster's brokers."""

    def __init__(self, state: ClusterState) -> None:
        self.settings = settings_of(state.config)
        self.fired: list[str] | None = None
        """Descriptions of the timers that have fired; None if they are not collected."""
        super().__init__(
            state,
            CoordinatorKind(
                topic=TRANSACTION_TOPIC,
                partition_of=_partition_of,
                new_shard=self._new_shard,
                new_loader=TransactionLoader,
                load_error_disowns=True,
            ),
        )
        state.on_election.append(self._elected)

    def observe(self, observer: TransactionObserver) -> None:
        """Report every step to ``observer`` from now on, and first the open transactions."""
        self.observer = observer
        for context in self._contexts.values():
            if not context.loading:
                observer.look(context.shard, context.partition.name)

    def leading(self, transactional_id: str) -> TransactionShard | Err:
        """The shard of a transactional id, on whichever broker it is: partition leaders ask the coordinator's broker on behalf of their
        clients. COORDINATOR_NOT_AVAILABLE without a coordinator, otherwise the error of ``locate``."""
        partition = self.partition_of(transactional_id)
        return Err.COORDINATOR_NOT_AVAILABLE if partition is None else self.shard_of(partition)

    def timer_text(self, index: int, key: TimerKey) -> str:
        """As in ``timeout of the transaction of billing``."""
        return _TIMERS[key[0]].format(key[-1], f"{TRANSACTION_TOPIC}-{index}")

    def _postponed_deadline(self, context: ShardContext[TransactionShard], key: TimerKey) -> int | None:
        if self.fired is not None:
            self.fired.append(self.timer_text(context.partition.index, key))
        return None

    def _new_shard(self, index: int) -> TransactionShard:
        return TransactionShard(index, self.settings)

    def _begin(self, context: ShardContext[TransactionShard], loader: ShardLoader[TransactionShard]) -> None:
        context.shard.leader_epoch = context.partition.leader_epoch
        super()._begin(context, loader)

    def _elected(self, partition: Partition, reason: str) -> None:
        context = self._contexts.get(partition.index)
        if context is not None and context.partition is partition and not context.loading:
            self._step(context, Elected(partition.leader_epoch))

    def ask_elsewhere(
        self, context: ShardContext[TransactionShard], request: PersisterRequest | AllocateProducerId
    ) -> None:
        """Let the controller allocate a producer id for a shard."""
        assert isinstance(request, AllocateProducerId)
        allocated: int | Err
        try:
            allocated = self.state.next_producer_id()
        except KafkaError:
            allocated = Err.COORDINATOR_NOT_AVAILABLE  # the disk fails: clients ask again
        self._step(context, ProducerIdAllocated(request.event, allocated))


def settings_of(config: BrokerConfig) -> TransactionSettings:
    """The coordinator's settings out of the broker's configs."""
    return TransactionSettings(
        policy=policy_of(release(config.as_version)),
        max_timeout_ms=config.int("transaction.max.timeout.ms"),
        timeout_check_interval_ms=config.int("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
        id_expiration_ms=config.int("transactional.id.expiration.ms"),
        expiry_check_interval_ms=config.int("transaction.remove.expired.transaction.cleanup.interval.ms"),
        append_timeout_ms=config.int("request.timeout.ms"),
    )
