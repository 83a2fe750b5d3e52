"""The transactions that the bank's tellers began, and what read_committed consumers must find of them.

    book = Book(breach)
    attempt = book.begin("c1", flow=2)              # a transaction, identified by its name
    entries = book.entries(attempt, [PaymentOrder(0, 17)], accounts=3, audits=2)
    attempt.reported = True                             # its teller got the response that it is committed

Books are kept in double entry, partition by partition: what leaves an account goes to the clearing account of the same partition. So a
partition balances after each commit marker, and all of them together when every transaction has ended in all partitions. (The last
stable offset is no such place: a committed transaction may have records before and after it, if another transaction that is still
open began in between.)

Transactions of version 1 have a hole (KIP-890). A request that a client has given up - a Produce, a TxnOffsetCommit, an EndTxn -
may still arrive, with the producer's current epoch: in its next transaction, or without an open one, so that it opens a transaction
that never ends. Kafka 3.4 accepts it; later brokers verify it with the coordinator, which accepts it in a transaction that writes
to the same partition; with version 2 each transaction has its own epoch. So a violation by a transaction of version 1 that has
given up a request is reported as the finding `HOLE`, not as a breach; for version 2 there is no exception."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from broker_sim.simulation.checks.answers import InvariantBroken

__all__ = ["ACCOUNTS", "AUDIT", "HOLE", "Attempt", "Book", "BookEntry", "PaymentOrder", "Reading"]

ACCOUNTS, AUDIT = "accounts", "audit"

HOLE = "KIP-890: a request that was given up has come into a later transaction"
"""The known hole of transaction version 1."""

CLEARING = "clearing"
_HOLDERS = 12
"""Accounts of the bank."""
_LARGEST = 9973

Place = tuple[str, int]
"""Topic and partition."""


class PaymentOrder(NamedTuple):
    """An order: its partition and offset. Payer, payee and amount are functions of these, whatever the record's value is."""

    partition: int
    offset: int

    @property
    def payment(self) -> tuple[int, int, int]:
        """Account that pays, account that is paid, amount."""
        number = self.partition * 1_000_003 + self.offset
        payer = number * 7 % _HOLDERS
        return payer, (payer + 1 + number % (_HOLDERS - 1)) % _HOLDERS, 1 + number * 7919 % _LARGEST


class BookEntry(NamedTuple):
    """A record of ``accounts`` or ``audit``. ``account``: a number, or `CLEARING`; "" in the audit, where ``amount`` is what was
    paid."""

    attempt: str
    order: PaymentOrder
    account: str
    amount: int

    def to_bytes(self) -> bytes:
        """The value of its record in the log."""
        return f"{self.attempt}|{self.order.partition}|{self.order.offset}|{self.account}|{self.amount}".encode()

    @classmethod
    def read(cls, value: bytes | None) -> BookEntry:
        """Parse the value of a record; the inverse of `to_bytes`."""
        attempt, partition, offset, account, amount = (value or b"").decode().split("|")
        return cls(attempt, PaymentOrder(int(partition), int(offset)), account, int(amount))


@dataclass(slots=True, eq=False)
class Attempt:
    """A transaction of a teller. ``flow``: 1 or 2, the transaction version (KIP-890). ``reported``: True if the teller got the response
    that it is committed, False for aborted, None without a response. ``offsets``: next order by partition. ``acked``: partitions
    that have acknowledged a batch. ``unanswered``: requests in flight. ``given_up``: it, or an earlier one with the same epoch, has
    given up a request that may still arrive."""

    name: str
    flow: int
    reported: bool | None = None
    entries: dict[Place, list[BookEntry]] = field(default_factory=dict)
    offsets: dict[int, int] = field(default_factory=dict)
    acked: dict[Place, None] = field(default_factory=dict)
    unanswered: int = 0
    given_up: bool = False

    @property
    def is_doubtful(self) -> bool:
        """Whether something of it may come when it is over; of one whose process has died, what it had not heard of."""
        return self.given_up or (self.unanswered > 0 and self.reported is None)


