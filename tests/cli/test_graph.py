"""`gossamer graph`, `simulate --graph` and `plan --order`, as an operator uses them."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any
from xml.etree import ElementTree

import pytest

from gossamer.cli.graph import described, drawing, graphs
from gossamer.sim.run import simulate
from gossamer.sim.scenario import parse


def profile(member: int, graph: int, primary: int, **more: Any) -> dict[str, Any]:
    standing = {"graph": graph, "primary": primary, "sites": [1, 2, 3], "places": 1200, "delivered": 1200}
    standing |= {"blocked": "", "blocked_seconds": 0.0, "depth": 1, **more}
    return {"member": member, "name": f"m{member}", "stats": {"order": standing}}


def test_the_latest_graph_comes_first_with_those_that_are_in_it():
    found = graphs([profile(1, 1, 1, blocked="no primary"), profile(2, 2, 2), profile(3, 2, 2, delivered=1100)])
    assert described("accounts", found) == [
        "group accounts, graph 2: primary m2; sites m1, m2, m3",
        "  m2: 1,200 of 1,200 settled places",
        "  m3: 1,100 of 1,200 settled places",
        "group accounts, graph 1: primary m1; sites m1, m2, m3",
        "  m1: 1,200 of 1,200 settled places  blocked: no primary",
    ]


def test_members_without_one_order_are_in_no_graph():
    assert graphs([{"member": 1, "name": "m1", "stats": {"order": {}}}]) == []


def test_the_drawing_has_a_line_from_the_primary_to_every_other_site():
    (entry,) = graphs([profile(2, 2, 2)])
    tags = [node.tag.split("}")[1] for node in ElementTree.fromstring(drawing(entry)).iter()]
    assert tags.count("line") == 2
    assert tags.count("circle") == 3


def test_a_branch_is_named_and_drawn_from_its_own_primary():
    branch = {"channels": [2, 5], "primary": 3, "sites": [1, 3], "places": None}
    found = graphs([profile(1, 2, 2, branches=[branch]), profile(3, 2, 2, branches=[branch])])
    assert described("accounts", found)[1] == "  branch for channels 2, 5, primary m3: m1, m3"
    drawn = list(ElementTree.fromstring(drawing(found[0])))
    assert len([node for node in drawn if node.tag.endswith("line")]) == 2 + 1
    assert "depth 2" in "".join(node.text or "" for node in drawn)


def gossamer(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "gossamer", *words], capture_output=True, text=True, check=False)


def test_simulate_draws_the_graph(tmp_path):
    words = ("simulate", "scenarios/lan.toml", "--set", "duration=1", "--graph", str(tmp_path / "graph.svg"), "--json")
    made = gossamer(*words, "--set", "protocol.ordering=total")
    assert made.returncode == 0, made.stderr
    order = json.loads(made.stdout)["order"]
    assert order["agreement"]
    lines = ElementTree.parse(tmp_path / "graph.svg").getroot().findall("{http://www.w3.org/2000/svg}line")
    assert len(lines) == len(order["sites"]) - 1
    refused = gossamer(*words)
    assert refused.returncode == 2
    assert "has no order for all" in refused.stderr


def test_plan_predicts_what_an_order_costs():
    made = gossamer("plan", "--members", "8", "--loss", "0.01", "--rtt", "0.002", "--order", "total", "--json")
    entries = json.loads(made.stdout)["entries"]
    assert entries["order_messages"]["value"] == 5
    assert entries["order_delay"]["value"] == 0.004
    assert entries["two_phase_messages"]["value"] == 24
    assert entries["non_atomic_delay"]["value"] == 0.002
    assert gossamer("plan", "--members", "8", "--loss", "0.01", "--order", "causal").returncode == 2


@pytest.mark.parametrize("members", [2, 3, 4, 5, 8])
def test_plan_predicts_what_is_simulated(members):
    """Small groups need not be told what is settled. Packets of all members, some while others are not settled yet."""
    words = ("--loss", "0.01", "--rtt", "0.002", "--failure", "1e-6", "--order", "total", "--json")
    said = gossamer("plan", "--members", str(members), *words)
    planned = json.loads(said.stdout)["entries"]
    topology = {"kind": "lan", "members": members, "latency": 0.001}
    traffic = {"senders": members, "rate": 300.0, "arrivals": "steady"}
    protocol = {"name": "unreliable", "ordering": "total", "order_patience": 100.0}
    made = simulate(parse({"duration": 10.0, "topology": topology, "traffic": traffic, "protocol": protocol}))
    sent = made["overhead_by_kind"]["order"]["packets"] / made["packets"]["sent"]
    assert sent == pytest.approx(planned["order_messages"]["value"], rel=0.05)
    assert made["latency"]["max"] == pytest.approx(planned["order_delay"]["value"], rel=0.15)
