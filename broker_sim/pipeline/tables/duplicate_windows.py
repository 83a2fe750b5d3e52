"""`duplicate_windows`: offsets that were delivered to one owner of a partition, and again to the next owner.

A tenure is a member's time with a partition: from the step that made its generation Stable with that assignment, to the same member's
(client's) next one. Known of a tenure:

* where it began: the offset of its first Fetch of the partition, else that of its OffsetFetch, else the first offset that a
  scenario's client reported as read
* how far it came at least (`delivered`): the highest offset that it tried to commit, whatever the response, or reported as read
* how far it fetched (`reached`): also the highest offset of its Fetches. A consumer fetches from its position; one that fetches
  ahead, as librdkafka does, may have fetched more than its application got
* how far it came at most (`sent`): also the records of its last Fetch response. The journal has their number and not their offsets,
  so this is an upper bound if batches have gaps, or begin before the position.

Of a scenario's client, which reports what it reads, only the first one is needed.

Rules:
1. A window is [where a tenure began, how far earlier tenures and this one came): its end is the smaller of the two. So
   offsets that two tenures get again, one after the other, have two windows which don't overlap.
2. A Fetch has no group. It belongs to the member with its client id and host that owns the partition at that time. If two groups share
   client id, host and partition, their Fetches are not used.
3. `records` counts offsets; a compacted or transactional log has fewer records. A manual reset of offsets has windows, too: its records
   were indeed delivered twice.
4. Records that an owner reads again in its own tenure, after a seek or a reset for OFFSET_OUT_OF_RANGE, are in no window.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker_sim.explain.rebalances import STABLE
from broker_sim.pipeline.engine import Window, on_its_engine
from broker_sim.pipeline.engine import functions as F
from broker_sim.pipeline.schemas import INT, LONG, RUN_ID, STRING, ColumnSpec, TableSchema, moment
from broker_sim.pipeline.tables.columns import moments, place
from broker_sim.pipeline.tables.events import EVENTS, PER_JOURNAL, by_partition

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

__all__ = ["DUPLICATE_WINDOWS", "duplicate_windows", "tenures"]

DUPLICATE_WINDOWS = TableSchema(
    "duplicate_windows",
    (
        RUN_ID,
        ColumnSpec("group", STRING, "group id; never null", "journal"),
        ColumnSpec("topic", STRING, "topic; never null", "journal"),
        ColumnSpec("partition", INT, "partition; never null", "journal"),
        ColumnSpec("from_offset", LONG, "the first offset that was delivered again; never null", "journal"),
        ColumnSpec("to_offset", LONG, "the offset after the last; never null", "journal"),
        ColumnSpec("records", LONG, "to_offset - from_offset", "journal"),
        ColumnSpec(
            "evidence",
            STRING,
            "`delivered`: both owners tried to commit later offsets, or reported it as read; `reached`: both fetched later offsets, or"
            " committed behind it; `fetched`: it was sent to both, whether applications saw it is not known; never null",
            "journal",
        ),
        ColumnSpec(
            "delivered_to",
            LONG,
            "end of the part that was certainly delivered to both; null without such a part",
            "journal",
        ),
        ColumnSpec("fetched_to", LONG, "end of the part that was sent to both, at most", "journal"),
        ColumnSpec("from_generation", INT, "generation of the first delivery", "journal"),
        ColumnSpec("to_generation", INT, "generation of the second delivery", "journal"),
        ColumnSpec("from_member", STRING, "member id of the first owner", "journal"),
        ColumnSpec("to_member", STRING, "member id of the second owner, possibly the same", "journal"),
        ColumnSpec("from_client", STRING, "client id of the first owner", "journal"),
        ColumnSpec("to_client", STRING, "client id of the second owner", "journal"),
        *moment("at", "when the group was Stable with the new owner", "journal"),
    ),
    "One row for each range of offsets that was delivered twice across a change of owner or generation.",
)

_WHERE = ("run_id", "group", "topic", "partition")
_TENURE = (*_WHERE, "generation", "member")
_NEEDED = (
    *(
        "run_id",
        "journal",
        "seq",
        "ts_ms",
        "type",
        "api",
        "request",
        "client_id",
        "client_host",
        "group",
        "member",
        "generation",
    ),
    *("topic", "partition", "offset", "partitions", "named_topics", "action", "state_to", "members_after", "reports"),
)
_ENDS = ("delivered", "reached", "sent")


@on_its_engine
def duplicate_windows(events: DataFrame) -> DataFrame:
    """`DUPLICATE_WINDOWS` of a journal's events. Each tenure is compared with the farthest one before it, and not with each: an offset
    that was read three times is one window per repetition."""
    earlier = Window.partitionBy(*_WHERE).orderBy("at").rowsBetween(Window.unboundedPreceding, -1)

    def farthest(end: str) -> SparkColumn:
        """The earlier tenure with the highest ``end``."""
        tenure = F.struct(F.col(end).alias("end"), "generation", "member", "client_id")
        return F.max(F.when(F.col(end).isNotNull(), tenure)).over(earlier)

    known = tenures(events).where(F.col("began").isNotNull()).withColumn("first_began", F.min("began").over(earlier))
    for end in _ENDS:
        known = known.withColumn(f"first_{end}", farthest(end))
        known = known.withColumn(f"both_{end}", F.least(F.col(f"first_{end}.end"), F.col(end)))
    start = F.greatest("began", "first_began")
    windows = known.where(F.col("first_began").isNotNull()).withColumn("from_offset", start)

    def some(end: str) -> SparkColumn:
        """Whether both came behind the window's begin."""
        both = F.col(f"first_{end}.end").isNotNull() & F.col(end).isNotNull()
        return both & (F.col(f"both_{end}") > F.col("from_offset"))

    reached = some("reached")
    delivered_to = F.when(some("delivered"), F.col("both_delivered"))
    windows = (
        windows.withColumn("fetched_to", F.col("both_sent"))
        .withColumn("delivered_to", delivered_to)
        .withColumn("to_offset", F.when(reached, F.col("both_reached")).when(some("sent"), F.col("both_sent")))
        .withColumn("first", F.when(reached, F.col("first_reached")).otherwise(F.col("first_sent")))
        .withColumn("evidence", F.when(F.col("delivered_to") >= F.col("to_offset"), "delivered"))
        .withColumn("evidence", F.coalesce("evidence", F.when(reached, "reached").otherwise("fetched")))
        .where(F.col("to_offset").isNotNull())
    )
    return DUPLICATE_WINDOWS.conform(
        windows.select(
            *_WHERE,
            "from_offset",
            "to_offset",
            (F.col("to_offset") - F.col("from_offset")).alias("records"),
            "evidence",
            "delivered_to",
            "fetched_to",
            F.col("first.generation").alias("from_generation"),
            F.col("generation").alias("to_generation"),
            F.col("first.member").alias("from_member"),
            F.col("member").alias("to_member"),
            F.col("first.client_id").alias("from_client"),
            F.col("client_id").alias("to_client"),
            *moments("at", F.col("ts_ms")),
        )
    )


