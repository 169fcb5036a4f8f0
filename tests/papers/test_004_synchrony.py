"""Virtual synchrony as 004 describes it: whole scenarios over many seeds, and what its sentences say.

`make test` runs a few seeds of each scenario, `make soak` two hundred.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from itertools import chain, pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from gossamer.buffering.until_stable import UntilStable
from gossamer.core.effects import BecomeStranger, JoinAnew, Unicast
from gossamer.core.ids import FIRST_PASS
from gossamer.core.inputs import Heard, Received, Started
from gossamer.core.messages import Ack
from gossamer.core.packets import Packet
from gossamer.core.ranges import RangeSet
from gossamer.core.schema import SettingError
from gossamer.core.views import Excluded, Flush, MemberEntry, NewView
from gossamer.membership.view import MEMBER
from gossamer.presets import preset
from gossamer.rungs import BUFFERS
from gossamer.sim.checked import traced
from gossamer.sim.run import simulate
from gossamer.sim.scenario import Fault, Scenario, load, parse
from gossamer.stack import Stack

from .test_004_pbcast import Rows

SCENARIOS = Path(__file__).parents[2] / "scenarios"
FEW, MANY = range(1, 4), range(4, 204)
SCENES = ("lossy", "perturbed", "crash", "flush", "churn", "partition", "thirds", "pauses", "eager", "any", "any-flush")
KEPT = {"by all": (), "by some": ("protocol.buffering=hashed", "protocol.bufferers=2", "protocol.short_rounds=1")}
"""What is not stable is kept by all members, or by few of them (003 §8)."""


def scenario(name: str, *changes: str, seed: int = 1) -> Scenario:
    """A file of `scenarios/`, or one that is drawn from its seed."""
    if name == "any":
        return any_faults(seed, *changes)
    if name == "any-flush":
        return any_moment_of_a_flush(seed, *changes)
    return load(SCENARIOS / f"synchrony-{name}.toml", changes).with_seed(seed)


def any_moment_of_a_flush(seed: int, *changes: str) -> Scenario:
    """A join, and the death or a pause of the coordinator at any moment of the view change that it causes."""
    made, rng = scenario("lossy", *changes, seed=seed), Random(seed)
    joins = Fault(at=2.0, kind="join", members=(6,))
    memory = rng.choice(["lost", "kept"])
    dies = Fault(at=2.0 + rng.uniform(0.0, 0.06), kind="crash", members=(0,), memory=memory, for_=2.0)
    return dataclasses.replace(made, fault=(joins, dies), name="any-flush")


def any_faults(seed: int, *changes: str) -> Scenario:
    """Six faults of any kind, at any time, and then a network that is whole again.

    Who is offline at some time does not leave: one that leaves while offline is just gone, with what it published.
    """
    made, rng = scenario("lossy", *changes, seed=seed), Random(seed)
    found = [fault for _ in range(6) for fault in _any_fault(rng)]
    offline = [fault.members for fault in found if fault.kind == "disconnect"]
    found = [fault for fault in found if fault.kind not in ("leave", "join") or fault.members not in offline]
    return dataclasses.replace(made, fault=(*found, Fault(at=8.0, kind="heal")), duration=7.0, name="any")


def _any_fault(rng: Random) -> list[Fault]:
    kind, at, who = rng.choice(["crash", "crash", "partition", "disconnect", "leave", "lose"]), rng.uniform(0.5, 5), 7
    member, lasts = rng.randrange(who), rng.uniform(0.2, 2.5)
    if kind == "partition":
        members = rng.sample(range(who), who)
        cut = rng.randrange(1, who - 1)
        return [Fault(at=at, kind=kind, members=(tuple(members[:cut]), tuple(members[cut:])), for_=lasts)]
    if kind == "leave":
        return [Fault(at=at, kind="leave", members=(member,)), Fault(at=at + 2.5, kind="join", members=(member,))]
    if kind == "lose":
        return [Fault(at=at, kind="lose", members=(member,), packets=40)]
    memory = rng.choice(["kept", "lost"]) if kind == "crash" else "kept"
    return [Fault(at=at, kind=kind, members=(member,), memory=memory, for_=lasts)]


def expect_synchrony(made: Scenario) -> dict[str, Any]:
    result = traced(made)
    where = f"{made.name}, seed {made.seed}"
    if result["outstanding"] and half_is_gone(made):  # nobody may go on, and everybody says so
        assert noted(made, "block", "no majority"), where
        unsafe = [v for v in result["violations"] if "was never delivered" not in v["message"]]
        assert unsafe == [], where
        return result
    assert result["violations"] == [], where
    assert result["outstanding"] == 0, f"still waiting at the end: {where}"
    assert result["deliveries"]["bogus"] == result["deliveries"]["duplicate"] == 0, where
    return result


def half_is_gone(made: Scenario) -> bool:
    """Whether so many crashed for good that they are half of the last view, or more (004 §5: the primary component).

    That takes more than the crashes of a scenario alone: a member was left out because nobody kept a packet (003 §8),
    and could not join again before they came.
    """
    last = max(views(made), key=lambda view: view[2])[3].split()
    gone = {str(member) for f in made.fault if f.kind == "crash" and not f.for_ for member in f.members}
    return 2 * len(gone.intersection(last)) >= len(last)


@pytest.mark.parametrize("name", SCENES)
@pytest.mark.parametrize("seed", FEW)
@pytest.mark.parametrize("kept", KEPT)
def test_members_that_go_on_together_have_delivered_the_same(name, seed, kept):
    """Reference: 004 §1 (atomicity), §3, Fig. 2; 003 §8"""
    expect_synchrony(scenario(name, *KEPT[kept], seed=seed))


@pytest.mark.soak
@pytest.mark.parametrize("name", [*SCENES, "bufferers"])
@pytest.mark.parametrize("kept", KEPT)
def test_members_that_go_on_together_have_delivered_the_same_for_two_hundred_seeds(name, kept):
    for seed in MANY:
        expect_synchrony(scenario(name, *KEPT[kept], seed=seed))


@pytest.mark.parametrize("name", ["crash", "churn", "partition"])
def test_views_are_agreed_on_over_the_wire_as_well(name):
    """Every message is encoded, and decoded by each receiver."""
    expect_synchrony(dataclasses.replace(scenario(name), wire=True))


def test_a_member_acknowledges_nothing_of_a_view_that_it_is_not_in_yet():
    """Or the sender would let go of a packet that this member has not taken in.

    Reference: 003 §8: nobody else need keep it
    """
    settings = preset("virtual-synchrony", {"repair": ["acknowledged", "exclusion"], "buffering": "hashed"})
    member = Stack(1, (0, 1, 2), settings, Random(1))
    member.step(0.0, Started({}))
    before = member.step(0.1, Received(2, [Packet(2, 0, b"in this view")], FIRST_PASS))
    member.step(0.2, Heard(0, Flush(1, 1, {})))
    after = member.step(0.3, Received(2, [Packet(2, 2, b"in the next one")], FIRST_PASS))
    again = member.step(0.4, Received(2, [Packet(2, 0, b"in this view")], FIRST_PASS))
    assert [acknowledged(effects) for effects in (before, after, again)] == [[0], [], [0]]


def test_a_member_that_was_told_to_join_anew_does_not_enter_a_view_of_its_earlier_life():
    """Word of that view may come late, before another automaton has taken its place."""
    member = Stack(1, (0, 1, 2), preset("virtual-synchrony"), Random(1))
    member.step(0.0, Started({}))
    entries = [MemberEntry(number, MEMBER, 0) for number in (0, 1, 2)]
    second = NewView(2, 1, entries, {}, dict.fromkeys((0, 1, 2), 1), {}, decided=True)
    assert JoinAnew in map(type, member.step(0.1, Heard(0, Excluded(3))))
    assert member.step(0.1, Heard(0, second)) == []


def acknowledged(effects: list[Any]) -> list[int]:
    """The numbers of member 2's packets that are acknowledged."""
    acks = [e.message for e in effects if isinstance(e, Unicast) and isinstance(e.message, Ack)]
    return [seqno for ack in acks for seqno in ack.have[2]]


