"""The virtual clusters of a process that is controlled from outside: each has its own brokers, ports, logs, clock and journal.

Rules:
1. The cluster that the process was started for is called ``default`` and can't be deleted; it belongs to who started it. The others
   are started by ``create`` and stopped by ``delete`` or ``stop``.
2. Requests don't name paths: with a data directory, a cluster keeps its logs in a subdirectory, named by the request.
"""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from broker_sim.common.text import UsageError, expected
from broker_sim.control.table import NotThere

if TYPE_CHECKING:
    from broker_sim.api.cluster import Cluster

__all__ = ["DEFAULT", "Clusters"]

DEFAULT = "default"
MAX_CLUSTERS = 100
"""More are refused; each holds ports and memory."""
MAX_BROKERS = 300
"""Maximum number of brokers of all clusters together."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def check_name(what: str, name: str) -> str:
    """A name that is a single, visible part of a path or a URL. Raises UsageError."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"{what}: {name!r} is not a valid name (expected 1 to 64 letters, digits, dots, dashes and underscores)"
        )
    return name


class Clusters:
    """``default``: a started cluster. ``data_root``: the directory that created ones may keep logs in, None: in memory alone."""

    def __init__(self, default: Cluster, *, host: str = "127.0.0.1", data_root: Path | None = None) -> None:
        self._host, self._data_root = host, data_root
        self._clusters: dict[str, Cluster] = {DEFAULT: default}
        self._starting: set[str] = set()
        self._made = 0

    def __contains__(self, name: object) -> bool:
        return name in self._clusters

    def get(self, name: str) -> Cluster:
        """The cluster of that name. Raises NotThere."""
        cluster = self._clusters.get(name)
        if cluster is None:
            raise NotThere(f"no cluster {name!r}; {expected(name, self._clusters)}")
        return cluster

    def items(self) -> list[tuple[str, Cluster]]:
        """Names and clusters, the oldest first."""
        return list(self._clusters.items())

    async def create(self, name: str | None, *, data: str | None = None, **options: Any) -> str:
        """Start a cluster; ``options`` are those of `Cluster`. Returns its name. Raises UsageError, ClusterError."""
        from broker_sim.api.cluster import Cluster

        name = self._free_name() if name is None else check_name("id", name)
        if name in self._clusters or name in self._starting:
            raise UsageError(f"a cluster {name!r} exists already; choose another name")
        brokers = sum(len(cluster.brokers) for cluster in self._clusters.values()) + options.get("brokers", 1)
        if len(self._clusters) + len(self._starting) >= MAX_CLUSTERS or brokers > MAX_BROKERS:
            raise UsageError(
                f"a process has at most {MAX_CLUSTERS} clusters and {MAX_BROKERS} brokers; delete one first"
            )
        cluster = Cluster(host=self._host, data_dir=self._directory(data), **options)
        self._starting.add(name)
        try:
            await cluster.start()
            cluster.observe()
        finally:
            self._starting.discard(name)
        self._clusters[name] = cluster
        return name

    def _free_name(self) -> str:
        while True:
            self._made += 1
            name = f"c{self._made}"
            if name not in self._clusters and name not in self._starting:
                return name

    def _directory(self, data: str | None) -> Path | None:
        if data is None:
            return None
        check_name("data", data)
        if self._data_root is None:
            raise UsageError("data: this process has no data directory; start it with --data DIR")
        return self._data_root / "clusters" / data

    async def delete(self, name: str) -> None:
        """Stop a cluster that was created. Raises NotThere, UsageError for the default one."""
        cluster = self.get(name)
        if name == DEFAULT:
            raise UsageError(f"the cluster {DEFAULT!r} can't be deleted; it ends with its process")
        del self._clusters[name]
        await cluster.stop()

    async def stop(self) -> None:
        """Stop every cluster that was created."""
        async with contextlib.AsyncExitStack() as stack:
            for name, cluster in self.items():
                if name != DEFAULT:
                    del self._clusters[name]
                    stack.push_async_callback(cluster.stop)