# ------------------------------------------------------------------------------------------------ tenures


@on_its_engine
def tenures(events: DataFrame) -> DataFrame:
    """run_id, group, topic, partition, generation, member, client_id, client_host, at (its `place`), ts_ms; ``began``, and the offsets
    behind what was ``delivered``, ``reached``, ``sent``: null where nothing is known."""
    events = EVENTS.only(_NEEDED).conform(events)
    owned = _owned(events)
    rows = by_partition(_fetches(events).unionByName(_answers(events)), events)
    signs = _signs(rows).unionByName(_reads(events))
    result = owned.drop("until", "sole", "sole_client")
    for columns in (_known(signs, owned), _committed(events)):
        result = result.join(columns, list(_TENURE), "left")
    result = result.join(F.broadcast(_reporting_clients(events)), ["run_id", "client_id"], "left")
    delivered = F.greatest("committed_to", "read_to")
    silent = F.col("reports_reads").isNull()
    reached = F.greatest(delivered, F.when(silent, F.col("asked")))
    ahead = F.least(F.col("asked") + F.col("answered"), F.greatest("high_watermark", "asked"))
    last = silent & (F.col("answered_at") > F.col("asked_at"))
    return result.select(
        *_TENURE,
        "client_id",
        "client_host",
        "at",
        "ts_ms",
        F.coalesce("asked_from", "resumed", "read_from").alias("began"),
        delivered.alias("delivered"),
        reached.alias("reached"),
        F.greatest(reached, F.when(last, ahead)).alias("sent"),
    )


