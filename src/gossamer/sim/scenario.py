"""A scenario: all that a run depends on, as a TOML file (as in FoundationDB: workload and faults are data).

`load` and `parse` return a checked `Scenario` or raise `SettingError` with one line that names the key.
"""

import dataclasses
import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gossamer.core.schema import SettingError, build, setting
from gossamer.core.settings import ProtocolSettings
from gossamer.presets import preset

SHIPPED = Path(__file__).parents[1] / "scenarios"
"""Scenarios that come with this package."""
FAULTS = (
    "partition",
    "heal",
    "crash",
    "recover",
    "disconnect",
    "reconnect",
    "perturb",
    "lose",
    "join",
    "leave",
    "cut",
    "mend",
    "listen",
)
TOPOLOGIES = ("tiers", "transit-stub", "tree", "star", "lan", "mesh", "file")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologySettings:
    """The network: who is connected to whom, and how good the links are."""

    kind: str = setting("lan", "The shape of the network.", choices=TOPOLOGIES)
    members: int = setting(0, "Group members; 0 lets `depth` or the file decide.", low=0, high=100_000)
    branching: int = setting(4, "tree: children per node.", low=1, high=10_000)
    depth: int = setting(0, "tree: levels below the root; 0 takes what `members` needs.", low=0, high=20)
    nodes: int = setting(0, "tiers: nodes in total; 0 takes 30 per 18 members.", low=0, high=200_000)
    seed: int = setting(1, "tiers, transit-stub: which network is drawn; the run's seed does not change it.", low=0)
    path: str = setting("", "file: an edge list of lines a,b,latency_s[,loss[,bandwidth_bps]].")
    latency: float = setting(0.005, "One-way delay of a link.", unit="s", low=0, high=60)
    bandwidth: float = setting(100e6, "Bandwidth of a link, in each direction; 0 is unlimited.", unit="bit/s", low=0)
    slow: tuple[int, ...] = setting((), "Members whose own links have less bandwidth.", low=0)
    slow_bandwidth: float = setting(1e6, "Bandwidth of the links of `slow` members.", unit="bit/s", above=0)
    queue: int = setting(50, "Packets that may wait per link and direction; more are dropped.", low=1)
    exact: bool = setting(False, "One event per hop instead of one per path: slower, but right under congestion.")


