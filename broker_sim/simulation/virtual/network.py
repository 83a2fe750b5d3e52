"""TCP in memory: machines with names and addresses, links with latency, cuts, connections that are lost.

Rules:
1. Per direction of a connection bytes arrive in the order in which they were written, whatever the latency draws: ``max(t, last)``.
2. What happens to the n-th write of a direction of the k-th connection from one machine to a port of another is drawn from (seed, those
   names, k, direction, n): a fault that is taken away leaves all other draws as they were. ``noisy``: machines between which and all
   others the usual link is as it is; between all others it has no jitter and no chunks. None: all.
3. A cut loses nothing: TCP sends again. What arrives while the way is cut waits and goes on, in order, when it is healed.
4. A machine that is dark (power off) sends and answers nothing. Who still writes to its connections after it is up again is reset.
5. To connect takes a round trip, to be refused too. A machine that doesn't answer is asked again after 1, 2, 4 ... s, as Linux does; it
   is given up after 127 s.
6. Code of a protocol runs in the context of its process: a paused process does not see what its kernel has received.
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
import random
import socket
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from broker_sim.common.text import UsageError, unknown
from broker_sim.simulation.virtual.process import PROCESS, Process
from broker_sim.simulation.virtual.transport import SimTransport

if TYPE_CHECKING:
    from broker_sim.simulation.virtual.loop import SimLoop

__all__ = ["Cut", "Link", "Machine", "SimNetwork", "SimSocket"]

_SYN_RETRIES_S = (1, 2, 4, 8, 16, 32, 64)
_ANY = (None, "", "0.0.0.0", "::")
_HERE = ("localhost", "127.0.0.1", "::1")
_FIRST_PORT = 40_000


@dataclass(frozen=True, slots=True)
class Link:
    """Properties of the way from one machine to another: ``latency_ms`` and up to ``jitter_ms`` more; ``chunks``: the share of writes
    that arrive in two parts; ``loss``: the share of writes at which the connection is lost."""

    latency_ms: float = 0.5
    jitter_ms: float = 2.0
    chunks: float = 0.1
    loss: float = 0.0

    def __post_init__(self) -> None:
        for name in ("latency_ms", "jitter_ms"):
            if not 0 <= getattr(self, name) <= 3_600_000:
                raise UsageError(f"{name}: {getattr(self, name)!r} is invalid (expected 0 to an hour)")
        for name in ("chunks", "loss"):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(f"{name}: {getattr(self, name)!r} is invalid (expected a share from 0 to 1)")


class Machine:
    """A network host. ``process``: whose code its connections run, None where no process is on it."""

    __slots__ = ("address", "dark", "held", "name", "next_port", "process")

    def __init__(self, name: str, address: str) -> None:
        self.name, self.address = name, address
        self.process: Process | None = None
        self.dark = False
        """No power."""
        self.held = False
        """Whether the programs of the machine are suspended, while its kernel works."""
        self.next_port = _FIRST_PORT

    def __repr__(self) -> str:
        return f"<machine {self.name} {self.address}>"


class SimSocket:
    """A bound port: what of ``socket.socket`` a listener's owner asks for."""

    family, type, proto = socket.AF_INET, socket.SOCK_STREAM, 6

    def __init__(self, network: SimNetwork, machine: Machine, port: int) -> None:
        self.network, self.machine, self.port = network, machine, port

    def getsockname(self) -> tuple[str, int]:
        return self.machine.address, self.port

    def close(self) -> None:
        self.network.unbind(self)

    def fileno(self) -> int:
        return -1


class SimServer(asyncio.AbstractServer):
    """A listener. ``context``: the context (the process) that created it."""

    def __init__(self, network: SimNetwork, bound: SimSocket, factory: Callable[[], asyncio.BaseProtocol]) -> None:
        self.network, self.bound, self.factory = network, bound, factory
        self.context = contextvars.copy_context()
        self.serving = True

    def close(self) -> None:
        self.serving = False
        self.bound.close()

    async def wait_closed(self) -> None: ...

    def is_serving(self) -> bool:
        return self.serving

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self.network.loop

    async def start_serving(self) -> None: ...

    async def serve_forever(self) -> None:
        await self.network.loop.create_future()

    @property
    def sockets(self) -> tuple[SimSocket, ...]:
        return (self.bound,) if self.serving else ()


class Cut:
    """Ways that are cut until ``heal()``, or the end of a ``with`` block."""

    def __init__(self, network: SimNetwork, ways: Iterable[tuple[str, str]]) -> None:
        self.network = network
        self.ways = [way for way in dict.fromkeys(ways) if way[0] != way[1]]

    def heal(self) -> None:
        """The ways are free, as far as no other cut is on them; the second time nothing happens."""
        self.network.uncut(self)

    def __str__(self) -> str:
        return ", ".join(f"{a} -> {b}" for a, b in self.ways[:4]) + (" ..." if len(self.ways) > 4 else "")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.heal()