def _owned(events: DataFrame) -> DataFrame:
    """Tenures: member and partition, from their start until the client's next tenure (``until``). ``sole``: no other group has
    members of that client id and host with the partition; ``sole_client``: nor of that client id."""
    stable = events.where(
        (F.col("type") == "group") & (F.col("state_to") == STABLE) & F.col("members_after").isNotNull()
    )
    members = stable.select(
        "run_id", "group", "generation", place().alias("at"), "ts_ms", F.explode("members_after").alias("m")
    )
    members = members.select("*", F.explode("m.assignment").alias("log"))
    tenures = members.groupBy(
        "run_id",
        "group",
        F.regexp_extract("log", r"^(.*)-(\d+)$", 1).alias("topic"),
        F.regexp_extract("log", r"^(.*)-(\d+)$", 2).cast("int").alias("partition"),
        "generation",
        F.col("m.member").alias("member"),
    ).agg(
        F.min("at").alias("at"),
        F.min_by("ts_ms", "at").alias("ts_ms"),
        F.max("m.client_id").alias("client_id"),
        F.max("m.client_host").alias("client_host"),
    )
    of_client = Window.partitionBy("run_id", "client_id", "topic", "partition")
    of_host = Window.partitionBy("run_id", "client_id", "topic", "partition", "client_host")
    following = Window.partitionBy("run_id", "client_id", "topic", "partition", "client_host", "group").orderBy("at")
    tenures = tenures.withColumn("sole_client", F.min("group").over(of_client) == F.max("group").over(of_client))
    tenures = tenures.withColumn("sole", F.min("group").over(of_host) == F.max("group").over(of_host))
    return tenures.withColumn("until", F.lead("at").over(following))


# ------------------------------------------------------------------------------------------------ what is known of them

_COMMITS = ("OffsetCommit", "TxnOffsetCommit")


def _committed(events: DataFrame) -> DataFrame:
    """Highest offset that each tenure tried to commit."""
    asked = events.where((F.col("type") == "request") & F.col("api").isin(*_COMMITS) & (F.col("generation") >= 0))
    rows = by_partition(asked.select(*_TELLING), events).where(F.col("offset") >= 0)
    return rows.groupBy(*_TENURE).agg(F.max("offset").alias("committed_to"))


def _fetches(events: DataFrame) -> DataFrame:
    """Fetch requests: the offsets from which clients read."""
    return events.where((F.col("type") == "request") & (F.col("api") == "Fetch")).select(*_TELLING)


_TELLING = (
    "run_id",
    "journal",
    "seq",
    "type",
    "api",
    "client_id",
    "client_host",
    "group",
    "member",
    "generation",
    "partitions",
)


def _answers(events: DataFrame) -> DataFrame:
    """Records and committed offsets that clients were sent in responses to Fetch and OffsetFetch; with the client of the request."""
    some = F.filter("partitions", lambda partition: (partition["records"] > 0) | (F.col("api") == "OffsetFetch"))
    responses = events.where((F.col("type") == "response") & F.col("api").isin("Fetch", "OffsetFetch"))
    responses = responses.where(F.col("action").isNull()).withColumn("partitions", some).where(F.size("partitions") > 0)
    asked = events.where((F.col("type") == "request") & F.col("api").isin("Fetch", "OffsetFetch"))
    asked = asked.select(*PER_JOURNAL, "request", "client_id", "client_host", "group")
    both = responses.drop("client_id", "client_host", "group").join(asked, [*PER_JOURNAL, "request"])
    return both.select(*_TELLING)


