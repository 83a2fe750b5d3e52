"""The addresses that brokers listen on and those that they advertise to clients: Kafka's listeners and advertised.listeners.

    listeners = Listeners(configured(options, problems), brokers=2)
    sockets = listeners.bind(listen)                            # by broker, in the order of the listeners
    broker = listeners.register(state, 0, node_id=1, rack=None)  # from now on Metadata responses name what is advertised
    listeners.advertise(broker, "EXTERNAL://localhost:32768")

Of several brokers the first has the configured ports and the others the next ones, bound and advertised alike. Source:
SocketServerConfigs, KafkaConfig.effectiveAdvertisedBrokerListeners.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from broker_sim.common.text import UsageError, address, unknown
from broker_sim.config.settings import SECURITY_PROTOCOLS
from broker_sim.fields.kinds import FieldKind, Text, error_about, refusal
from broker_sim.metadata.broker import Broker, Endpoint
from broker_sim.network.server import listen_on

if TYPE_CHECKING:
    import socket

    from broker_sim.fields.problems import Problems
    from broker_sim.metadata.cluster_state import ClusterState

__all__ = [
    "WILDCARDS",
    "ConfiguredListener",
    "ListenerAddress",
    "ListenerKind",
    "Listeners",
    "configured",
    "take_settings",
]

WILDCARDS = ("", "0.0.0.0", "::")
"""Hosts to listen on that stand for every address of the machine."""
_LOCAL = "127.0.0.1"
"""Host that is advertised for a wildcard address, unless another one is given: Kafka takes the machine's canonical name."""
_PLAINTEXT = SECURITY_PROTOCOLS[0]
_CONTROLLER = "CONTROLLER"
"""Kafka's name for the listener of its controllers, which is none of a broker."""

_LISTENER = r"(?P<name>[A-Za-z][\w.-]*)://(?P<host>\[[0-9A-Fa-f:.]+\]|[\w.-]*):(?P<port>[0-9]{1,5})"  # compiled when one is given


class ListenerAddress(NamedTuple):
    """``NAME://HOST:PORT``; the name in capitals, as Kafka has it."""

    name: str
    host: str
    port: int


class ListenerKind(FieldKind[ListenerAddress]):
    """``NAME://HOST:PORT``. ``advertised``: clients connect to the host, so it can't be all addresses of the machine."""

    def __init__(self, *, advertised: bool = False) -> None:
        self.advertised = advertised
        host = "localhost" if advertised else "0.0.0.0"
        self.meant = f"a listener, as in 'EXTERNAL://{host}:29092'"

    def read(self, value: object, what: str = "") -> ListenerAddress:
        """The three parts of the text, the host without brackets."""
        match = re.fullmatch(_LISTENER, value.strip(), re.ASCII) if isinstance(value, str) else None
        if match is None or int(match["port"]) > 65535:
            raise refusal(what, value, self.meant)
        host = match["host"].strip("[]")
        if self.advertised and host in WILDCARDS:
            told = host or "an empty host"
            raise error_about(what, f"{value!r}: clients can't connect to {told} (expected a host that they can)")
        return ListenerAddress(match["name"].upper(), host, int(match["port"]))

    def schema(self) -> dict[str, Any]:
        return Text().schema()


class ConfiguredListener(NamedTuple):
    """A listener of the first broker. ``protocol``: security.protocol of its clients. ``port`` 0: a free one; ``advertised_port`` 0:
    the one that it listens on."""

    name: str
    protocol: str
    host: str
    port: int
    advertised_host: str
    advertised_port: int = 0


# --- as settings of Kafka's -------------------------------------------------------------------------------------------

_SETTINGS = {"listeners": ListenerKind(), "advertised.listeners": ListenerKind(advertised=True)}
_PROTOCOLS, _CONTROLLERS = "listener.security.protocol.map", "controller.listener.names"


def take_settings(values: dict[str, object], options: dict[str, Any], problems: Problems) -> None:
    """Move Kafka's settings about listeners out of ``values`` into ``options``, where they replace what arguments say of the first
    listener; that both say it goes to ``problems``."""
    controllers = _split(values.pop(_CONTROLLERS, _CONTROLLER))
    for setting, kind in _SETTINGS.items():
        argument = setting.replace(".", "_")
        if setting not in values:
            continue
        listed = [part for part in _split(values.pop(setting)) if part.partition("://")[0] not in controllers]
        if options.get(argument):
            problems.add(
                UsageError(f"{argument} and the setting {setting} exclude each other; give one of them"), argument
            )
            continue
        with problems.at("config"):
            options[argument] = [kind.read(part, setting) for part in listed]
            if setting == "listeners":
                options["listeners_are_all"] = True
    if _PROTOCOLS in values:
        with problems.at("config"):
            options["protocols"] = _protocols(_split(values.pop(_PROTOCOLS)))