def views(made: Scenario) -> list[tuple[float, int, int, str]]:
    """Time, member, number and members of every view that was installed."""
    rows = Rows()
    simulate(made, sink=rows)
    return [(row[0] / 1e9, row[1], row[4], row[7]) for row in rows.all if row[2] == "install"]


def noted(made: Scenario, kind: str, phase: str) -> dict[int, float]:
    """By member: when this was first noted."""
    rows = Rows()
    simulate(made, sink=rows)
    found: dict[int, float] = {}
    for row in rows.all:
        if row[2] == kind and row[7] == phase:
            found.setdefault(row[1], row[0] / 1e9)
    return found


def test_a_member_that_crashed_is_excluded_after_the_time_out():
    """Reference: 004 §3: a period ends when membership changes by the departure (failure) of old members"""
    installed = views(scenario("crash"))
    without = min(at for at, _, _, members in installed if "2" not in members.split())
    assert 1.5 + 1.0 <= without <= 1.5 + 1.0 + 1.0


def test_the_majority_goes_on_and_the_others_stand_still_until_the_network_heals():
    """Reference: 004 §5: state goes from the primary component of a partitioned group to a minority"""
    made = scenario("partition")
    during = [(member, members) for at, member, _, members in views(made) if 1.5 < at < 4.5]
    assert sorted(set(during)) == [(member, "3 4 5 6") for member in (3, 4, 5, 6)]
    assert views(made)[-1][3] == "0 1 2 3 4 5 6"
    assert set(noted(made, "block", "no majority")) == {0}  # the oldest of those that are cut off says it


