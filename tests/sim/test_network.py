"""The modelled network by hand-computed cases: trees, accounting, queues, losses."""

from itertools import pairwise
from random import Random

import pytest

from gossamer.sim.loss import Burst, LossSampler
from gossamer.sim.network import HopNetwork, Network
from gossamer.sim.routing import Router
from gossamer.sim.run import build_topology, simulate
from gossamer.sim.topology import Link, Topology


def arrivals_of(network, send):
    """What `send(arrive)` causes: member -> times."""
    found: dict[int, list[float]] = {}

    def arrive(time, members):
        for member in members:
            found.setdefault(member, []).append(time)

    send(arrive)
    return found


def test_multicast_on_a_tree_crosses_each_link_once_and_unicast_its_path(scenario):
    """Binary tree of depth 3: 14 links, 8 leaves; 1024-byte bodies travel as 1052 bytes."""
    result = simulate(
        scenario(topology={"kind": "tree", "members": 0, "branching": 2, "depth": 3}, traffic={"rate": 10.0})
    )
    sent = result["packets"]["sent"]
    assert sent == 20
    assert len(result["links"]) == 14
    assert {link["packets"] for link in result["links"].values()} == {sent}
    assert {link["bytes"] for link in result["links"].values()} == {sent * (1024 + 28)}
    assert result["deliveries"]["actual"] == sent * 9


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("bandwidth", [0.0, 1e9])
def test_an_addressed_multicast_reaches_only_those_addressed_and_crosses_each_link_to_them_once(
    scenario, exact, bandwidth
):
    """Reference: 001 §2.2"""
    topology = {"kind": "tree", "members": 15, "branching": 2, "latency": 0.01, "bandwidth": bandwidth}
    made = scenario(topology=topology)
    later: list = []
    if exact:
        network: Network = HopNetwork(build_topology(made), made, Random(1), lambda at, do: later.append(do))
    else:
        network = Network(build_topology(made), made, Random(1))

    def send(arrive):
        network.multicast(0.0, 0, 100, arrive, to=(7, 8, 14))
        while later:
            later.pop(0)()

    assert sorted(arrivals_of(network, send)) == [7, 8, 14]
    crossed = {link: packets for link, (packets, _) in network.accounting.per_link().items()}
    ways = [network.router.path(0, member) or [] for member in (7, 8, 14)]
    assert crossed == {link // 2: 1 for way in ways for link in way}


def test_latency_is_propagation_plus_transmission_on_each_link(scenario):
    made = scenario(topology={"kind": "tree", "members": 3, "branching": 2, "latency": 0.01, "bandwidth": 1e6})
    network = Network(build_topology(made), made, Random(1))
    assert arrivals_of(network, lambda a: network.multicast(5.0, 0, 1000, a)) == {
        1: [pytest.approx(5.0 + 0.008 + 0.01)],
        2: [pytest.approx(5.0 + 0.008 + 0.01)],
    }


def test_packets_queue_behind_each_other_and_too_many_are_dropped(scenario):
    made = scenario(topology={"kind": "star", "members": 2, "latency": 0.0, "bandwidth": 16000.0, "queue": 2})
    network = Network(build_topology(made), made, Random(1))
    got = [arrivals_of(network, lambda a: network.unicast(0.0, 0, 1, 2000, a)) for _ in range(5)]
    # each link takes 1 s per packet: one in transmission, two waiting, the rest have no room
    assert [list(g.values()) for g in got] == [[[2.0]], [[3.0]], [[4.0]], [], []]
    assert network.queue_drops == 2


def test_a_small_packet_finds_room_where_a_large_one_does(scenario):
    made = scenario(topology={"kind": "star", "members": 2, "latency": 0.0, "bandwidth": 16000.0, "queue": 2})
    network = Network(build_topology(made), made, Random(1))
    sizes = (4000, 4000, 100)
    got = [arrivals_of(network, lambda a, size=size: network.unicast(0.0, 0, 1, size, a)) for size in sizes]
    assert [list(g.values()) for g in got] == [[[4.0]], [[6.0]], [[6.05]]]


def test_a_packet_that_reaches_a_link_first_does_not_wait_for_one_that_was_sent_first(scenario):
    made = scenario(topology={"kind": "star", "members": 3, "bandwidth": 8000.0})
    links = (Link(0, 3, 1.0, 0.0, 8000.0), Link(1, 3, 0.001, 0.0, 8000.0), Link(2, 3, 0.001, 0.0, 8000.0))
    network = Network(Topology(4, links, (0, 1, 2)), made, Random(1))
    far = arrivals_of(network, lambda a: network.unicast(0.0, 0, 2, 100, a))
    near = arrivals_of(network, lambda a: network.unicast(0.0, 1, 2, 100, a))
    assert far == {2: [pytest.approx(1.201)]}
    assert near == {2: [pytest.approx(0.202)]}


def test_a_small_packet_does_not_overtake_a_large_one_that_was_sent_right_before_it(scenario):
    """Though a third one, which comes to their last link much later, was worked out before them."""
    made = scenario(topology={"kind": "star", "members": 3, "bandwidth": 8000.0})
    links = (Link(0, 3, 1.0, 0.0, 8000.0), Link(1, 3, 0.001, 0.0, 8000.0), Link(2, 3, 0.001, 0.0, 8000.0))
    network = Network(Topology(4, links, (0, 1, 2)), made, Random(1))
    arrivals_of(network, lambda a: network.unicast(0.0, 0, 2, 100, a))
    large = arrivals_of(network, lambda a: network.unicast(0.0, 1, 2, 100, a))
    small = arrivals_of(network, lambda a: network.unicast(0.0, 1, 2, 10, a))
    assert large == {2: [pytest.approx(0.202)]}
    assert small == {2: [pytest.approx(0.212)]}


def test_a_lossy_link_near_the_root_loses_packets_for_its_whole_subtree_together(scenario):
    """Losses are correlated. Reference: 003 §3"""
    made = scenario(topology={"kind": "tree", "members": 0, "branching": 2, "depth": 3}, loss={"link": 0.3})
    network = Network(build_topology(made), made, Random(4))
    halves = []
    for i in range(400):
        got = arrivals_of(network, lambda a, i=i: network.multicast(i / 10, 0, 100, a))
        halves.append((sum(m in got for m in range(1, 5)), sum(m in got for m in range(5, 9))))
    all_lost = sum(left == 0 for left, _ in halves) / len(halves)
    independent = (1 - 0.7**3) ** 4
    assert all_lost > 0.3 > independent + 0.05  # the link alone loses 30% of them


@pytest.mark.parametrize("bandwidth", [0.0, 100e6])
def test_loss_per_link_has_its_probability_with_and_without_bandwidth(scenario, bandwidth):
    made = scenario(
        topology={"kind": "tree", "members": 65, "branching": 4, "bandwidth": bandwidth},
        loss={"link": 0.02},
        traffic={"rate": 200.0},
        duration=10.0,
    )
    result = simulate(made)
    fraction = (result["deliveries"]["actual"] - result["packets"]["sent"]) / (result["packets"]["sent"] * 64)
    assert fraction == pytest.approx(0.98**3, abs=0.006)
    crossings = sum(link["packets"] for link in result["links"].values())
    expected = result["packets"]["sent"] * (4 + 16 * 0.98 + 64 * 0.98**2)
    assert crossings == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize(("protocol", "rate"), [("unreliable", 360.0), ("basic", 100.0)])
def test_one_event_per_path_and_one_per_hop_agree_below_saturation(scenario, protocol, rate):
    table = {
        "topology": {"kind": "tiers", "members": 18},
        "traffic": {"senders": 18, "rate": rate, "arrivals": "poisson"},
        "duration": 5.0,
    }
    fast = simulate(scenario(protocol, **table))
    exact = simulate(scenario(protocol, **{**table, "topology": {**table["topology"], "exact": True}}))
    assert fast["deliveries"] == exact["deliveries"]
    assert fast["queue_drops"] == exact["queue_drops"] == 0
    for statistic in ("mean", "p50", "p99"):
        assert fast["latency"][statistic] == pytest.approx(exact["latency"][statistic], rel=0.02)
    assert fast["links"] == exact["links"]


def test_hops_lose_and_account_as_paths_do(scenario):
    table = {
        "topology": {"kind": "tree", "members": 0, "branching": 2, "depth": 3},
        "loss": {"link": 0.05},
        "traffic": {"rate": 100.0},
        "duration": 20.0,
    }
    fast = simulate(scenario(**table))
    exact = simulate(scenario(**{**table, "topology": {**table["topology"], "exact": True}}))
    assert exact["deliveries"]["actual"] == pytest.approx(fast["deliveries"]["actual"], rel=0.02)
    total = [sum(link["packets"] for link in result["links"].values()) for result in (fast, exact)]
    assert total[0] == pytest.approx(total[1], rel=0.02)


def test_loss_sampler_jumps_as_often_as_single_trials_lose():
    jumping, single = LossSampler(0.03, Random(1)), LossSampler(0.03, Random(2))
    hits = sum(len(jumping.hits(37)) for _ in range(3000))
    singles = sum(single.one() for _ in range(37 * 3000))
    expected = 0.03 * 37 * 3000
    assert hits == pytest.approx(expected, rel=0.06)
    assert singles == pytest.approx(expected, rel=0.06)


def test_loss_sampler_hits_are_evenly_spread_over_positions():
    sampler, counts = LossSampler(0.1, Random(3)), [0] * 10
    for _ in range(20_000):
        for hit in sampler.hits(10):
            counts[hit] += 1
    assert all(count == pytest.approx(2000, rel=0.12) for count in counts)


def test_bursts_have_the_stationary_loss_and_length_of_gilbert_elliott():
    burst = Burst(0.02, 0.25, Random(5))
    lost = [burst.one() for _ in range(200_000)]
    assert sum(lost) / len(lost) == pytest.approx(0.02 / 0.27, rel=0.08)
    starts = sum(b and not a for a, b in pairwise(lost))
    assert sum(lost) / starts == pytest.approx(4.0, rel=0.08)


def test_hop_network_needs_a_schedule_and_uses_it(scenario):
    made = scenario(topology={"kind": "star", "members": 2, "latency": 0.5, "bandwidth": 0.0})
    events = []
    network = HopNetwork(build_topology(made), made, Random(1), lambda time, do: events.append((time, do)))
    found: list[tuple[float, list[int]]] = []
    network.multicast(0.0, 0, 10, lambda time, members: found.append((time, members)))
    while events:
        events.pop(0)[1]()
    assert found == [(1.0, [1])]


@pytest.mark.parametrize("seed", range(5))
def test_in_a_tree_the_way_over_the_common_ancestor_is_the_shortest_path(seed):
    rng = Random(seed)
    links = [Link(rng.randrange(node), node, rng.random(), 0.0, 0.0) for node in range(1, 40)]
    tree = Router(Topology(40, tuple(links), tuple(rng.sample(range(40), 12))))
    searching = Router(tree.topology)
    searching.ways = None
    pairs = [(a, b) for a in range(12) for b in range(12) if a != b]
    assert tree.ways is not None
    assert [tree.path(a, b) for a, b in pairs] == [searching.path(a, b) for a, b in pairs]
    for router in (tree, searching):
        router.set_down(frozenset({7}))
    assert [tree.path(a, b) for a, b in pairs] == [searching.path(a, b) for a, b in pairs]


@pytest.mark.parametrize("seed", range(3))
def test_unicasts_in_a_tree_arrive_and_are_accounted_for_as_their_paths_say(scenario, seed):
    rng = Random(seed)
    links = tuple(Link(rng.randrange(node), node, rng.random(), 0.0, 0.0) for node in range(1, 40))
    topology = Topology(40, links, tuple(rng.sample(range(40), 12)))
    network = Network(topology, scenario(), Random(1))
    crossed: dict[int, tuple[int, int]] = {}
    for i in range(300):
        source, target = rng.sample(range(12), 2)
        got = arrivals_of(network, lambda a, s=source, t=target, i=i: network.unicast(1.0, s, t, i, a))
        path = network.router.path(source, target)
        assert got == {target: [pytest.approx(1.0 + sum(links[link // 2].latency for link in path))]}
        for link in path:
            packets, size = crossed.get(link // 2, (0, 0))
            crossed[link // 2] = (packets + 1, size + i)
    assert network.accounting.per_link() == crossed


def test_repetitions_leave_room_on_a_link_that_carries_less_than_what_is_published(scenario):
    """At a fixed period the queue would be full of repetitions as long as there is anything to repeat."""
    made = scenario(
        duration=20.0,
        linger=60.0,
        topology={"kind": "star", "members": 3, "slow": [2], "slow_bandwidth": 250e3, "queue": 10},
        traffic={"rate": 60.0, "size": 1024},
        loss={"member": 0.2},
        protocol={"name": "basic"},
    )
    result = simulate(made)
    assert result["outstanding"] == 0
    assert 0 < result["queue_drops"] < 25 * result["packets"]["sent"]
