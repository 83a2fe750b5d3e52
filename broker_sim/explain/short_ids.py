"""Short names for members: the instance id, or the simulated host they run on, or the client id; where several share it, with as much
of the member id's random part as distinguishes them. An instance id that several processes use has the client behind it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from broker_sim.explain.model import MemberInfo

__all__ = ["short_names"]

_SHORTEST = 4


def short_names(members: Iterable[MemberInfo], hosts: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """Member id -> a name for people. All ids of one static member have its instance id as their name, as long as one process uses it.
    ``hosts``: the names of clients' hosts by their addresses, by which faults in simulations are described."""
    alike: dict[str, list[MemberInfo]] = defaultdict(list)
    for info in members:
        alike[info.instance or hosts.get(info.client_host) or info.client_id or _without_uuid(info.member)].append(info)
    names: dict[str, str] = {}
    for base, infos in alike.items():
        static = {info.instance for info in infos}
        if len(infos) == 1 or (len(static) == 1 and None not in static):
            names.update(
                (info.member, base + behind) for info, behind in zip(infos, _processes(infos, hosts), strict=True)
            )
            continue
        suffixes = [_suffix(info.member, info.client_id or base) for info in infos]
        length = _SHORTEST
        longest = max(map(len, suffixes))
        while length < longest and len({suffix[:length] for suffix in suffixes}) < len(set(suffixes)):
            length += 1
        names.update((info.member, f"{base}-{suffix[:length]}") for info, suffix in zip(infos, suffixes, strict=True))
    return names


def _processes(infos: list[MemberInfo], hosts: Mapping[str, str]) -> list[str]:
    """Suffixes that distinguish the processes of members with one instance id: the client id, else the host, else the member id of one
    that was never admitted; "" for a member that was restarted."""
    clients = {info.client_id for info in infos}
    machines = Counter((info.client_id, info.client_host) for info in infos)
    result = []
    for info in infos:
        machine = hosts.get(info.client_host) or info.client_host
        apart = info.client_id if len(clients) > 1 else f"at {machine}" if len(machines) > 1 else ""
        if not info.admitted and machines[info.client_id, info.client_host] > 1:
            apart = " ".join(filter(None, (apart, _suffix(info.member, info.client_id)[:_SHORTEST])))
        result.append(f" ({apart})" if apart else "")
    return result


def _suffix(member: str, base: str) -> str:
    return member.removeprefix(base).lstrip("-") or member


def _without_uuid(member: str) -> str:
    """``app-1`` of ``app-1-2f1c...``: the part before the 36 characters of a UUID."""
    head, tail = member[:-37], member[-37:]
    return head if head and len(tail) == 37 and tail[0] == "-" and tail.count("-") == 5 else member
