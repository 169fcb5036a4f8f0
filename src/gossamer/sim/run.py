"""One simulation from beginning to end: build the world, run it, sum it up."""

import gc
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from time import perf_counter
from typing import Any

from gossamer.core.ladder import Automaton
from gossamer.core.schema import SettingError
from gossamer.presets import describe
from gossamer.rungs import bounds, holds_back, promises, resumes, settle_s
from gossamer.sim import topology as topologies
from gossamer.sim.channels import wanted_by, with_channels
from gossamer.sim.faults import Faults
from gossamer.sim.lanes import Lanes
from gossamer.sim.priorities import cost_of, with_lists
from gossamer.sim.scenario import Scenario, check_members
from gossamer.sim.topology import Topology, TopologyError
from gossamer.sim.world import UP, MakeStack, World
from gossamer.spec.promises import HEAL_S
from gossamer.stack import Stack
from gossamer.trace.buffer import RowBuffer
from gossamer.trace.recorder import Recorder

_HEADERS_BYTES = 64
GC_THRESHOLD = 500_000
"""Python looks for cyclic garbage after this many new objects. A run makes hardly any, and has millions of objects that
live on: with the usual threshold, 700, a fifth of the time goes into scanning them again and again."""

Progress = Callable[[float], None]
"""Called now and then with the virtual time."""


def build_topology(scenario: Scenario) -> Topology:
    """The network of a scenario; SettingError if it cannot be built."""
    t = scenario.topology
    try:
        return topologies.with_slow_members(_shape(scenario), t.slow, t.slow_bandwidth)
    except TopologyError as error:
        raise SettingError(f"topology: {error}") from None


def _shape(scenario: Scenario) -> Topology:
    t = scenario.topology
    link = (t.latency, t.bandwidth, scenario.loss.link)
    rng = Random(f"topology/{t.seed}")
    match t.kind:
        case "lan":
            return topologies.lan(t.members, *link)
        case "star":
            return topologies.star(t.members, *link)
        case "mesh":
            return topologies.mesh(t.members, *link)
        case "tree":
            return topologies.tree(t.members or None, t.branching, t.depth or None, *link)
        case "transit-stub":
            return topologies.transit_stub(t.members, *link, rng)
        case "tiers":
            return topologies.tiers(t.members, t.nodes or None, *link, rng)
        case _:
            return topologies.from_file(Path(scenario.folder) / t.path, t.bandwidth, scenario.loss.link)


def metadata(scenario: Scenario, members: int) -> dict[str, Any]:
    """What a trace says about its run: enough to check it and to repeat it."""
    return {
        "name": scenario.name,
        "seed": scenario.seed,
        "protocol": scenario.protocol.name,
        "settings": describe(scenario.protocol),
        "promises": promises(scenario.protocol),
        "recovery": scenario.protocol.recovery,
        "bounds": bounds(scenario.protocol),
        "copies": scenario.protocol.log_copies,
        "settle_s": max(settle_s(scenario.protocol, members), _refill_s(scenario)),
        "heal_s": HEAL_S + full_queue_s(scenario),
        "members": members,
        "scenario": scenario.as_dict(),
    }


def _refill_s(scenario: Scenario) -> float:
    """How long the slowest link takes to carry everything once more: nothing settles sooner on a slow network."""
    return _carrying_s(scenario, scenario.traffic.rate * scenario.duration)


def full_queue_s(scenario: Scenario) -> float:
    """How long the slowest link takes to carry a full queue: news may be at its end."""
    return _carrying_s(scenario, scenario.topology.queue)


def _carrying_s(scenario: Scenario, packets: float) -> float:
    """How long the slowest link takes for so many packets; no time at all if links carry anything."""
    topology = scenario.topology
    slowest = min(topology.bandwidth, topology.slow_bandwidth) if topology.slow else topology.bandwidth
    return 8 * (scenario.traffic.size + _HEADERS_BYTES) * packets / slowest if slowest else 0.0


def simulate(
    scenario: Scenario,
    *,
    sink: RowBuffer | None = None,
    progress: Progress | None = None,
    make_stack: MakeStack | None = None,
    topology: Topology | None = None,
) -> dict[str, Any]:
    """Run a scenario; `sink` receives the trace rows. The result is the table of `gossamer simulate --json`."""
    began = perf_counter()
    topology = topology or build_topology(scenario)
    count = len(topology.members)
    scenario = with_channels(scenario, count)
    check_members(scenario, count)
    scenario = with_lists(scenario, topology)
    recorder = Recorder(sink)
    lanes = Lanes(count, ordered=holds_back(scenario.protocol)) if make_stack is None and not scenario.wire else None
    make_stack = make_stack or stack_maker(scenario, count, sink is not None, lanes)
    world = World(scenario, topology, make_stack, recorder, lanes)
    faults = Faults(world, scenario.fault)
    absent = faults.absent_at_first(scenario.fault)
    with _rare_collections():
        world.start(tuple(m for m in range(count) if m not in absent))
        world.run(_settled(world, faults), progress)
    return _result(scenario, topology, world, perf_counter() - began)