def _split(value: object) -> list[str]:
    """A setting of type list."""
    parts = value if isinstance(value, list | tuple) else str(value).split(",")
    return [str(part).strip() for part in parts if str(part).strip()]


def _protocols(pairs: list[str]) -> dict[str, str]:
    result = {}
    for pair in pairs:
        name, _, protocol = pair.partition(":")
        if protocol not in SECURITY_PROTOCOLS:
            expected = "NAME:PROTOCOL, with " + ", ".join(SECURITY_PROTOCOLS[:-1]) + f" or {SECURITY_PROTOCOLS[-1]}"
            raise UsageError(f"{_PROTOCOLS}: {pair!r} is not the protocol of a listener (expected {expected})")
        result[name.upper()] = protocol
    return result


# --- what is configured -----------------------------------------------------------------------------------------------


def configured(options: dict[str, Any], problems: Problems) -> list[ConfiguredListener]:
    """The listeners that the arguments of a cluster say, in order; what is wrong with them goes to ``problems``. Sets
    ``security_protocol`` where it is what the settings say."""
    advertised_host = options.get("advertised_host")
    bound = _bound(options, problems)
    protocols = _by_listener(bound, options, problems)
    told: dict[str, ListenerAddress] = {own.name: own for own in options.get("advertised_listeners") or ()}
    for name in [name for name in told if name not in bound]:
        error = f"advertised_listeners: no listener {name} (expected {', '.join(bound)})"
        problems.add(UsageError(error), "advertised_listeners")
    first = next(iter(bound))
    if advertised_host and first in told:
        error = f"advertised_host and {first} of advertised_listeners exclude each other; give one of them"
        problems.add(UsageError(error), "advertised_host")
    _check_ports(bound, told, options.get("brokers", 1), problems)
    result = []
    for name, (own, port) in bound.items():
        usual = (name == first and advertised_host) or (_LOCAL if own in WILDCARDS else own)
        where = told.get(name, ListenerAddress(name, usual, 0))[1:]
        result.append(ConfiguredListener(name, protocols[name], own, port, *where))
    return result


def _bound(options: Mapping[str, Any], problems: Problems) -> dict[str, tuple[str, int]]:
    """Name -> the host and port of the first broker; the order is that of the listeners."""
    listed: Sequence[ListenerAddress] = options.get("listeners") or ()
    usual = "" if options.get("listeners_are_all") else options.get("host", _LOCAL)  # Kafka's: all addresses
    protocol, port = options.get("security_protocol", _PLAINTEXT), options.get("port", 0)
    bound: dict[str, tuple[str, int]] = {}
    if not (listed and options.get("listeners_are_all")):
        bound[protocol] = options.get("host", _LOCAL), port
    elif port:
        problems.add(UsageError("port and the setting listeners exclude each other; give one of them"), "port")
    seen: set[str] = set()
    for name, host, own_port in listed:
        if name in seen or name == _CONTROLLER:
            error = (
                f"listeners: {name}: each listener must have a different name, and {_CONTROLLER} is the controller's"
            )
            problems.add(UsageError(error), "listeners")
        elif name in bound and port:
            problems.add(UsageError(f"listeners: {name}: port says {port} already; give one of them"), "listeners")
        else:
            bound[name] = host or usual, own_port
        seen.add(name)
    return bound


def _by_listener(bound: Iterable[str], options: dict[str, Any], problems: Problems) -> dict[str, str]:
    """The security protocol of each listener: that of its name in listener.security.protocol.map, or PLAINTEXT's own and the cluster's
    for all others. There is one beside PLAINTEXT."""
    protocol, mapped = options.get("security_protocol", _PLAINTEXT), options.get("protocols")
    if mapped is None:
        for name in [name for name in bound if name in SECURITY_PROTOCOLS[1:] and name != protocol]:
            expected = f"PLAINTEXT, or a name that is none: {protocol} holds for it"
            error = f"listeners: {name}: the security protocol is {protocol} (expected {expected})"
            problems.add(UsageError(error), "listeners")
        return {name: _PLAINTEXT if name == _PLAINTEXT else protocol for name in bound}
    result = {}
    for name in bound:
        own = mapped.get(name)
        if own is None:
            error = f"listeners: {name}: no security protocol (expected one in {_PROTOCOLS})"
            problems.add(UsageError(error), "listeners")
        result[name] = own or protocol
    secured = sorted({protocol, *result.values()} - {_PLAINTEXT})
    if len(secured) > 1:
        error = f"{_PROTOCOLS}: {' and '.join(secured)}: brokers have one security protocol beside PLAINTEXT"
        problems.add(UsageError(error), "security_protocol")
    elif secured:
        options["security_protocol"] = secured[0]
    return result