def test_nobody_goes_on_if_there_is_no_majority():
    """Three parts, none of which is more than half: after the heal, the first view that is installed has everybody."""
    later = [members for at, _, _, members in views(scenario("thirds")) if at > 0.0]
    assert set(later) == {"0 1 2 3 4 5 6"}


def test_half_of_a_group_goes_on_if_the_oldest_member_is_in_it():
    made = parse(
        {
            "topology": {"kind": "lan", "members": 4},
            "traffic": {"senders": 2, "rate": 40.0},
            "protocol": {"name": "virtual-synchrony", "exclude_after": 1.0},
            "fault": [{"at": 1.0, "kind": "partition", "members": [[0, 3], [1, 2]], "for": 4.0}],
        }
    )
    assert {members for at, _, _, members in views(made) if 1.0 < at < 5.0} == {"0 3"}
    expect_synchrony(made)


def rate_at(made: Scenario, member: int, until: float) -> float:
    rows = Rows()
    simulate(made, sink=rows)
    return Counter(row[1] for row in rows.all if row[2] == "deliver" and row[0] < until * 1e9)[member] / until


def beside_a_perturbed_member(protocol: str, asleep: float, **settings: Any) -> Scenario:
    return parse(
        {
            "duration": 10.0,
            "topology": {"kind": "lan", "members": 8, "latency": 0.001},
            "traffic": {"senders": 1, "rate": 100.0, "arrivals": "steady", "size": 7168},
            "protocol": {"name": protocol, **settings},
            "fault": [{"at": 0.0, "kind": "perturb", "members": [7], "probability": asleep}],
        }
    )


def test_one_slow_member_slows_down_everybody_alike():
    """Reference: 004 §7, Fig. 8: data rates to the healthy and the perturbed process are identical"""
    limits = {"unstable_packets": 16, "queue_packets": 16}
    made = beside_a_perturbed_member("virtual-synchrony", 0.8, **limits)
    healthy, perturbed = rate_at(made, 3, 10.0), rate_at(made, 7, 10.0)
    assert healthy < 0.75 * 100.0
    assert perturbed == pytest.approx(healthy, rel=0.1)
    assert rate_at(beside_a_perturbed_member("pbcast", 0.8), 3, 10.0) > 0.98 * 100.0