@dataclass(frozen=True, slots=True, kw_only=True)
class LossSettings:
    """What the network does to packets, apart from full queues."""

    link: float = setting(0.0, "Probability that a link loses a packet, for everything below it.", low=0, below=1)
    member: float = setting(0.0, "Probability that a receiver alone loses a packet.", low=0, below=1)
    burst: tuple[float, float] = setting(
        (0.0, 0.0), "Gilbert-Elliott at each receiver: P(good->bad), P(bad->good).", low=0, high=1
    )
    duplicate: float = setting(0.0, "Probability that a packet arrives twice.", low=0, below=1)
    reorder: float = setting(0.0, "Probability of an extra delay of up to one latency.", low=0, high=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficSettings:
    """Who publishes how much."""

    senders: int = setting(1, "Members 0 .. senders-1 publish.", low=1)
    rate: float = setting(100.0, "Packets per second over all senders.", unit="1/s", above=0, high=1e7)
    size: int = setting(1024, "Bytes of a packet's body.", unit="bytes", low=1, high=65_000)
    arrivals: str = setting("poisson", "How sends are spread.", choices=("poisson", "steady", "burst"))
    burst_size: int = setting(10, "burst: packets per burst.", low=1, high=100_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something that goes wrong at a given time, and perhaps ends after a while."""

    at: float = setting(0.0, "When it begins.", unit="s", low=0)
    kind: str = setting("partition", "What happens.", choices=FAULTS)
    members: tuple[int | tuple[int, ...], ...] = setting((), "Which members; a partition names its sides.", low=0)
    for_: float = setting(0.0, "How long it lasts; 0 means until something ends it.", unit="s", low=0)
    link: tuple[int, ...] = setting((), "cut, mend: the two nodes of the link.", low=0)
    probability: float = setting(0.5, "perturb: chance to sleep through a 100 ms interval (004 §7).", low=0, high=1)
    packets: int = setting(50, "lose: how many consecutive packets are discarded (004 Fig. 14).", low=1)
    memory: str = setting("kept", "crash: whether the process's memory survives.", choices=("kept", "lost"))
    channels: tuple[str, ...] = setting((), "listen: the channels that the members listen to from now on, by name.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelSettings:
    """A channel besides channel 0, which all members hear (see `common`)."""

    name: str = setting("", "What to call it.")
    members: tuple[int, ...] = setting((), "Who listens; loggers do in any case.", low=0)
    senders: tuple[int, ...] = setting((), "Who publishes to it, listening or not; default: those that listen.", low=0)
    share: float = setting(1.0, "Its part of `traffic.rate`, relative to the other channels.", low=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """All that one run depends on."""

    name: str = setting("unnamed", "What to call it.")
    seed: int = setting(1, "The seed of everything random.", low=0, below=2**63)
    duration: float = setting(10.0, "Time in which senders publish.", unit="s", above=0, high=1e6)
    linger: float = setting(60.0, "At most this long afterwards, until all is delivered or given up.", low=0, high=1e6)
    grace: float = setting(0.5, "How long it goes on then, so that what must not happen has time to happen.", low=0)
    topology: TopologySettings = dataclasses.field(default_factory=TopologySettings)
    loss: LossSettings = dataclasses.field(default_factory=LossSettings)
    traffic: TrafficSettings = dataclasses.field(default_factory=TrafficSettings)
    protocol: ProtocolSettings = dataclasses.field(default_factory=ProtocolSettings)
    fault: tuple[Fault, ...] = ()
    channel: tuple[ChannelSettings, ...] = ()
    channels: int = setting(
        0, "In place of [[channel]] tables: so many channels, to each of which all senders publish.", low=0
    )
    common: float = setting(
        0.0, "With channels: the part of `traffic.rate` that `traffic.senders` publish to channel 0, as a share.", low=0
    )
    listening: int = setting(1, "With `channels`: to how many of them each member listens, drawn at random.", low=0)
    addresses: int = setting(0, "Multicast addresses that channels share in turn; 0: each has its own.", low=0)
    wire: bool = setting(False, "Encode and decode every message, so that the codec meets the same faults: slower.")
    folder: str = setting(".", "Where relative paths start.")

    def with_seed(self, seed: int) -> "Scenario":
        """The same with another seed."""
        return dataclasses.replace(self, seed=seed)

    def as_dict(self) -> dict[str, Any]:
        """A plain table, for traces and reports."""
        table = dataclasses.asdict(self)
        del table["folder"]
        table["fault"] = [{k.rstrip("_"): v for k, v in fault.items()} for fault in table["fault"]]
        return table

    def channel_names(self) -> list[str]:
        """The names of the channels, from channel 1 on."""
        return [channel.name for channel in self.channel]


def find(name: str) -> Path:
    """The file of a scenario: a path as given, or the name of one that comes with this package."""
    path = Path(name)
    if path.suffix == ".toml" or path.is_file():
        return path
    shipped = SHIPPED / f"{name}.toml"
    if not shipped.is_file():
        known = ", ".join(sorted(found.stem for found in SHIPPED.glob("*.toml")))
        raise SettingError(f"no scenario {name!r}: give a .toml file, or one of: {known}")
    return shipped


def load(path: Path, overrides: Sequence[str] = ()) -> Scenario:
    """Read a scenario file; `overrides` are strings like `loss.member=0.05`."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingError(f"{path}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingError(f"{path}: not TOML: {error}") from None
    for override in overrides:
        _override(table, override)
    return parse(table, str(path.parent))


def parse(table: Mapping[str, Any], folder: str = ".") -> Scenario:
    """A scenario from a plain table."""
    table = dict(table)
    faults = _tables(table, "fault")
    channels = _tables(table, "channel")
    sections = {name: _section(table, name) for name in ("topology", "loss", "traffic", "protocol")}
    protocol = sections.pop("protocol")
    scenario = build(Scenario, {"folder": folder, **table})
    scenario = dataclasses.replace(
        scenario,
        topology=build(TopologySettings, sections["topology"], "topology"),
        loss=build(LossSettings, sections["loss"], "loss"),
        traffic=build(TrafficSettings, sections["traffic"], "traffic"),
        protocol=preset(_name(protocol), _with_channels(protocol, len(channels) or scenario.channels)),
        fault=tuple(build(Fault, fault, f"fault[{i}]") for i, fault in enumerate(faults)),
        channel=tuple(build(ChannelSettings, channel, f"channel[{i}]") for i, channel in enumerate(channels)),
    )
    _check_topology(scenario.topology)
    _check_channels(scenario)
    return scenario


def check_members(scenario: Scenario, members: int) -> None:
    """What can only be checked once the number of members is known: SettingError names the key."""
    if scenario.traffic.senders > members:
        raise SettingError(f"traffic.senders = {scenario.traffic.senders}: there are only {members} members")
    if scenario.protocol.loggers >= members:
        raise SettingError(f"protocol.loggers = {scenario.protocol.loggers}: there are only {members} members")
    lists = len(scenario.protocol.lists)
    if lists not in (0, members):
        raise SettingError(f"protocol.lists: {lists} lists for {members} members; give one for each")
    for i, fault in enumerate(scenario.fault):
        _check_fault(f"fault[{i}]", fault, members)
        names = [name for name in fault.channels if name not in scenario.channel_names()]
        if names:
            raise SettingError(f"fault[{i}].channels names {names[0]!r}: there is no such channel")
    for i, channel in enumerate(scenario.channel):
        for key in ("members", "senders"):
            if max(getattr(channel, key), default=0) >= members:
                raise SettingError(f"channel[{i}].{key}: there are only members 0 to {members - 1}")
        if not channel.senders and not channel.members:
            raise SettingError(f"channel[{i}].senders: nobody publishes to {channel.name!r}, and nobody listens")


def _with_channels(protocol: Mapping[str, Any], channels: int) -> dict[str, Any]:
    """The overrides of a preset: that there are channels follows from the scenario."""
    overrides = {key: value for key, value in protocol.items() if key != "name"}
    return overrides | {"channels": channels + 1} if channels else overrides


def _tables(table: dict[str, Any], name: str) -> Sequence[dict[str, Any]]:
    found = table.pop(name, [])
    if not isinstance(found, list | tuple) or not all(isinstance(one, dict) for one in found):
        raise SettingError(f"{name}: must be tables, each headed [[{name}]]")
    return found


def _check_channels(scenario: Scenario) -> None:
    names = scenario.channel_names()
    if names and scenario.channels:
        raise SettingError(f"channels = {scenario.channels}: there are [[channel]] tables; give one or the other")
    for i, name in enumerate(names):
        if not name or name in names[:i]:
            raise SettingError(f"channel[{i}].name = {name!r}: each channel needs a name of its own")
    if scenario.channels and scenario.listening > scenario.channels:
        raise SettingError(f"listening = {scenario.listening}: there are only {scenario.channels} channels")


def fault_members(fault: Fault) -> list[int]:
    """Every member that a fault names, in order."""
    return [m for part in fault.members for m in (part if isinstance(part, tuple) else (part,))]


def _section(table: dict[str, Any], name: str) -> dict[str, Any]:
    section = table.pop(name, {})
    if not isinstance(section, dict):
        raise SettingError(f"{name} = {section!r}: must be a table, headed [{name}]")
    return section


def _name(protocol: Mapping[str, Any]) -> str:
    name = protocol.get("name", "unreliable")
    if not isinstance(name, str):
        raise SettingError(f"protocol.name = {name!r}: must be a string")
    return name


def _override(table: dict[str, Any], override: str) -> None:
    path, equals, text = override.partition("=")
    if not equals or not path:
        raise SettingError(f"--set {override}: must look like loss.member=0.05")
    *sections, key = path.strip().split(".")
    for section in sections:
        table = table.setdefault(section, {})
        if not isinstance(table, dict):
            raise SettingError(f"--set {override}: {section} is not a table")
    table[key] = _value(text.strip())


def _value(text: str) -> Any:
    """A value as TOML would read it; anything else is a string."""
    try:
        return tomllib.loads(f"v = {text}")["v"]
    except tomllib.TOMLDecodeError:
        return text


def _check_topology(topology: TopologySettings) -> None:
    if topology.kind == "file" and not topology.path:
        raise SettingError("topology.path: must name an edge list when topology.kind is file")
    if topology.kind not in ("file", "tree") and topology.members < 2:
        raise SettingError(f"topology.members = {topology.members}: must be at least 2")
    if topology.kind == "tree" and not topology.depth and topology.members < 2:
        raise SettingError("topology.members: a tree needs members (at least 2) or depth")


def _check_fault(name: str, fault: Fault, members: int) -> None:
    for member in fault_members(fault):
        if member >= members:
            raise SettingError(f"{name}.members names member {member}: there are only 0 to {members - 1}")
    sides = [part for part in fault.members if isinstance(part, tuple)]
    if fault.kind == "partition":
        if len(sides) < 2 or len(sides) != len(fault.members):
            raise SettingError(f"{name}.members: a partition names its sides, as in [[0, 1], [2, 3]]")
        if len(set(fault_members(fault))) != len(fault_members(fault)):
            raise SettingError(f"{name}.members: a member cannot be on two sides")
    elif fault.kind in ("cut", "mend"):
        if len(fault.link) != 2:
            raise SettingError(f"{name}.link: must name the two nodes of a link, as in [0, 1]")
    elif fault.kind != "heal" and (sides or not fault.members):
        raise SettingError(f"{name}.members: must be a list of members, as in [0, 1]")


def canonical(scenario: Scenario) -> str:
    """The scenario as one string: equal scenarios have equal strings."""
    return json.dumps(scenario.as_dict(), sort_keys=True)
