"""SyncGroup (14). v3 static members; v5 needs protocol type and name, which is checked before everything else (KIP-559). Parked
until the leader's assignment is stored."""

from __future__ import annotations

from broker_sim.coordinator.rebalance import sync_error
from broker_sim.coordinator.syncing import sync_answer
from broker_sim.handlers.context import DEFERRED, ConnectionLike, Deferred, FastHandler, RequestContext
from broker_sim.handlers.groups import gate
from broker_sim.handlers.scratch import LARGEST, Known, Scratch, learn, scratch_of
from broker_sim.runtime.repeated_requests import sync
from kafka_wire.api_keys import ApiKey, is_flexible
from kafka_wire.codec import decode, encode, encoder
from kafka_wire.errors import Err
from kafka_wire.messages.k14_sync_group import SyncGroupRequest, SyncGroupResponse


def handle(ctx: RequestContext, request: SyncGroupRequest) -> SyncGroupResponse | None:
    """The mandatory protocol, the gate, then the group."""
    if ctx.api_version >= 5 and (request.protocol_type is None or request.protocol_name is None):
        return sync_error(Err.INCONSISTENT_GROUP_PROTOCOL)
    shard = gate(ctx, request.group_id)
    if isinstance(shard, Err):
        if shard is Err.COORDINATOR_LOAD_IN_PROGRESS:
            shard = ctx.broker.runtime.settings.policy.sync_while_loading
        return sync_error(shard)
    ctx.broker.runtime.submit(shard, ctx, request)
    return None


def _fast(version: int) -> FastHandler:
    """A member that brings no assignment sends the same bytes in every generation, but for that."""
    flexible = is_flexible(ApiKey.SYNC_GROUP, version)
    no_assignments = b"\1\0" if flexible else b"\0\0\0\0"  # how a request without any ends
    encode_answer = encoder(SyncGroupResponse, version)

    def fast(connection: ConnectionLike, frame: bytes, body: int, correlation_id: int) -> bytes | Deferred | None:
        scratch = scratch_of(connection)
        known = scratch.sync
        generation = None if known is None else known.generation(frame, body)
        if known is None or generation is None:
            known = _learn(connection, scratch, frame, body)
            generation = None if known is None else known.generation(frame, body)
            if known is None or generation is None:
                return None
        found = sync(known.place, generation, known.protocol, connection, correlation_id)
        if found is True:
            return DEFERRED
        if found is False:
            return None
        out: list[bytes] = []
        encode_answer(sync_answer(*found), out.append)
        return b"".join(out)

    def _learn(connection: ConnectionLike, scratch: Scratch, frame: bytes, body: int) -> Known | None:
        if len(frame) - body > LARGEST or not frame.endswith(no_assignments):
            return None
        raw = frame[body:]
        request = decode(SyncGroupRequest, version, raw)
        if request.assignments or encode(request, version) != raw:
            return None
        protocol = request.protocol_type, request.protocol_name
        scratch.sync = learn(scratch, connection, raw, request, flexible=flexible, protocol=protocol)
        return scratch.sync

    return fast


FAST: dict[int, FastHandler] = {version: _fast(version) for version in range(6)}