def _check_ports(
    bound: Mapping[str, tuple[str, int]], told: Mapping[str, ListenerAddress], brokers: int, problems: Problems
) -> None:
    """Whether all brokers have a port for each listener, each a different one (SocketServerConfigs)."""
    taken: dict[str, int] = {}
    for name, (_, port) in bound.items():
        near = [other for other, start in taken.items() if port and abs(port - start) < brokers]
        error = _port_error(port, brokers)
        if near:
            shown = f"{port}" if brokers == 1 else f"one of {port} to {port + brokers - 1}"
            error = f"each listener must have a different port, and {near[0]} has {shown}"
        if error is not None:
            first = name == next(iter(bound))
            problems.add(
                UsageError(error if first else f"listeners: {name}: {error}"), "port" if first else "listeners"
            )
        elif port:
            taken[name] = port
    for name, _, port in told.values():
        if (error := _port_error(port, brokers)) is not None:
            problems.add(UsageError(f"advertised_listeners: {name}: {error}"), "advertised_listeners")


def _port_error(port: int, brokers: int) -> str | None:
    """Reason why the brokers can't listen from this port on; None if they can."""
    most = 65536 - brokers
    return f"port {port} is invalid for {brokers} brokers (expected 0 to {most})" if port > most else None


# --- of a cluster -----------------------------------------------------------------------------------------------------


class Listeners:
    """The listeners of a cluster's brokers, across starts: ports that were free ones are kept, and what was advertised since."""

    def __init__(self, listeners: Sequence[ConfiguredListener], brokers: int) -> None:
        self.configured = list(listeners)
        self._ports = [
            [own.port + number if own.port else 0 for own in listeners] for number in range(brokers)
        ]  # by broker
        self._advertised: dict[tuple[int, str], tuple[str, int]] = {}
        self.places: Sequence[tuple[str, int]] = ()
        """Host and port of each broker, where they run on different hosts: each listens there, and advertises it."""

    @property
    def names(self) -> list[str]:
        """In order, the first one being that of `Cluster.bootstrap`."""
        return [own.name for own in self.configured]

    def hosts(self) -> list[str]:
        """All hosts by which clients may know a broker, for its certificate."""
        both = [*(own.advertised_host for own in self.configured), *(own.host for own in self.configured)]
        return [host for host in dict.fromkeys(both) if host not in WILDCARDS]

    def bind(self, listen: Callable[[str, int], socket.socket]) -> list[list[socket.socket]]:
        """The sockets of each broker, or none. Raises UsageError."""
        addresses = [
            self.places[number] if self.places else (own.host, port)
            for number, ports in enumerate(self._ports)
            for own, port in zip(self.configured, ports, strict=True)
        ]
        bound = iter(listen_on(addresses, listen))
        sockets = [[next(bound) for _ in ports] for ports in self._ports]
        self._ports = [[sock.getsockname()[1] for sock in own] for own in sockets]
        return sockets

    def register(self, state: ClusterState, number: int, node_id: int, rack: str | None) -> Broker:
        """Add the broker that is this one in order, counted from 0, to the cluster's state."""
        endpoints = {}
        for own, port in zip(self.configured, self._ports[number], strict=True):
            host = self.places[number][0] if self.places else own.advertised_host
            told = host, own.advertised_port + number if own.advertised_port else port
            advertised = self._advertised.get((node_id, own.name), told)
            endpoints[own.name] = Endpoint(*advertised, own.protocol, (own.host, port))
        return state.register_broker(node_id, endpoints, rack)

    def advertise(self, broker: Broker, told: str) -> tuple[str, str]:
        """Advertise another address from now on, also after a restart: ``NAME://HOST:PORT``, or HOST:PORT of the first listener.
        Returns its name and that address. Raises UsageError."""
        text = told if "://" in told else f"{self.names[0]}://{told}"
        name, host, port = ListenerKind(advertised=True).read(text)
        if name not in broker.endpoints:
            raise unknown("listener", name, broker.endpoints)
        if port == 0:
            raise UsageError(f"{told!r} has no port that clients can connect to (expected 1 to 65535)")
        self._advertised[broker.node_id, name] = host, port
        broker.advertise(name, host, port)
        return name, address(host, port)
