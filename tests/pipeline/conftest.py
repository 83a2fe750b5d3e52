"""The Spark session of the pipeline's tests: one for the whole process, small, and quiet."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from broker_sim.pipeline.session import JavaMissing, SparkMissing, spark_session
from tests.support.leftovers import lasting
from tests.support.real_kafka import unavailable
from tests.support.spark_jars import jars_for

SETTINGS = {
    "spark.sql.shuffle.partitions": 2,
    "spark.sql.adaptive.enabled": False,
    "spark.driver.memory": "1g",
    "spark.sql.streaming.stopTimeout": "20s",
    "spark.sql.codegen.wholeStage": False,
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC",
}


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest) -> Iterator[Any]:
    """A SparkSession on local[2] with the project's sources registered; tests that use it are marked `spark`. Its JVM runs to the end
    of the process, in which the last test need not be one of them."""
    try:
        with warnings.catch_warnings(), lasting():
            warnings.simplefilter("ignore")  # of PySpark's own imports
            session = spark_session("local[2]", "broker-sim tests", {**SETTINGS, **jars_for(request.session.items)})
    except (JavaMissing, SparkMissing) as error:
        unavailable(str(error))
    yield session
    session.stop()