def test_a_sender_keeps_no_more_than_its_window_of_what_is_not_stable():
    """Reference: 004 §2: copies of unacknowledged messages exhaust available buffering space"""
    made = beside_a_perturbed_member("virtual-synchrony", 0.8, unstable_packets=16)
    sender, *receivers = simulate(made)["buffers"]["peak_packets"].values()
    assert sender == 16
    assert max(receivers) <= 2 * 16  # who learn a little later what is stable


def exclusions(exclude_after: float, seed: int) -> int:
    """How often members were excluded that were only slow."""
    made = scenario("eager", f"protocol.exclude_after={exclude_after}", seed=seed)
    rows = Rows()
    simulate(made, sink=rows)
    return sum(row[2] == "crash" for row in rows.all)


def test_the_more_eager_the_time_out_the_more_members_are_excluded_that_only_sleep():
    """Reference: 004 §2: the risk of an erroneous failure classification will rise"""
    eager, lazy = (sum(exclusions(time_out, seed) for seed in FEW) for time_out in (0.3, 5.0))
    assert eager > 10
    assert lazy == 0


def test_a_lazy_time_out_stops_everybody_for_longer_after_a_crash():
    """The other side of the trade-off of 004 §2."""
    stops = []
    for time_out in (0.5, 2.0):
        made = scenario("crash", f"protocol.exclude_after={time_out}", "protocol.unstable_packets=4")
        made = dataclasses.replace(made, fault=made.fault[:1])
        delivered = [row for row in _deliveries(made) if row[1] == 4]
        stops.append(max(later[0] - row[0] for row, later in pairwise(delivered)) / 1e9)
    assert stops[0] < 1.0 < 1.6 < stops[1]


def _deliveries(made: Scenario) -> list[Any]:
    rows = Rows()
    simulate(made, sink=rows)
    return [row for row in rows.all if row[2] == "deliver"]


class KeepsTooLittle(UntilStable):
    """Some packets are kept nowhere."""

    __slots__ = ()

    def kept_of(self, sender: int, numbers: RangeSet) -> RangeSet:
        return RangeSet((n, n) for n in super().kept_of(sender, numbers) if n % 40 != 13)


@pytest.mark.parametrize("seed", FEW)
def test_a_member_that_lacks_what_nobody_keeps_leaves_and_joins_anew(seed, monkeypatch):
    """A partition is simulated in the membership if a message cannot be recovered. Reference: 003 §8"""
    monkeypatch.setitem(BUFFERS, "unstable", KeepsTooLittle)
    made = scenario("lossy", seed=seed)
    expect_synchrony(made)
    assert noted(made, "crash", "lost")


def effects_of(made: Scenario, kind: type) -> list[tuple[int, Any]]:
    """Members, and what each did of that kind; the specifications hold."""
    found: list[tuple[int, Any]] = []

    class Watched(Stack):
        def step(self, now: float, happened: Any) -> Any:
            effects = super().step(now, happened)
            found.extend((self.me, effect) for effect in effects if isinstance(effect, kind))
            return effects

    result = traced(made, make_stack=lambda me, members, rng: Watched(me, members, made.protocol, rng, observed=True))
    assert (result["violations"], result["outstanding"]) == ([], 0)
    return found


def told_to_join_anew(made: Scenario) -> list[tuple[int, str]]:
    """The members that had to, and what each was told."""
    return [(member, effect.reason) for member, effect in effects_of(made, JoinAnew)]


def left(made: Scenario) -> list[tuple[int, str]]:
    """The members that left, and why what each published last may not be everywhere."""
    return [(member, effect.unfinished) for member, effect in effects_of(made, BecomeStranger)]


@pytest.mark.parametrize("seed", range(1, 9))
def test_a_member_leaves_in_order_though_it_misses_how_its_last_view_ended(seed):
    """It asks again, and is told the cut of that view. Reference: 004 §3"""
    assert sorted(left(scenario("churn", "loss.member=0.2", seed=seed))) == [(0, ""), (1, ""), (3, "")]


def test_a_member_that_is_excluded_while_it_leaves_has_not_left_in_order():
    """What it published last belongs to no view. Reference: 003 §8, 004 §2"""
    made = scenario("partition")
    cut = dataclasses.replace(made.fault[0], for_=9.0)
    leaves = Fault(at=2.4, kind="leave", members=(1,))  # it waits until all have what it published, but not for ever
    [(member, why)] = left(dataclasses.replace(made, fault=(cut, leaves)))
    assert member == 1
    assert "excluded from view 2: not heard" in why


