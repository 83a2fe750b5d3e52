"""Records of what was read and committed, and the checks that make the demo more than a show.

Consumers report a commit before they do anything else, so a line that arrives late makes a check weaker, never wrong.
"""

from __future__ import annotations


class TopicProgress:
    """Reads and acknowledged commits of one topic of ``partitions`` partitions with ``records`` records each."""

    def __init__(self, partitions: int, records: int) -> None:
        self.records = records
        self.committed: dict[int, int] = dict.fromkeys(range(partitions), 0)
        """The highest offset whose commit was acknowledged."""
        self.read_up_to: dict[int, int] = dict.fromkeys(range(partitions), 0)
        """Everything below was read at least once."""
        self.reads = 0
        self.twice = 0
        self.problems: list[str] = []

    def assigned(self, name: str, positions: dict[int, int]) -> None:
        """A consumer goes on at these committed offsets."""
        for partition, position in positions.items():
            acknowledged, known = self.committed[partition], self.read_up_to[partition]
            if position < acknowledged:
                self.problems.append(
                    f"{name} continues at {position} in partition {partition}, but {acknowledged} was committed"
                )
            if position > known:
                self.problems.append(f"{name} continues at {position} in partition {partition}; {known} was never read")

    def read(self, name: str, partition: int, offset: int) -> None:
        """A consumer has read one record."""
        self.reads += 1
        known = self.read_up_to[partition]
        if offset > known:
            self.problems.append(f"{name} read {offset} in partition {partition}; {known} was never read")
        elif offset < self.committed[partition]:
            self.problems.append(
                f"{name} read {offset} in partition {partition} again, though {self.committed[partition]} was committed"
            )
        if offset < known:
            self.twice += 1
        self.read_up_to[partition] = max(known, offset + 1)

    def commit(self, offsets: dict[int, int]) -> None:
        """The broker has acknowledged a commit."""
        for partition, offset in offsets.items():
            self.committed[partition] = max(self.committed[partition], offset)

    def restarted(self, answered: dict[int, int], acknowledged: dict[int, int]) -> None:
        """Check the committed offsets of the broker after its restart against those that it had acknowledged before the kill."""
        for partition, offset in acknowledged.items():
            now = answered.get(partition, 0)
            if now < offset:
                self.problems.append(f"partition {partition}: {offset} was committed, the restarted broker says {now}")

    @property
    def all_read(self) -> bool:
        """Whether every record was read."""
        return all(up_to >= self.records for up_to in self.read_up_to.values())

    @property
    def all_committed(self) -> bool:
        """Whether the commits have caught up with the topic."""
        return all(offset >= self.records for offset in self.committed.values())