@contextmanager
def _rare_collections() -> Iterator[None]:
    before = gc.get_threshold()
    gc.set_threshold(GC_THRESHOLD, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def stack_maker(scenario: Scenario, count: int, observed: bool = False, lanes: Lanes | None = None) -> MakeStack:
    """The function that makes the stacks of a scenario's members; the last members are the loggers."""
    loggers = tuple(range(count - scenario.protocol.loggers, count))
    siblings: dict[type, Any] = {}
    listening = {m: wanted for m, wanted in wanted_by(scenario, count).items() if wanted and m not in loggers}

    def make(me: int, members: tuple[int, ...], rng: Random) -> Automaton:
        stack = Stack(
            me,
            members,
            scenario.protocol,
            rng,
            loggers=loggers,
            observed=observed,
            siblings=siblings,
            listening=listening,
        )
        if lanes is not None:
            lanes.enter(stack)
        return stack

    return make


def _settled(world: World, faults: Faults) -> Callable[[], bool]:
    """Tells whether all is published, every fault is over, and everything is delivered or given up, for a while now."""
    since = -1.0

    def settled() -> bool:
        nonlocal since
        if world.ledger.outstanding or world.publishing or faults.left or world.rejoins():
            since = -1.0
            return False
        if since < 0:
            since = world.now
        return world.now - since > world.scenario.grace

    return settled


def _result(scenario: Scenario, topology: Topology, world: World, seconds: float) -> dict[str, Any]:
    recorder = world.recorder
    links = {
        f"{topology.links[link].a}-{topology.links[link].b}": {"packets": packets, "bytes": size}
        for link, (packets, size) in sorted(world.network.accounting.per_link().items())
    }
    overhead = list(recorder.overhead.values())
    result = {
        "name": scenario.name,
        "seed": scenario.seed,
        "protocol": scenario.protocol.name,
        "members": world.count,
        "virtual_seconds": world.now,
        **world.ledger.summary(),
        "overhead": {"packets": sum(c[0] for c in overhead), "bytes": sum(c[1] for c in overhead)},
        "overhead_by_kind": {k: {"packets": c[0], "bytes": c[1]} for k, c in sorted(recorder.overhead.items())},
        "repairs": {
            "sent": sum(recorder.repairs.values()),
            "by_member": {str(m): n for m, n in sorted(recorder.repairs.items())},
        },
        "links": links,
        "buffers": _buffers(world),
        "queue_drops": world.network.queue_drops,
        "suspicions": world.suspicions,
    }
    if coordinators := _coordinators(world, topology):
        result["coordinators"] = coordinators
    if scenario.channel:
        result["channels"] = _channels(scenario, world)
    if order := _order(world):
        result["order"] = order
    result["violations"] = _plain_violations(scenario, result["deliveries"])
    digest = world.ledger.digest()
    digest.update(json.dumps(result, sort_keys=True).encode())
    return result | {
        "trace_hash": digest.hexdigest(),
        "repeated": sum(
            stack.duplicates for stack in world.stacks if isinstance(stack, Stack)
        ),  # packets that came twice
        "outstanding": world.ledger.outstanding,  # not 0 if the run was cut off, or waited for nothing
        "events": world.events,
        "wall_seconds": seconds,
    }


def _channels(scenario: Scenario, world: World) -> dict[str, dict[str, int]]:
    """What was sent to each channel, what came of it, and how often it came to a member that did not want it."""
    counts, nothing = world.ledger.by_channel(), {"sent": 0, "expected": 0, "actual": 0}
    return {
        name: {**counts.get(number, nothing), "wasted": world.channels.wasted[number]}
        for number, name in enumerate(scenario.channel_names(), 1)
    }


def _coordinators(world: World, topology: Topology) -> dict[str, Any]:
    """Whom each member follows at the end, what their tree costs, and what was filled; empty without coordinators."""
    stacks = {m: s for m, s in enumerate(world.stacks) if isinstance(s, Stack) and world.states[m] == UP}
    known = {str(m): standing for m, s in stacks.items() if (standing := s.partition(world.now))}
    if not known:
        return {}
    totals = {name: sum(standing[name] for standing in known.values()) for name in ("changes", "filled", "addressed")}
    follow = {member: standing["coordinator"] for member, standing in known.items()}
    parents = {m: parent for m, parent in world.parents.items() if m in stacks}
    return {"follow": follow, **totals, **cost_of(parents, topology)}


def _order(world: World) -> dict[str, Any]:
    """How the one order of all members went; empty if there is none."""
    orders = [stack.order for stack in world.stacks if isinstance(stack, Stack)]
    known = [standing for order in orders if (standing := order.standing(world.now))]
    if not known:
        return {}
    latest = max(known, key=lambda standing: (standing["graph"], standing["places"]))
    return {
        "agreement": world.ledger.in_one_order(),
        "blocked_seconds": sum(standing["blocked_seconds"] for standing in known),
        "undone": sum(standing.get("undone", 0) for standing in known),
        "depth": max(standing["depth"] for standing in known),
        "extra": 0,
        "graph": latest["graph"],
        "primary": latest["primary"],
        "sites": latest["sites"],
        "branches": latest.get("branches", []),
    }


def _buffers(world: World) -> dict[str, dict[str, float]]:
    """How full each member's buffer was, in packets, and how much each log holds at the end."""
    stacks = {str(m): s for m, s in enumerate(world.stacks) if isinstance(s, Stack)}
    occupancies = {m: s.buffer.occupancy(world.now) for m, s in stacks.items()}
    return {
        "peak_packets": {m: o[0] for m, o in occupancies.items()},
        "mean_packets": {m: o[1] for m, o in occupancies.items()},
        "log_packets": {str(m): sum(map(len, disk.log.values())) for m, disk in enumerate(world.disks) if disk.log},
    }


def _plain_violations(scenario: Scenario, deliveries: dict[str, int]) -> list[dict[str, Any]]:
    """What the ledger alone can tell; `checked` checks the run against every specification that it promises."""
    wrong = ("bogus",) if resumes(scenario.protocol) else ("bogus", "duplicate")
    return [
        {"spec": "ledger", "message": f"{deliveries[kind]} {kind} deliveries", "rows": []}
        for kind in wrong
        if deliveries[kind]
    ]
