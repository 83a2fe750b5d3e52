"""`duplicate_windows`: offsets that one owner of a partition was given, and that the next owner was given again.

A tenure is a member's time with a partition: from the step that made its generation Stable with that assignment, to the same member's
(client's) next one. What is known of a tenure:

* where it began: the offset of its first Fetch of the partition, else what OffsetFetch answered it, else the first offset that a
  scenario's client said it read
* how far it surely came (`delivered`): the highest offset that it tried to commit, whatever the answer, or said that it read
* how far it went on (`reached`): besides, the highest offset that it asked for by Fetch. A consumer asks from its position; one that
  fetches ahead, as librdkafka does, may have asked for more than it handed to its application
* how far it may have come (`sent`): beyond that, the records that its last Fetch was answered with. The journal counts records and
  doesn't tell their offsets, so this is an upper bound where batches have gaps, or begin before the position.

Of a scenario's client, which says what it reads, the first of them is all there is to know.

Rules:
1. A window is [where a tenure began, how far earlier tenures and this one came): its end is the smaller of the two. So what is handed
   out again by two tenures, one after the other, is told in two windows which don't overlap.
2. A Fetch names no group. It is the member's that has its client id and host, and the partition, at that time. Where two groups share
   client id, host and partition, their Fetches tell nothing.
3. `records` counts offsets, not what a compacted or transactional log has in between. A reset of offsets by hand gives windows, too:
   what lies in it was indeed delivered twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from broker_sim.explain.model import STABLE
from broker_sim.pipeline.schemas import INT, LONG, RUN_ID, STRING, Column, Table, moment
from broker_sim.pipeline.tables.columns import moments
from broker_sim.pipeline.tables.events import EVENTS, PER_JOURNAL, by_partition, calls

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

__all__ = ["DUPLICATE_WINDOWS", "duplicate_windows", "tenures"]

DUPLICATE_WINDOWS = Table(
    "duplicate_windows",
    (
        RUN_ID,
        Column("group", STRING, "group id; never null", "journal"),
        Column("topic", STRING, "topic; never null", "journal"),
        Column("partition", INT, "partition; never null", "journal"),
        Column("from_offset", LONG, "the first offset that was given again; never null", "journal"),
        Column("to_offset", LONG, "the one behind the last; never null", "journal"),
        Column("records", LONG, "to_offset - from_offset", "journal"),
        Column(
            "evidence",
            STRING,
            "`delivered`: both owners tried to commit behind it, or said that they read it; `reached`: both asked for later offsets, or"
            " committed behind it; `fetched`: it was sent to both, whether applications saw it is not known; never null",
            "journal",
        ),
        Column("delivered_to", LONG, "how far it was surely delivered to both; null for nothing of it", "journal"),
        Column("fetched_to", LONG, "how far the window may reach at most: what was sent to both", "journal"),
        Column("from_generation", INT, "generation in which it was given first", "journal"),
        Column("to_generation", INT, "generation in which it was given again", "journal"),
        Column("from_member", STRING, "member id of the first owner", "journal"),
        Column("to_member", STRING, "member id of the one who was given it again; it may be the same", "journal"),
        Column("from_client", STRING, "client id of the first owner", "journal"),
        Column("to_client", STRING, "client id of the other", "journal"),
        *moment("at", "when the group was Stable with the new owner", "journal"),
    ),
    "One row for each range of offsets that was delivered twice across a change of owner or generation.",
)

_WHERE = ("run_id", "group", "topic", "partition")
_TENURE = (*_WHERE, "generation", "member")
_ENDS = ("delivered", "reached", "sent")
_WHO = ("run_id", "client_id", "client_host", "topic", "partition")


def duplicate_windows(events: DataFrame) -> DataFrame:
    """`DUPLICATE_WINDOWS` of a journal's events."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    earlier = Window.partitionBy(*_WHERE).orderBy("at").rowsBetween(Window.unboundedPreceding, -1)

    def farthest(end: str) -> SparkColumn:
        """Of earlier tenures the one that came farthest."""
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


def tenures(events: DataFrame) -> DataFrame:
    """run_id, group, topic, partition, generation, member, client_id, client_host, at (journal, seq), ts_ms; ``began``, and the offsets
    behind what was ``delivered``, ``reached``, ``sent``: null where nothing is known."""
    from pyspark.sql import functions as F

    events = EVENTS.conform(events)
    owned = _owned(events)
    asked = (
        _of_tenures(_asked(events), _sole(owned))
        .groupBy(*_TENURE)
        .agg(F.min_by("offset", "seen").alias("asked_from"), F.max(F.struct("offset", "seen")).alias("asked"))
    )
    answered = _of_tenures(_answered(events), _sole(owned)).join(asked.drop("asked_from"), [*_TENURE])
    ahead = F.least(F.col("asked.offset") + F.col("records"), F.greatest("high_watermark", F.col("asked.offset")))
    sent = answered.where(F.col("seen") > F.col("asked.seen")).groupBy(*_TENURE).agg(F.max(ahead).alias("sent_to"))
    resumed = (
        _of_tenures(_resumed(events), owned, group=True)
        .groupBy(*_TENURE)
        .agg(F.min_by("offset", "seen").alias("resumed"))
    )
    read = _of_tenures(_read(events), _sole(owned, host=False), host=False)
    read = read.groupBy(*_TENURE).agg(F.min("offset").alias("read_from"), (F.max("offset") + 1).alias("read_to"))
    found = owned.join(_telling(events), ["run_id", "client_id"], "left")
    for one in (asked, sent, resumed, read, _committed(events)):
        found = found.join(one, list(_TENURE), "left")
    delivered = F.greatest("committed_to", "read_to")
    silent = F.col("tells").isNull()
    reached = F.greatest(delivered, F.when(silent, F.col("asked.offset")))
    return found.select(
        *_TENURE,
        "client_id",
        "client_host",
        "at",
        "ts_ms",
        F.coalesce("asked_from", "resumed", "read_from").alias("began"),
        delivered.alias("delivered"),
        reached.alias("reached"),
        F.greatest(reached, F.when(silent, F.col("sent_to"))).alias("sent"),
    )


