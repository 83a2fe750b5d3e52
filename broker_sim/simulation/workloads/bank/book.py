"""What the bank's tellers set out to do, and what must have come of it for whoever reads what is committed.

    book = Book(breach)
    attempt = book.begin("c1", flow=2)              # a transaction, told from all others by its name
    entries = book.entries(attempt, [Order(0, 17)], accounts=3, audits=2)
    attempt.told = True                             # its teller was told that it is committed

Books are kept in double entry, partition by partition: what leaves an account goes to the clearing account of the same partition. So a
partition balances by itself behind the marker that commits, and all of them together when every transaction is over everywhere. (The
last stable offset alone is no such place: of a transaction that is committed a part stands before it, and a part behind, where another
one that is still open has begun in its midst.)

Transactions of version 1 have a hole (KIP-890). A request that a client has given up - a Produce, a TxnOffsetCommit, an EndTxn - may
still arrive, under the epoch that the producer goes on with: in its next transaction, or where none is open, so that nobody ends what
it begins. Kafka 3.4 takes it; later brokers ask the coordinator, which lets it into a transaction that writes to the same partition;
with version 2 each transaction has an epoch of its own. So what transactions of version 1 break that have given up a request is not a
breach but a finding, `HOLE`; of version 2 nothing is excused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from broker_sim.simulation.checks.answers import InvariantBroken

__all__ = ["ACCOUNTS", "AUDIT", "HOLE", "Attempt", "Book", "Entry", "Order", "Reading"]

ACCOUNTS, AUDIT = "accounts", "audit"

HOLE = "KIP-890: a request that was given up has come into a later transaction"
"""The known hole of transaction version 1."""

CLEARING = "clearing"
_HOLDERS = 12
"""Accounts of the bank."""
_LARGEST = 9973

Place = tuple[str, int]
"""Topic and partition."""


class Order(NamedTuple):
    """One, by where it stands among the orders. Who pays whom how much follows from that, whatever its text is."""

    partition: int
    offset: int

    @property
    def payment(self) -> tuple[int, int, int]:
        """Account that pays, account that is paid, amount."""
        number = self.partition * 1_000_003 + self.offset
        payer = number * 7 % _HOLDERS
        return payer, (payer + 1 + number % (_HOLDERS - 1)) % _HOLDERS, 1 + number * 7919 % _LARGEST


class Entry(NamedTuple):
    """A record of ``accounts`` or ``audit``. ``account``: a number, or `CLEARING`; "" in the audit, where ``amount`` is what was
    paid."""

    attempt: str
    order: Order
    account: str
    amount: int

    def to_bytes(self) -> bytes:
        """As it stands in the log."""
        return f"{self.attempt}|{self.order.partition}|{self.order.offset}|{self.account}|{self.amount}".encode()

    @classmethod
    def read(cls, value: bytes | None) -> Entry:
        """The way back."""
        attempt, partition, offset, account, amount = (value or b"").decode().split("|")
        return cls(attempt, Order(int(partition), int(offset)), account, int(amount))


@dataclass(slots=True, eq=False)
class Attempt:
    """A transaction that somebody began. ``flow``: 1 or 2, the version of transactions (KIP-890). ``told``: whether it was told that it
    is committed, or aborted; None: it was told nothing. ``offsets``: next order by partition. ``acked``: partitions that have
    acknowledged a batch. ``unanswered``: requests that are under way. ``given_up``: it, or one before it with the same epoch, has given
    up a request that may come yet."""

    name: str
    flow: int
    told: bool | None = None
    entries: dict[Place, list[Entry]] = field(default_factory=dict)
    offsets: dict[int, int] = field(default_factory=dict)
    acked: dict[Place, None] = field(default_factory=dict)
    unanswered: int = 0
    given_up: bool = False

    @property
    def is_doubtful(self) -> bool:
        """Whether something of it may come when it is over; of one whose process has died, what it had not heard of."""
        return self.given_up or (self.unanswered > 0 and self.told is None)


class Book:
    """See the module; ``tell(error)`` is called at every breach."""

    def __init__(self, tell: Callable[[InvariantBroken], object], now_s: Callable[[], float]) -> None:
        self._tell, self._now_s = tell, now_s
        self.attempts: dict[str, Attempt] = {}
        self.found: Counter[str] = Counter()
        """Findings that are no breaches."""

    def begin(self, who: str, flow: int) -> Attempt:
        """Somebody begins a transaction."""
        attempt = Attempt(f"{who}/{len(self.attempts) + 1}", flow)
        self.attempts[attempt.name] = attempt
        return attempt

    def entries(
        self, attempt: Attempt, orders: Sequence[Order], accounts: int, audits: int
    ) -> Mapping[Place, list[Entry]]:
        """All that the attempt has to write about these orders, by partition; so many partitions have ``accounts`` and ``audit``."""
        for order in orders:
            payer, paid, amount = order.payment
            for holder, change in ((payer, -amount), (paid, amount)):
                rows = attempt.entries.setdefault((ACCOUNTS, holder % accounts), [])
                rows.append(Entry(attempt.name, order, str(holder), change))
                rows.append(Entry(attempt.name, order, CLEARING, -change))
            audit = Entry(attempt.name, order, "", amount)
            attempt.entries.setdefault((AUDIT, order.partition % audits), []).append(audit)
        return attempt.entries

    def breach(self, rule: str, what: str, attempts: Iterable[str]) -> None:
        """A rule is broken by these attempts: a finding, where the hole of version 1 explains it."""
        names = list(dict.fromkeys(attempts))
        involved = [self.attempts[name] for name in names if name in self.attempts]
        if involved and all(one.flow == 1 for one in involved) and any(one.is_doubtful for one in involved):
            self.found[HOLE] += 1
            return
        self._tell(InvariantBroken(rule, f"{self._now_s():.3f} s: {what}; {', '.join(map(self._about, names))}"))

    def _about(self, name: str) -> str:
        one = self.attempts.get(name)
        if one is None:
            return f"{name}, which nobody has begun"
        end = {True: "committed", False: "aborted", None: "has not heard how it ended"}[one.told]
        return f"{name} (version {one.flow}, {end}{', has given up a request' if one.is_doubtful else ''})"


class Reading:
    """What a reader of committed records has been given of one partition of ``accounts`` or ``audit``."""

    def __init__(self, book: Book, place: Place) -> None:
        self.book, self.place = book, place
        self.stable = 0
        """The last stable offset that it was told."""
        self._sums: dict[int, Counter[str]] = {}
        self._seen: dict[tuple[Order, str, int], tuple[int, str]] = {}

    @property
    def name(self) -> str:
        """As in ``accounts-0``."""
        return f"{self.place[0]}-{self.place[1]}"

    def gave(self, offset: int, producer_id: int, entry: Entry) -> None:
        """One more record."""
        key = entry.order, entry.account, entry.amount
        before = self._seen.get(key)
        if before is not None:
            what = f"{self.name} has {entry} at {offset}, and had it at {before[0]}"
            self.book.breach("an order is carried out once", what, [before[1], entry.attempt])
        self._seen[key] = offset, entry.attempt
        attempt = self.book.attempts.get(entry.attempt)
        if attempt is None or attempt.told is False:
            self.book.breach(
                "read_committed returns no aborted records", f"{self.name} has {entry} at {offset}", [entry.attempt]
            )
        if entry.account:
            self._sums.setdefault(producer_id, Counter())[entry.attempt] += entry.amount

    def ended(self, offset: int, producer_id: int) -> None:
        """It has come to the end of a producer's transaction."""
        sums = self._sums.pop(producer_id, Counter())
        odd = [name for name, total in sums.items() if total]
        if odd:
            what = f"{self.name} is off by {sums.total()} at {offset}: {dict(sums)}"
            self.book.breach("accounts balance after each marker", what, odd)

    def reached(self, stable: int) -> None:
        """All before the last stable offset has been given."""
        if stable < self.stable:
            what = f"that of {self.name} is {stable}, it was {self.stable}"
            self.book.breach("the last stable offset never decreases", what, ())
        self.stable = max(self.stable, stable)