class Book:
    """See the module; ``report(error)`` is called at every breach."""

    def __init__(self, report: Callable[[InvariantBroken], object], now_s: Callable[[], float]) -> None:
        self._report, self._now_s = report, now_s
        self.attempts: dict[str, Attempt] = {}
        self.found: Counter[str] = Counter()
        """Findings that are no breaches."""

    def begin(self, who: str, flow: int) -> Attempt:
        """Note that a teller begins a transaction."""
        attempt = Attempt(f"{who}/{len(self.attempts) + 1}", flow)
        self.attempts[attempt.name] = attempt
        return attempt

    def entries(
        self, attempt: Attempt, orders: Sequence[PaymentOrder], accounts: int, audits: int
    ) -> Mapping[Place, list[BookEntry]]:
        """Add the entries for these orders to the attempt's. Returns all, by partition. ``accounts``, ``audits``: numbers of
        partitions."""
        for order in orders:
            payer, paid, amount = order.payment
            for holder, change in ((payer, -amount), (paid, amount)):
                rows = attempt.entries.setdefault((ACCOUNTS, holder % accounts), [])
                rows.append(BookEntry(attempt.name, order, str(holder), change))
                rows.append(BookEntry(attempt.name, order, CLEARING, -change))
            audit = BookEntry(attempt.name, order, "", amount)
            attempt.entries.setdefault((AUDIT, order.partition % audits), []).append(audit)
        return attempt.entries

    def breach(self, rule: str, what: str, attempts: Iterable[str]) -> None:
        """A rule is broken by these attempts: a finding, where the hole of version 1 explains it."""
        names = list(dict.fromkeys(attempts))
        involved = [self.attempts[name] for name in names if name in self.attempts]
        if (
            involved
            and all(attempt.flow == 1 for attempt in involved)
            and any(attempt.is_doubtful for attempt in involved)
        ):
            self.found[HOLE] += 1
            return
        self._report(InvariantBroken(rule, f"{self._now_s():.3f} s: {what}; {', '.join(map(self._about, names))}"))

    def _about(self, name: str) -> str:
        attempt = self.attempts.get(name)
        if attempt is None:
            return f"{name}, which was never begun"
        end = {True: "committed", False: "aborted", None: "has not heard how it ended"}[attempt.reported]
        return f"{name} (version {attempt.flow}, {end}{', has given up a request' if attempt.is_doubtful else ''})"


class Reading:
    """Records of one partition of ``accounts`` or ``audit``, as a reader of committed records receives them."""

    def __init__(self, book: Book, place: Place) -> None:
        self.book, self.place = book, place
        self.stable = 0
        """The last stable offset in its last response."""
        self._sums: dict[int, Counter[str]] = {}
        self._seen: dict[tuple[PaymentOrder, str, int], tuple[int, str]] = {}

    @property
    def name(self) -> str:
        """The name of the partition, as in ``accounts-0``."""
        return f"{self.place[0]}-{self.place[1]}"

    def gave(self, offset: int, producer_id: int, entry: BookEntry) -> None:
        """Note a record that the reader was given; reports a breach if an order appears twice."""
        key = entry.order, entry.account, entry.amount
        before = self._seen.get(key)
        if before is not None:
            what = f"{self.name} has {entry} at {offset}, and had it at {before[0]}"
            self.book.breach("an order is carried out once", what, [before[1], entry.attempt])
        self._seen[key] = offset, entry.attempt
        attempt = self.book.attempts.get(entry.attempt)
        if attempt is None or attempt.reported is False:
            self.book.breach(
                "read_committed returns no aborted records", f"{self.name} has {entry} at {offset}", [entry.attempt]
            )
        if entry.account:
            self._sums.setdefault(producer_id, Counter())[entry.attempt] += entry.amount

    def ended(self, offset: int, producer_id: int) -> None:
        """Check the balances at the end of a producer's transaction."""
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