def _owned(events: DataFrame) -> DataFrame:
    """Who had which partition from when on, and until the next time (``until``)."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    stable = events.where(
        (F.col("type") == "group") & (F.col("state_to") == STABLE) & F.col("members_after").isNotNull()
    )
    each = stable.select(
        "run_id",
        "group",
        "generation",
        F.struct("journal", "seq").alias("at"),
        "ts_ms",
        F.explode("members_after").alias("m"),
    )
    each = each.select("*", F.explode("m.assignment").alias("log"))
    found = each.groupBy(
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
    same = Window.partitionBy("group", *_WHO).orderBy("at")
    return found.withColumn("until", F.lead("at").over(same))


def _sole(owned: DataFrame, *, host: bool = True) -> DataFrame:
    """Without the tenures of clients that can't be told from those of another group's."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    who = Window.partitionBy(*(name for name in _WHO if host or name != "client_host"))
    sole = owned.withColumn("lowest", F.min("group").over(who)).withColumn("highest", F.max("group").over(who))
    return sole.where(F.col("lowest") == F.col("highest")).drop("lowest", "highest")


def _of_tenures(rows: DataFrame, owned: DataFrame, *, group: bool = False, host: bool = True) -> DataFrame:
    """Rows (of a client, a partition, ``seen`` at a place of the journal) with the tenures in which they fall."""
    from pyspark.sql import functions as F

    keys = [name for name in _WHO if host or name != "client_host"] + (["group"] if group else [])
    known = owned.select(*keys, *(name for name in _TENURE if name not in keys), "at", "until")
    joined = rows.join(F.broadcast(known), keys)
    return joined.where((F.col("seen") > F.col("at")) & (F.col("until").isNull() | (F.col("seen") < F.col("until"))))


# ------------------------------------------------------------------------------------------------ what is known of them


def _asked(events: DataFrame) -> DataFrame:
    """The offsets from which partitions were fetched."""
    from pyspark.sql import functions as F

    fetches = events.where((F.col("type") == "request") & (F.col("api") == "Fetch") & F.col("client_id").isNotNull())
    rows = by_partition(fetches, events).where("offset >= 0")
    return rows.select(*_WHO, F.struct("journal", "seq").alias("seen"), "offset")


def _answered(events: DataFrame) -> DataFrame:
    """How many records were sent."""
    from pyspark.sql import functions as F

    fetches = events.where((F.col("api") == "Fetch") & (F.col("type") == "response") & F.col("action").isNull())
    rows = by_partition(fetches.drop("client_id", "client_host"), events).where("records > 0")
    asked = events.where((F.col("type") == "request") & (F.col("api") == "Fetch"))
    both = rows.join(asked.select(*PER_JOURNAL, "request", "client_id", "client_host"), [*PER_JOURNAL, "request"])
    return both.select(*_WHO, F.struct("journal", "seq").alias("seen"), "records", "high_watermark")


def _resumed(events: DataFrame) -> DataFrame:
    """What OffsetFetch answered."""
    from pyspark.sql import functions as F

    fetched = calls(events, "OffsetFetch").where(F.col("answer").isNotNull()).withColumn("p", F.explode("answer"))
    return fetched.where("p.offset >= 0").select(
        "run_id",
        F.coalesce("p.group", "group").alias("group"),
        "client_id",
        "client_host",
        F.col("p.topic").alias("topic"),
        F.col("p.partition").alias("partition"),
        F.struct("journal", F.col("answered_seq").alias("seq")).alias("seen"),
        F.col("p.offset").alias("offset"),
    )


def _read(events: DataFrame) -> DataFrame:
    """What scenarios' clients said that they read."""
    from pyspark.sql import functions as F

    said = events.where((F.col("type") == "client") & (F.col("says") == "read") & F.col("offset").isNotNull())
    keys = [name for name in _WHO if name != "client_host"]
    return said.select(*keys, F.struct("journal", "seq").alias("seen"), "offset")


def _telling(events: DataFrame) -> DataFrame:
    """The clients that say what they read."""
    from pyspark.sql import functions as F

    said = events.where((F.col("type") == "client") & (F.col("says") == "read"))
    return said.select("run_id", "client_id").distinct().withColumn("tells", F.lit(True))


def _committed(events: DataFrame) -> DataFrame:
    """How far each tenure tried to commit."""
    from pyspark.sql import functions as F

    asked = events.where((F.col("type") == "request") & F.col("api").isin("OffsetCommit", "TxnOffsetCommit"))
    rows = by_partition(asked.where("generation >= 0"), events).where("offset >= 0")
    return rows.groupBy(*_TENURE).agg(F.max("offset").alias("committed_to"))