def _signs(calls: DataFrame) -> DataFrame:
    """run_id, topic, partition, client_id, client_host, group (null: any), seen (the place in the journal), sign, offset, records,
    high_watermark."""
    fetch = F.col("api") == "Fetch"
    sign = (
        F.when(fetch & (F.col("type") == "request") & (F.col("offset") >= 0), "asked")
        .when(fetch & (F.col("records") > 0), "answered")
        .when((F.col("api") == "OffsetFetch") & (F.col("offset") >= 0), "resumed")
    )
    rows = calls.withColumn("sign", sign).where(F.col("sign").isNotNull() & F.col("client_id").isNotNull())
    group = F.when(~fetch, F.col("group")).alias("in_group")
    return rows.select(
        *_CLIENT, "client_host", group, place().alias("seen"), "sign", "offset", "records", "high_watermark"
    )


_CLIENT = ("run_id", "client_id", "topic", "partition")


def _reads(events: DataFrame) -> DataFrame:
    """The records that scenarios' clients reported as read."""
    reads = events.where((F.col("type") == "client") & (F.col("reports") == "read") & F.col("offset").isNotNull())
    none = F.lit(None)
    return reads.select(
        *_CLIENT,
        none.cast("string").alias("client_host"),
        none.cast("string").alias("in_group"),
        place().alias("seen"),
        F.lit("read").alias("sign"),
        "offset",
        none.cast("bigint").alias("records"),
        none.cast("bigint").alias("high_watermark"),
    )


def _reporting_clients(events: DataFrame) -> DataFrame:
    """The clients that report what they read."""
    reads = events.where((F.col("type") == "client") & (F.col("reports") == "read"))
    return reads.select("run_id", "client_id").distinct().withColumn("reports_reads", F.lit(True))


def _known(signs: DataFrame, owned: DataFrame) -> DataFrame:
    """Signs that fall into each tenure."""
    tenure = owned.select(
        *_CLIENT,
        "group",
        "generation",
        "member",
        "at",
        "until",
        "sole",
        "sole_client",
        F.col("client_host").alias("host"),
    )
    of_read = F.col("sign") == "read"
    same_client = F.when(of_read, F.col("sole_client")).otherwise(
        F.col("client_host").eqNullSafe(F.col("host")) & (F.col("in_group").isNotNull() | F.col("sole"))
    )
    within = (F.col("seen") > F.col("at")) & (F.col("until").isNull() | (F.col("seen") < F.col("until")))
    mine = same_client & within & (F.col("in_group").isNull() | (F.col("in_group") == F.col("group")))

    def of(sign: str, value: str) -> SparkColumn:
        return F.when(F.col("sign") == sign, F.col(value))

    return (
        signs.join(F.broadcast(tenure), list(_CLIENT))
        .where(mine)
        .groupBy(*_TENURE)
        .agg(
            F.min_by(of("asked", "offset"), of("asked", "seen")).alias("asked_from"),
            F.max(of("asked", "offset")).alias("asked"),
            F.max_by(of("asked", "seen"), of("asked", "offset")).alias("asked_at"),
            F.max(of("answered", "seen")).alias("answered_at"),
            F.max_by(of("answered", "records"), of("answered", "seen")).alias("answered"),
            F.max_by(of("answered", "high_watermark"), of("answered", "seen")).alias("high_watermark"),
            F.min_by(of("resumed", "offset"), of("resumed", "seen")).alias("resumed"),
            F.min(of("read", "offset")).alias("read_from"),
            (F.max(of("read", "offset")) + 1).alias("read_to"),
        )
    )