class SimNetwork:
    """All machines and connections of one simulation."""

    def __init__(
        self, loop: SimLoop, seed: object, link: Link | None = None, *, noisy: Collection[str] | None = None
    ) -> None:
        self.loop, self.seed = loop, seed
        self.noisy = None if noisy is None else frozenset(noisy)
        self.link = link or Link()
        """Link of all machines between which no other was set."""
        self._calm = replace(self.link, jitter_ms=0.0, chunks=0.0)
        self.machines: dict[str, Machine] = {}
        self.transports: dict[SimTransport, None] = {}
        """The ends of connections that are not lost."""
        self.lost_ends: list[SimTransport] = []
        """Transports of processes that died, kept as the other objects of those processes are."""
        self.cuts: dict[tuple[str, str], int] = {}
        self.context = contextvars.Context()
        self.note: Callable[[str], object] = lambda text: None
        """Called with cuts and losses, as text."""
        self._cuts: dict[Cut, None] = {}
        self._links: dict[tuple[str, str], Link] = {}
        self._bound: dict[tuple[str, int], SimSocket] = {}
        self._servers: dict[tuple[str, int], SimServer] = {}
        self._made: dict[tuple[str, str, int], int] = {}
        self._by_address: dict[str, Machine] = {}
        self.here = self.machine("test")
        """The machine of code that is on no host."""
        loop.network = self

    # --- machines and names

    def machine(self, name: str) -> Machine:
        """The machine of that name, made at the first call."""
        machine = self.machines.get(name)
        if machine is None:
            if not name or name in _HERE or any(not (c.isalnum() or c in "-._") for c in name):
                raise UsageError(f"invalid host name {name!r} (expected letters, digits, '-', '.' and '_')")
            number = len(self.machines) + 1
            machine = self.machines[name] = Machine(name, f"10.0.{number >> 8}.{number & 255}")
            self._by_address[machine.address] = machine
        return machine

    def known(self, name: str) -> Machine:
        """The machine with that name or address. Raises UsageError."""
        machine = self.machines.get(name) or self._by_address.get(name)
        if machine is None:
            raise unknown("host", name, self.machines)
        return machine

    def name_of(self, address: str) -> str:
        machine = self._by_address.get(address)
        return machine.name if machine else address

    def _mine(self) -> Machine:
        process = PROCESS.get()
        return self.here if process is None else self.machines.get(process.host, self.here)

    def getaddrinfo(self, host: Any, port: Any) -> list[Any]:
        """As ``socket.getaddrinfo``: one IPv4 address. Raises socket.gaierror."""
        machine = self._resolve(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (machine.address, int(port or 0)))]

    def _resolve(self, host: str | bytes | None) -> Machine:
        name = host.decode() if isinstance(host, bytes) else host
        if name in _HERE or name in _ANY:
            return self._mine()
        assert name is not None
        machine = self.machines.get(name) or self._by_address.get(name)
        if machine is None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return machine

    # --- listening and connecting

    def listen(self, host: str | None, port: int) -> SimSocket:
        """Bind a port; 0 takes a free one. Raises OSError where it is bound."""
        machine = self._resolve(host)
        if port == 0:
            port = next(p for p in range(30_000, _FIRST_PORT) if (machine.name, p) not in self._bound)
        if (machine.name, port) in self._bound:
            raise OSError(errno.EADDRINUSE, f"Address already in use: {machine.name}:{port}")
        bound = self._bound[machine.name, port] = SimSocket(self, machine, port)
        return bound

    def unbind(self, bound: SimSocket) -> None:
        """Close a listener's socket: its port is free, and connections to it are refused."""
        key = (bound.machine.name, bound.port)
        if self._bound.get(key) is bound:
            del self._bound[key]
            self._servers.pop(key, None)

    def close_ports(self, machine: Machine) -> None:
        """Close all listeners of a machine: connections to it are refused."""
        for bound in [bound for bound in self._bound.values() if bound.machine is machine]:
            self.unbind(bound)

    def serve(self, factory: Callable[[], Any], host: str | None, port: int | None, sock: Any) -> SimServer:
        """Listen, on a socket of ``listen`` or on host and port."""
        if sock is not None and not isinstance(sock, SimSocket):
            self.loop.forbid("listening on a real socket", "listen on a host and a port")
        bound = self.listen(host, port or 0) if sock is None else sock
        server = self._servers[bound.machine.name, bound.port] = SimServer(self, bound, factory)
        return server

    async def connect(self, factory: Callable[[], Any], host: Any, port: Any) -> tuple[SimTransport, Any]:
        """Connect as ``loop.create_connection``, with SYN retries in virtual time. Raises OSError (refused, unreachable, timed
        out)."""
        mine, other, port = self._mine(), self._resolve(host), int(port)
        key = (mine.name, other.name, port)
        number = self._made[key] = self._made.get(key, 0) + 1
        name = f"{self.seed}/{mine.name}>{other.name}:{port}#{number}"
        chance = random.Random(name)
        link = self.link_of(mine.name, other.name)
        for pause_s in (0.0, *_SYN_RETRIES_S):
            if pause_s:
                await asyncio.sleep(pause_s)
            answers = not (mine.dark or other.dark or self._is_cut(mine, other))
            if answers:
                await asyncio.sleep((2 * link.latency_ms + link.jitter_ms * chance.random()) / 1000)
                if not (mine.dark or other.dark or self._is_cut(mine, other)):
                    break
        else:
            raise TimeoutError(errno.ETIMEDOUT, f"Connect call failed {(other.address, port)!r}")
        server = self._servers.get((other.name, port))
        if server is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"Connect call failed {(other.address, port)!r}")
        mine.next_port += 1
        names = (mine.address, mine.next_port), (other.address, port)
        near = SimTransport(self, mine, names, contextvars.copy_context(), random.Random(name + ">"))
        far = SimTransport(self, other, names[::-1], server.context.copy(), random.Random(name + "<"))
        near.peer, far.peer = far, near
        self.transports[near] = self.transports[far] = None
        self.loop.call_soon(far.accept, server.factory, context=far.context)
        near.protocol = factory()
        near.protocol.connection_made(near)
        return near, near.protocol

    def _is_cut(self, machine: Machine, other: Machine) -> bool:
        return (machine.name, other.name) in self.cuts or (other.name, machine.name) in self.cuts

    def draw_anew(self, seed: object) -> None:
        """From now on writes draw what happens to them from ``seed``: on connections that there are, and on those to come."""
        self.seed = seed
        for number, end in enumerate(self.transports):
            end.draw_from(random.Random(f"{seed}/there {number}"))

    # --- links and what breaks them

    def link_of(self, sender: str, receiver: str) -> Link:
        """Link from one machine to another."""
        if self._links:
            link = self._links.get((sender, receiver))
            if link is not None:
                return link
        noisy = self.noisy
        return self.link if noisy is None or sender in noisy or receiver in noisy else self._calm

    def set_link(self, sender: str, receiver: str, **changes: float) -> Link:
        """Change the way from one machine to another, ``Link``'s fields by name; ``"*"``: any. Raises UsageError."""
        senders, other = self._names(sender), self._names(receiver)
        for name in changes:
            if name not in Link.__dataclass_fields__:
                raise unknown("field of a link", name, Link.__dataclass_fields__)
        link = self.link
        for way in ((a, b) for a in senders for b in other if a != b):
            link = self._links[way] = replace(self.link_of(*way), **changes)
        return link

    def cut(self, sender: str | Iterable[str], receiver: str | Iterable[str]) -> Cut:
        """Nothing comes through from one to the other until the cut is healed; ``"*"``: all others. Raises UsageError."""
        return self._cut([(a, b) for a in self._names(sender) for b in self._names(receiver)])

    def partition(self, one: str | Iterable[str], other: str | Iterable[str]) -> Cut:
        """Cut the connections between two sets of hosts in both directions (see `cut`)."""
        names, others = self._names(one), self._names(other)
        return self._cut([way for a in names for b in others for way in ((a, b), (b, a))])

    def heal(self) -> None:
        """End all cuts between hosts; connections that survived them continue."""
        for cut in list(self._cuts):
            self.uncut(cut)

    def _cut(self, ways: list[tuple[str, str]]) -> Cut:
        cut = Cut(self, ways)
        self._cuts[cut] = None
        self.note(f"cut {cut}")
        for way in cut.ways:
            self.cuts[way] = self.cuts.get(way, 0) + 1
        return cut

    def uncut(self, cut: Cut) -> None:
        """See `Cut.heal`."""
        if cut not in self._cuts:
            return
        del self._cuts[cut]
        self.note(f"heal {cut}")
        for way in cut.ways:
            self.cuts[way] -= 1
            if not self.cuts[way]:
                del self.cuts[way]
        self.release()

    def release(self) -> None:
        """Somebody can be reached again, or reads again: what waits for that goes on."""
        for end in list(self.transports):
            end.released()

    def reset(self, one: str, other: str = "*") -> int:
        """Every connection between them is lost at once, bytes on their way with it; returns how many were. Raises UsageError."""
        names, others = self._names(one), self._names(other)
        pairs = {(a, b) for a in names for b in others} | {(b, a) for a in names for b in others}
        lost = [end for end in self.transports if (end.machine.name, end.peer.machine.name) in pairs]
        for end in lost:
            end.reset()
        if lost:
            self.note(f"reset {one} {other}")
        return len(lost) // 2

    def lose(self, end: SimTransport) -> None:
        """A connection is lost: both ends learn it."""
        self.note(f"lose a connection of {end.machine.name} and {end.peer.machine.name}")
        end.reset()
        end.peer.reset()

    def close(self) -> None:
        """The end of everything: no connection is left, and everybody learns it, those too who were dead before."""
        for end in list(self.transports):
            end._end(None)
        lost, self.lost_ends = self.lost_ends, []
        for end in lost:
            if end.protocol is not None:
                self.loop.call_soon(end.protocol.connection_lost, None, context=end.context)

    def ends_of(self, machine: Machine) -> list[SimTransport]:
        """The ends of connections on a machine."""
        return [end for end in self.transports if end.machine is machine]

    def _names(self, which: str | Iterable[str]) -> list[str]:
        if which == "*":
            return list(self.machines)
        return [self.known(name).name for name in ([which] if isinstance(which, str) else which)]