@pytest.mark.parametrize("seed", [17, 98, 133, 145])
def test_where_few_keep_packets_members_leave_and_are_left_out_at_the_same_time(seed):
    """A leaver is left out; nobody but leavers would go on; more comes than was said. Reference: 003 §8"""
    expect_synchrony(scenario("any", *KEPT["by some"], seed=seed))


@pytest.mark.parametrize("seed", range(1, 13))
def test_the_member_that_stays_learns_of_the_view_that_leavers_have_decided(seed):
    """Two of three leave: together they are most, and the third cannot go on without knowing what they agreed to."""
    table = {
        "seed": seed,
        "topology": {"kind": "lan", "members": 3},
        "loss": {"member": 0.3},
        "traffic": {"senders": 3, "rate": 60.0},
        "protocol": {"name": "virtual-synchrony", "exclude_after": 2.0},
        "fault": [{"at": 1.0, "kind": "leave", "members": [0, 1]}],
        "linger": 60.0,
    }
    assert views(parse(table))[-1][3] == "2"


def test_with_few_bufferers_what_nobody_keeps_is_a_partition_in_the_membership():
    """A member that stood still lacks packets without a bufferer; others lack nothing. Reference: 003 §8"""
    told = [told_to_join_anew(scenario("bufferers", "loss.member=0.0", seed=seed)) for seed in range(1, 5)]
    assert any(told)
    for member, why in chain(*told):
        assert member in (0, 3)
        assert "nobody has packet" in why


def test_with_enough_bufferers_nobody_has_to_leave():
    """The more bufferers, the rarer the partitions. Reference: 003 §3, §8"""
    made = [scenario("bufferers", "protocol.bufferers=6", seed=seed) for seed in range(1, 5)]
    assert [told_to_join_anew(one) for one in made] == [[]] * 4


def test_what_is_not_stable_is_kept_by_few_where_few_are_chosen():
    """A member stands still, so that nothing becomes stable for a while. Reference: 003 §8"""
    peaks = {}
    for word in ("unstable", "hashed"):
        large = "topology.members=24", "protocol.unstable_packets=256", "protocol.bufferers=6", "loss.member=0.0"
        result = simulate(scenario("bufferers", f"protocol.buffering={word}", *large))
        peaks[word] = sum(result["buffers"]["peak_packets"].values()) / 24
    assert peaks["hashed"] < 0.5 * peaks["unstable"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"ordering": "none"}, "membership = synchronous: needs an order in which a gap holds back .*ordering to fifo"),
        ({"buffering": "age"}, "needs a buffer that keeps .*set protocol.buffering to hashed or unstable"),
        ({"stability": "none", "heartbeat": "hashed"}, "told what all of them have; set protocol.stability to polled"),
        ({"repair": ["negative"]}, "needs a chain of repairs that reports nothing as lost; .*a chain with exclusion"),
        ({"repair": ["exclusion"]}, "exclusion needs a repair before it"),
        ({"repair": ["negative", "logger"]}, "needs"),
        ({"membership": "static"}, "repair = exclusion: needs views that all members agree on; .*to synchronous"),
        ({"suspect_after": 1.0}, "suspect_after = 1.0: needs members that join and leave by themselves"),
        ({"window": 16}, "unstable_packets = 64: cannot be combined with protocol.window = 16"),
        ({"rate_limit": 10.0}, "unstable_packets = 64: cannot be combined with protocol.rate_limit = 10.0"),
        ({"unstable_packets": -1}, "unstable_packets = -1: must be at least 0"),
        ({"exclude_after": 0.0}, "exclude_after = 0.0: must be above 0"),
    ],
)
def test_what_virtual_synchrony_cannot_be_combined_with_is_refused_in_one_line(changes, says):
    with pytest.raises(SettingError, match=says) as refused:
        preset("virtual-synchrony", changes)
    assert "\n" not in str(refused.value)
