"""The fault campaign: scenarios drawn from a seed, in which everything that can go wrong does.

`draw(seed)` returns the scenario of a seed: protocol and settings, network, losses, traffic and faults. Every fault
ends before the traffic does, so each run tests first safety under faults and then, once healed, convergence: the
specifications are checked on the whole trace, and a run that is still waiting for something when its time is up has
not converged. The scenario of a violation is kept in a file of its own, which one command replays.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from random import Random
from typing import Any

from gossamer.core.settings import ProtocolSettings
from gossamer.pipeline.experiments import campaign_live
from gossamer.pipeline.experiments.directory import Directory
from gossamer.pipeline.experiments.grid import DRAWN, Run
from gossamer.presets import LIVE, LIVE_PRESETS
from gossamer.rungs import self_organized
from gossamer.sim import matrix
from gossamer.sim.run import build_topology, full_queue_s
from gossamer.sim.scenario import parse
from gossamer.spec.promises import HEAL_S

PROTOCOLS = ("rpbcast", "pbcast", "lbrm", "basic", "redelivery", "srm")
TOPOLOGIES = ("lan", "star", "tree", "tiers", "transit-stub", "mesh")
LINGER_S = 240.0
OVERHEAD_BYTES = 100
BANDWIDTH_MIN = 300e3
"""Bit/s: what a group says without publishing anything must fit, too."""

Table = dict[str, Any]


def draw(seed: int) -> Table:
    """The scenario of a seed: of every third, with the settings of a live group."""
    rng = Random(f"campaign/{seed}")
    table = campaign_live.draw(rng) if seed % 3 == 0 else _draw(rng)
    links = Random(f"campaign/links/{seed}")
    if seed % 3 == 0:
        table["protocol"]["congestion"] = links.choice(("delay", "delay", "none"))
        table["traffic"]["rate"] *= links.choice((1, 1, 5))  # or no sender would ever have to wait
    table["topology"] |= _links(links, table)
    if "grace" in table:
        table["grace"] += full_queue_s(parse(table))
    return table


def _draw(rng: Random) -> Table:
    protocol = _protocol(rng)
    members = rng.randint(4, 20)
    duration = round(rng.uniform(4.0, 8.0), 2)
    table: Table = {
        "duration": duration,
        "linger": LINGER_S,
        "wire": rng.random() < 0.5,
        "topology": {
            "kind": rng.choice(TOPOLOGIES),
            "members": members,
            "latency": rng.choice((0.0005, 0.005, 0.02)),
            "seed": rng.randint(1, 10**6),
        },
        "loss": _loss(rng),
        "traffic": {
            "senders": rng.randint(1, members - 1),
            "rate": round(rng.uniform(10.0, 120.0), 1),
            "size": rng.choice((64, 1024, 7168)),
            "arrivals": rng.choice(("poisson", "steady", "burst")),
        },
        "protocol": protocol,
    }
    table["fault"] = _faults(rng, table)
    if self_organized(_settings(table)):
        table["grace"] = HEAL_S + 5
    return table


def _links(rng: Random, table: Table) -> Table:
    """Half of the networks carry anything; in the others all links, or those of some members, are bottlenecks.

    They carry little more than what is published, or less: then packets wait and are dropped until the traffic is over.
    """
    load = 8 * table["traffic"]["rate"] * (table["traffic"]["size"] + OVERHEAD_BYTES) * _copies(table)
    members = table["topology"]["members"]
    queue = {"queue": rng.choice((10, 50, 200)), "exact": rng.random() < 0.5}
    all_narrow = {"bandwidth": max(BANDWIDTH_MIN, load * rng.choice((0.7, 1.5, 4.0))), **queue}
    some_narrow = {
        "slow": sorted(rng.sample(range(members), rng.choice((1, 1, 2)))),
        "slow_bandwidth": max(BANDWIDTH_MIN, load * rng.choice((0.5, 0.9, 1.5))),
        **queue,
    }
    return rng.choice(({}, {}, {"bandwidth": 0.0}, all_narrow, some_narrow, some_narrow))


def _copies(table: Table) -> int:
    """How often the link of a sender has to carry each packet.

    Members that limit what is repeated (`request_packets`) get along with a link that does not carry all copies. Others
    fill it with repetitions for good, as the papers' protocols do.
    """
    settings = _settings(table)
    copied = settings.dissemination == "copies" and not settings.request_packets
    return int(table["topology"]["members"]) - 1 if copied else 1


DRAWN["campaign"] = draw


def _protocol(rng: Random) -> Table:
    """Any combination of rungs that is not refused, or a preset as in its paper, or as live groups use it."""
    kind = rng.random()
    if kind < 0.6:
        return {**matrix.settings_of(matrix.draw(rng)), **_numbers(rng)}
    name = rng.choice(PROTOCOLS)
    if kind < 0.8:
        return {"name": name, **_numbers(rng)}
    bounds = {"window": rng.choice((8, 32)), "reach": rng.choice((0, 64)), "request_packets": rng.choice((8, 32))}
    return {"name": name, **LIVE, **LIVE_PRESETS[name], "ordering": rng.choice(("fifo", "fifo", "none")), **bounds}


def _numbers(rng: Random) -> Table:
    return {
        "gossip_period": rng.choice((0.1, 0.25, 0.5)),
        "gc_rounds": rng.choice((3, 10, 20)),
        "patience": rng.choice((0.05, 0.2)),
        "peer_rounds": rng.choice((10, 40)),
        "service_limit": rng.choice((0, 100, 1000)),
    }


def _loss(rng: Random) -> Table:
    loss: Table = {"member": rng.choice((0.0, 0.01, 0.05, 0.2)), "link": rng.choice((0.0, 0.0, 0.01))}
    if rng.random() < 0.3:
        loss["burst"] = [round(rng.uniform(0.001, 0.02), 4), round(rng.uniform(0.1, 0.5), 3)]
    if rng.random() < 0.3:
        loss |= {"duplicate": rng.choice((0.01, 0.1)), "reorder": rng.choice((0.05, 0.3))}
    return loss


def _faults(rng: Random, table: Table) -> list[Table]:
    """Draw some faults, each over before the traffic ends."""
    kinds = ["partition", "crash", "perturb", "lose", "cut", "none"]
    if self_organized(_settings(table)):
        kinds += ["crash-lost", "disconnect", "churn"]
    faults: list[Table] = []
    for _ in range(rng.randint(1, 4)):
        kind = rng.choice(kinds)
        at = round(rng.uniform(0.2, 0.5) * table["duration"], 3)
        for_ = round(rng.uniform(0.05, 0.3) * table["duration"], 3)
        faults += _fault(rng, kind, at, for_, table)
    return _that_an_order_outlives(faults, table)


def _that_an_order_outlives(faults: list[Table], table: Table) -> list[Table]:
    """Most sites of an order by majority keep their memory; if half of them lose it at once, the order is over."""
    if table["protocol"].get("ordering") not in ("total", "central"):
        return faults
    forgetful = [fault for fault in faults if fault.get("memory") == "lost"]
    spared = forgetful[(table["topology"]["members"] - 1) // 2 :]
    return [{**fault, "memory": "kept"} if fault in spared else fault for fault in faults]


def _fault(rng: Random, kind: str, at: float, for_: float, table: Table) -> list[Table]:
    count = table["topology"]["members"]
    loggers = _settings(table).loggers
    someone = rng.randrange(count)
    receiver = rng.randrange(table["traffic"]["senders"], count)
    match kind:
        case "partition":
            members = list(range(count))
            rng.shuffle(members)
            cut = rng.randint(1, count - 1)
            return [{"at": at, "kind": kind, "members": [sorted(members[:cut]), sorted(members[cut:])], "for": for_}]
        case "crash":
            return [{"at": at, "kind": kind, "members": [someone], "memory": "kept", "for": for_}]
        case "crash-lost":
            return [{"at": at, "kind": "crash", "members": [someone], "memory": "lost", "for": for_}]
        case "disconnect":
            return [{"at": at, "kind": kind, "members": [someone], "for": for_}]
        case "perturb":
            some = sorted(rng.sample(range(count), max(1, count // 4)))
            return [{"at": at, "kind": kind, "members": some, "probability": round(rng.random(), 2), "for": for_}]
        case "lose":
            return [{"at": at, "kind": kind, "members": [someone], "packets": rng.randint(1, 50)}]
        case "churn" if receiver < count - loggers:
            leaves = {"at": at, "kind": "leave", "members": [receiver]}
            return [leaves, {"at": round(at + for_, 3), "kind": "join", "members": [receiver]}]
        case "cut":
            links = build_topology(parse({k: table[k] for k in ("topology", "loss")})).links
            link = rng.choice(links)
            return [{"at": at, "kind": kind, "link": [link.a, link.b], "for": for_}]
        case _:
            return []


def _settings(table: Table) -> ProtocolSettings:
    return parse({"topology": table["topology"], "protocol": table["protocol"]}).protocol


def violations(directory: Directory, planned: Sequence[Run]) -> list[Table]:
    """The violations in checked runs, each with the command that replays its scenario."""
    runs = {run.run: run for run in planned}
    found: list[Table] = []
    for row in directory.rows(["run", "seed", "status", "violations", "outstanding"]):
        run = runs.get(row["run"])
        if run is not None and run.check and row["status"] == "fine":
            found += _violated(directory, run, row)
    return found


def _violated(directory: Directory, run: Run, row: Table) -> list[Table]:
    broken = list(row["violations"])
    scenario = parse(run.scenario, run.folder)
    if row["outstanding"] and scenario.protocol.repair:
        message = f"{row['outstanding']} deliveries are missing {scenario.linger:g} s after the last fault ended"
        broken.append({"spec": "convergence", "message": message})
    if not broken:
        return []
    path = directory.path / "violations" / f"{run.run.replace('/', '.')}.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(scenario_toml(run.scenario), "utf-8")
    command = f"gossamer simulate {path}"
    return [{"run": run.run, "seed": run.seed, "replay": command, **each} for each in broken]


def scenario_toml(table: Table) -> str:
    """Write a scenario as TOML."""
    lines = [
        f"{key} = {_toml(value)}" for key, value in table.items() if key != "fault" and not isinstance(value, dict)
    ]
    for key, value in table.items():
        if isinstance(value, dict):
            lines += ["", f"[{key}]", *(f"{name} = {_toml(part)}" for name, part in value.items())]
    for fault in table.get("fault", []):
        lines += ["", "[[fault]]", *(f"{name} = {_toml(part)}" for name, part in fault.items())]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    """Format a value: numbers, strings, booleans and lists of them look the same in TOML and JSON."""
    return json.dumps(value)
