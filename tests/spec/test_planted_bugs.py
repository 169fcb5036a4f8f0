"""The checkers, proven: each planted bug is caught by the checker that should catch it, and by its words.

A mutant is the real stack with one thing done wrong, run in the simulator under a scenario that gives the bug a
chance. The same scenarios without a mutant are clean.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from gossamer.core.effects import Announce, Deliver, Persist, ReportLost, UndoDeliveries, Unicast
from gossamer.core.ids import ALL_CHANNELS, channel_of
from gossamer.core.inputs import Heard, Published, Received
from gossamer.core.messages import Ack, Gossip, Leave, ViewUpdate
from gossamer.core.packets import Packet
from gossamer.core.places import GraphClosed, Places, PlacesWanted, Sites
from gossamer.core.priorities import Decided
from gossamer.core.ranges import RangeSet
from gossamer.core.views import NewView
from gossamer.logging.logger import Logger
from gossamer.logging.send_buffer import SendBuffer
from gossamer.membership.view_change import ViewChange
from gossamer.ordering.fifo import Fifo, Waiting
from gossamer.ordering.none import Unordered
from gossamer.ordering.place_log import PlaceLog
from gossamer.repair.coordinator import Coordinator
from gossamer.repair.last_numbers import LastNumbers
from gossamer.repair.priority_lists import OwnList
from gossamer.sim.channels import wanted_by
from gossamer.sim.checked import traced
from gossamer.sim.network import Network
from gossamer.sim.scenario import Scenario, parse
from gossamer.spec.promises import HEAL_S
from gossamer.stack import Stack


def scenario(
    protocol: str, faults: list[dict[str, Any]] | None = None, *, grace: float = 0.5, **settings: Any
) -> Scenario:
    return parse(
        {
            "name": "planted",
            "duration": 3.0,
            "linger": 60.0,
            "grace": grace,
            "topology": {"kind": "lan", "members": 6, "latency": 0.002},
            "loss": {"member": 0.05, "reorder": 0.2},
            "traffic": {"senders": 3, "rate": 90.0},
            "protocol": {"name": protocol, **settings},
            "fault": faults or [],
        }
    )


def divided(sides: list[list[int]], *faults: dict[str, Any]) -> Scenario:
    """A group with coordinators that is in parts for longer than it takes to find one for each."""
    table = scenario("redelivery").as_dict() | {"protocol": {"name": "redelivery"}, "duration": 12.0}
    table["fault"] = [*faults, {"at": 1.0, "kind": "partition", "members": sides, "for": 10.0}]
    table["loss"] = {"member": 0.0}
    return parse(table)


AWAY = [{"at": 0.5, "kind": "disconnect", "members": [2], "for": 2.0}]
GONE = [{"at": 1.0, "kind": "leave", "members": [2]}]
CUT = [{"at": 0.5, "kind": "partition", "members": [[0, 1, 2], [3, 4, 5]], "for": 2.0}]
CRASH = [{"at": 1.0, "kind": "crash", "members": [1], "memory": "lost", "for": 0.5}]

RELIABLE = scenario("rpbcast")
ORDERED = scenario("rpbcast", ordering="fifo")
BASIC = scenario("basic")
COPIES = scenario("rpbcast", loggers=2, log_copies=2)
LOSSY = scenario("rpbcast", loggers=0, gc_rounds=1, peer_rounds=2)
HASHED = scenario("rpbcast", buffering="hashed", bufferers=2)
HEALED = scenario("rpbcast", CUT, suspect_after=0.5, grace=HEAL_S + 5)
SYNCHRONOUS = scenario("virtual-synchrony", CRASH, exclude_after=0.5)
DEAF_TO_A_FLUSH = scenario(
    "virtual-synchrony", [*CRASH, {"at": 1.45, "kind": "lose", "members": [4], "packets": 8}], exclude_after=0.5
)
BUFFERERS = scenario(
    "virtual-synchrony",
    [{"at": 1.0, "kind": "crash", "members": [4], "memory": "kept", "for": 0.4}],
    exclude_after=1.0,
    buffering="hashed",
    bufferers=1,
    short_rounds=1,
)
SHRUNK = scenario("rpbcast", GONE, grace=HEAL_S + 5)
CHANNELS = parse(
    scenario("rpbcast", dissemination="copies").as_dict()
    | {
        "protocol": {"name": "rpbcast"},
        "addresses": 1,
        "channel": [{"name": "one", "members": [0, 1, 4]}, {"name": "two", "members": [1, 3], "senders": [0, 2]}],
    }
)
ALONE = divided([[0], [1, 2, 3, 4, 5]])
PAIRS = divided([[0, 1], [2, 3], [4, 5]])
HALVES = divided([[0, 1], [2, 3, 4, 5]])
DEAF = divided([[0, 1, 2], [3, 4, 5]], {"at": 0.85, "kind": "lose", "members": [4], "packets": 50})


ONE_ORDER = scenario("rpbcast", loggers=0, membership="static", ordering="total", order_patience=0.3)
PRIMARY_CUT_OFF = scenario(
    "rpbcast",
    [{"at": 0.5, "kind": "partition", "members": [[0, 3], [1, 2, 4, 5]], "for": 1.5}],
    loggers=0,
    membership="static",
    ordering="total",
    order_patience=0.3,
)
AHEAD_AND_CUT_OFF = scenario(
    "rpbcast",
    [{"at": 0.5, "kind": "partition", "members": [[0, 3], [1, 2, 4, 5]], "for": 1.5}],
    loggers=0,
    membership="static",
    ordering="total",
    order_failures="non-atomic",
    order_patience=0.3,
)
PRIMARY_GONE = scenario(
    "rpbcast",
    [
        {"at": 0.3, "kind": "lose", "members": [1], "packets": 60},
        {"at": 0.5, "kind": "crash", "members": [0], "memory": "kept", "for": 1.5},
    ],
    loggers=0,
    membership="static",
    ordering="total",
    order_patience=0.3,
)
TWO_PHASES = scenario("rpbcast", loggers=0, membership="static", ordering="two-phase")
TWO_CUT_OFF = scenario(
    "rpbcast",
    [{"at": 0.5, "kind": "partition", "members": [[0, 3, 4, 5], [1, 2]], "for": 1.5}],
    loggers=0,
    membership="static",
    ordering="total",
    order_patience=0.3,
)


class DeliversTwice(Stack):
    def step(self, now, happened):
        effects = list(super().step(now, happened))
        return effects + [e for e in effects if isinstance(e, Deliver) and e.run[0].seqno == 7]


class ForgetsASender(Stack):
    def step(self, now, happened):
        if isinstance(happened, Received) and happened.sender == 1 and self.me == 2:
            return []
        return super().step(now, happened)


class InventsAPacket(Stack):
    def step(self, now, happened):
        effects = list(super().step(now, happened))
        if isinstance(happened, Published) and self.streams[self.me].next == 5:
            effects.append(Deliver([Packet(self.me, 1_000_000, b"")], "first_pass"))
        return effects


class DeliversBeforeItIsPublished(Stack):
    def step(self, now, happened):
        effects = list(super().step(now, happened))
        if isinstance(happened, Published):
            effects.sort(key=lambda e: isinstance(e, Announce))
        return effects


class IgnoresOrder(Stack):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.order = self.gaps._order = Unordered(self)
        self._holds_back = False
        self._hooks.published[-1] = self.order.published


class SkipsAGap(Fifo):
    """Whenever one gap is filled, everything that waits is let go, other gaps or not."""

    def _release(self, sender, stream, out):
        for _, _, held in sorted(self._held.pop(sender), key=lambda held: held[0]):
            if isinstance(held, Waiting):
                self._leave(sender, held)
                out.append(Deliver(held.run, held.phase))
            elif held is not None:
                out.append(held)


class SkipsGaps(Stack):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.order = self.gaps._order = SkipsAGap(self)
        self._hooks.published[-1] = self.order.published


class ReportsLostAndDelivers(Stack):
    def step(self, now, happened):
        effects = list(super().step(now, happened))
        runs = [e.run for e in effects if isinstance(e, Deliver) and e.run[0].seqno == 3 and self.me == 4]
        return effects + [ReportLost(run[0].sender, 3, 3, "gave up too soon") for run in runs]


class LoggerForgetsEarly(Stack):
    """Collects without waiting for acknowledgements, and peers keep next to nothing."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        for keeper in self.keepers:
            if isinstance(keeper, Logger):
                keeper._stable = lambda sender: self.streams.of(sender).prefix()


class AcknowledgesForAll(Stack):
    """One member's acknowledgement releases the packet for everyone."""

    def step(self, now, happened):
        if isinstance(happened, Heard) and isinstance(happened.message, Ack):
            effects = []
            for member in self.roster.members:
                effects += super().step(now, Heard(member, happened.message))
            return effects
        return super().step(now, happened)


class AcknowledgesUnseen(Stack):
    """Acknowledges not only what came but everything before it."""

    def step(self, now, happened):
        effects = super().step(now, happened)
        for effect in effects:
            if isinstance(effect, Unicast) and isinstance(effect.message, Ack):
                for numbers in effect.message.have.values():
                    numbers.update(RangeSet([(0, numbers.last)]))
        return effects


class SpeaksAfterLeaving(Stack):
    def step(self, now, happened):
        effects = list(super().step(now, happened))
        if any(type(e).__name__ == "BecomeStranger" for e in effects):
            effects.append(Deliver([Packet(0, 2, b"")], "peer"))
        return effects


class ReusesNumbers(Stack):
    """After a crash it starts at 0 again, whatever was reserved, and whatever others have seen."""

    def _begin_numbers(self, first):
        super()._begin_numbers(0)


class NeverEvicts(Stack):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.buffer._room = 10**9


class CollectsWhatOthersKeep(Stack):
    """Says of every old packet that it leaves the long-term buffer, also of those that never entered it."""

    def collected(self, now, numbers, aged, out, kept=None):
        super().collected(now, numbers, aged, out, None if kept is None else numbers.items())


class PublishesInSilence(Stack):
    """Every tenth packet is announced to the application, and neither sent nor kept."""

    def step(self, now, happened):
        own = self.streams[self.me]
        if isinstance(happened, Published) and own.next % 10 == 9:
            own.next += 1
            return [Announce([Packet(self.me, own.next - 1, happened.bodies[0])])]
        return super().step(now, happened)


class GivesUpInSilence(Stack):
    def step(self, now, happened):
        return [e for e in super().step(now, happened) if not isinstance(e, ReportLost)]


class AcknowledgesUnlogged(Stack):
    """The logger forgets to write some of the packets that it acknowledges."""

    def step(self, now, happened):
        effects = super().step(now, happened)
        return [e for e in effects if not (isinstance(e, Persist) and e.run[0].seqno % 10 == 7)]


class BelievesInPrefixes(Stack):
    """Takes the acknowledgement of a packet for that of all before it."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        for keeper in self.keepers:
            if isinstance(keeper, SendBuffer):
                keeper._has = lambda logger, sender, first, last, has=keeper._has: has(logger, sender, 0, last)


class IsContentWithOneCopy(Stack):
    def __init__(self, me, members, settings, *args, **kwargs):
        super().__init__(me, members, replace(settings, log_copies=1), *args, **kwargs)


class LetsItselfBeDeclaredDead(Stack):
    """Does not refute that it is disconnected."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.membership._refute = lambda now, out: None


class ClingsToItsView(Stack):
    """One member never learns who has left."""

    def step(self, now, happened):
        if isinstance(happened, Heard) and self.me == 4 and isinstance(happened.message, Gossip | Leave | ViewUpdate):
            return []
        return super().step(now, happened)


class Led(Stack):
    """Something is wrong with the coordinators."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        (self.led,) = (repair for repair in self.gaps.repairs if isinstance(repair, Coordinator))
        self.spoil()

    def spoil(self):
        raise NotImplementedError


class Reversed(OwnList):
    def leads(self, one, other):
        return one > other


class HasCyclicLists(Led):
    """Odd members turn the order around, so that members 1 and 2 are on each other's lists, as are others."""

    def spoil(self):
        self.led.tree._own = Reversed(self.me) if self.me % 2 else OwnList(self.me)


class HasIncompleteLists(Led):
    """001 §4.2: members 4 and 5 do not know that either may lead the other."""

    def spoil(self):
        self.led.tree._own = OwnList(self.me, {m: list(range(min(m, 4))) for m in range(6)})


class AnswersWithAStaleCoordinator(Led):
    """Member 1 never notices that its coordinator is gone, and sends everybody there."""

    def spoil(self):
        if self.me == 1:
            self.led.tree.look = lambda now, out: None


class FillsByUnicast(Led):
    def spoil(self):
        send = self.led.descent._send_one
        self.led.descent._send_one = lambda members, *rest: [send((member,), *rest) for member in members]


class Mute(LastNumbers):
    def named(self):
        return {}


class FillsOnlyWhatItIsAskedFor(Led):
    """It neither says how far senders have come nor looks at how far others have them."""

    def spoil(self):
        self.led._numbers = Mute(self)
        self.led.descent._beyond = lambda message, latest: {}


class DeliversInTheNextView(Stack):
    """Member 4 is always one delivery late, and so delivers the last packet of a view in the next."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.late: list[Deliver] = []

    def step(self, now, happened):
        effects = list(super().step(now, happened))
        if self.me == 4:
            made = [e for e in effects if isinstance(e, Deliver)]
            kept, self.late = self.late, made or self.late
            effects = [e for e in effects if not isinstance(e, Deliver)] + (kept if made else [])
        return effects


class FlushesTooLittle(Stack):
    """Member 4 goes on to the next view without the packets of the last one that it lacks."""

    def step(self, now, happened):
        if self.me == 4 and self.membership._part is not None:
            self.membership._part.lacks = dict
        return super().step(now, happened)


class StaysThoughItLacksAPacket(FlushesTooLittle):
    """003 §8: nobody is left out because of a packet that nobody keeps, and member 4 goes on without it."""

    def step(self, now, happened):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ViewChange, "_together", lambda change, leaving: list(change.answers))
            return super().step(now, happened)


class InstallsAViewOfItsOwn(Stack):
    """Member 4 leaves out the member that it was told of last."""

    def step(self, now, happened):
        if isinstance(happened, Heard) and isinstance(happened.message, NewView) and self.me == 4:
            *entries, left_out = happened.message.entries
            starts = {m: first for m, first in happened.message.starts.items() if m != left_out.member}
            happened = Heard(happened.source, replace(happened.message, entries=entries, starts=starts))
        return super().step(now, happened)


class HearsWhatItDoesNotWant(Stack):
    """Member 3 takes in every channel."""

    def _put_together(self):
        super()._put_together()
        if self.me == 3:
            self.streams.channels = ALL_CHANNELS


class ForgetsAChannel(Stack):
    """Member 4 listens to a channel and takes in nothing of it."""

    def step(self, now, happened):
        if self.me == 4 and isinstance(happened, Received) and channel_of(happened.sender) == 1:
            return []
        return super().step(now, happened)


class DeliversBeforeItIsPlaced(IgnoresOrder):
    """One member hands over what comes before it is merged with what others sent."""

    def __init__(self, me, *args, **kwargs):
        Stack.__init__(self, me, *args, **kwargs)
        if me == 4:
            self.order = self.gaps._order = Unordered(self)
            self._hooks.published[-1] = self.order.published


class Pliable(PlaceLog):
    """Whatever a later graph says goes, also of what is settled."""

    __slots__ = ()

    def take(self, first, segments, settled):
        return super().take(first, segments, 0)


class Rewrites(Stack):
    """Something is wrong with how the order is kept."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        begin = self.order.sequence.begin_at

        def begin_pliably(place, log):
            log.__class__ = Pliable
            begin(place, log)

        self.order.sequence.begin_at = begin_pliably


class SettlesAlone(Rewrites):
    """A primary does not wait until most sites keep its places."""

    def step(self, now, happened):
        sequence = self.order.sequence
        sequence.kept = dict.fromkeys(self.roster.members, sequence.log.end if sequence.log is not None else 0)
        return super().step(now, happened)


class OpensWithoutMost(Rewrites):
    """Whoever closes a graph opens the next one, whether or not others have answered."""

    def step(self, now, happened):
        if self.order.sequence.log is not None:
            sites = self.order.sequence.log._sites
            sites[:] = [(place, EveryoneIsMost(known.primary, known.lives)) for place, known in sites]
        return super().step(now, happened)


class EveryoneIsMost(Sites):
    def are_most(self, some):
        return True


class PrimaryThatRenumbers(Rewrites):
    """A new primary does not take over what others keep, and gives those places again."""

    def step(self, now, happened):
        if isinstance(happened, Heard) and isinstance(happened.message, GraphClosed):
            happened = Heard(happened.source, replace(happened.message, last=0, below=0, settled=0))
        return super().step(now, happened)


class KeepsForAClosedGraph(Rewrites):
    """A Close that is not ordered: a site that has closed a graph still keeps what its primary gives."""

    def step(self, now, happened):
        if isinstance(happened, Heard) and isinstance(happened.message, Places) and self.order.sequence.graph:
            self.order.sequence.promised = happened.message.graph, happened.source
        return super().step(now, happened)


class SourcesSwitchEarly(Stack):
    """A new primary gives places to what sources sent last, and then to what they had sent to the old one."""

    def step(self, now, happened):
        sequence = self.order.sequence
        if sequence.graph > 1 and "place" not in vars(sequence):
            sequence.place = partial(self._place_last_first, sequence, sequence.place)
        return super().step(now, happened)

    def _place_last_first(self, sequence, place, now, senders, out):
        placed = sequence.log.placed
        before = {sender: placed.get(sender, -1) for sender in senders}
        for sender in senders:
            placed[sender] = max(before[sender], self.streams.prefix_of(sender) - 1)
        place(now, senders, out)
        placed.update(before)
        place(now, senders, out)


class DeliversByItsOwnPriority(Stack):
    """In two-phase order: one member does not wait for what the sender decides."""

    def step(self, now, happened):
        effects = list(super().step(now, happened))
        if self.me == 4 and self.order._proposed:
            mine = dict(self.order._proposed)
            for (stream, number), priority in mine.items():
                self.order._told_decided(now, stream, Decided(stream, {number: priority}), effects)
        return effects


class UndoesInSilence(Stack):
    """A member does not tell its application that it delivered packets in the wrong places."""

    def step(self, now, happened):
        return [effect for effect in super().step(now, happened) if not isinstance(effect, UndoDeliveries)]


class ForgetsWhatIsUndone(Stack):
    """What was rolled back is not delivered again."""

    def step(self, now, happened):
        undone, left = vars(self).setdefault("undone", set()), []
        for effect in super().step(now, happened):
            if isinstance(effect, UndoDeliveries):
                undone.update(effect.packets)
            if isinstance(effect, Deliver) and any((p.sender, p.seqno) in undone for p in effect.run):
                continue
            left.append(effect)
        return left


class NeverAsksForPlaces(Stack):
    def step(self, now, happened):
        effects = super().step(now, happened)
        return [e for e in effects if not (isinstance(e, Unicast) and isinstance(e.message, PlacesWanted))]


Mutant = Callable[..., Stack]
BUGS: list[tuple[Mutant, Scenario, str, str]] = [
    (DeliversTwice, RELIABLE, "reliable-multicast", "again"),
    (ForgetsASender, RELIABLE, "reliable-multicast", "never delivered at member 2"),
    (InventsAPacket, RELIABLE, "reliable-multicast", "nobody had published"),
    (DeliversBeforeItIsPublished, RELIABLE, "reliable-multicast", "nobody had published"),
    (IgnoresOrder, ORDERED, "fifo", ""),
    (SkipsGaps, ORDERED, "fifo", ""),
    (ReportsLostAndDelivers, scenario("rpbcast", loggers=0), "reliable-multicast", "and reported it lost"),
    (LoggerForgetsEarly, scenario("rpbcast", AWAY, gc_rounds=1), "reliable-multicast", "never delivered"),
    (AcknowledgesForAll, BASIC, "reliable-multicast", "never delivered"),
    (AcknowledgesUnseen, BASIC, "reliable-multicast", "never delivered"),
    (SpeaksAfterLeaving, scenario("rpbcast", GONE), "reliable-multicast", "has left"),
    (ReusesNumbers, scenario("rpbcast", CRASH), "reliable-multicast-with-crashes", "again"),
    (NeverEvicts, scenario("rpbcast", buffering="size", buffer_packets=20), "bounded-buffers", ""),
    (CollectsWhatOthersKeep, HASHED, "bounded-buffers", "from its long-term, where it was not"),
    (PublishesInSilence, RELIABLE, "reliable-multicast", "never delivered"),
    (GivesUpInSilence, LOSSY, "reliable-multicast", "neither delivered nor reported lost"),
    (AcknowledgesUnlogged, RELIABLE, "durability", "before it was logged"),
    (BelievesInPrefixes, RELIABLE, "durability", "before it was logged"),
    (IsContentWithOneCopy, COPIES, "durability", "before it was logged"),
    (DeliversInTheNextView, SYNCHRONOUS, "virtual-synchrony", "in another view than the one in which it was sent"),
    (FlushesTooLittle, DEAF_TO_A_FLUSH, "virtual-synchrony", "not the same, before both went on"),
    (StaysThoughItLacksAPacket, BUFFERERS, "virtual-synchrony", "not the same, before both went on"),
    (InstallsAViewOfItsOwn, SYNCHRONOUS, "virtual-synchrony", "installed view 2 as"),
    (LetsItselfBeDeclaredDead, HEALED, "one-view", "as disconnected, though it is there"),
    (HasCyclicLists, ALONE, "one-coordinator", ""),
    (HasIncompleteLists, PAIRS, "one-coordinator", "members 4, 5 of one side all coordinate"),
    (AnswersWithAStaleCoordinator, ALONE, "one-coordinator", "follows 0, which is not on its side"),
    (FillsByUnicast, HALVES, "one-crossing", "copies after the network healed"),
    (FillsOnlyWhatItIsAskedFor, DEAF, "same-messages", "which others of its side have"),
    (HearsWhatItDoesNotWant, CHANNELS, "reliable-multicast", "but does not listen to its channel"),
    (ForgetsAChannel, CHANNELS, "reliable-multicast", "never delivered at member 4"),
    (DeliversBeforeItIsPlaced, ONE_ORDER, "agreement", "member 4"),
    (SettlesAlone, replace(PRIMARY_CUT_OFF, seed=8), "agreement", "delivered packet"),
    (OpensWithoutMost, TWO_CUT_OFF, "reliable-multicast", "neither delivered nor reported lost"),
    (PrimaryThatRenumbers, PRIMARY_GONE, "agreement", "delivered packet"),
    (KeepsForAClosedGraph, PRIMARY_GONE, "agreement", "delivered packet"),
    (SourcesSwitchEarly, PRIMARY_GONE, "fifo", ""),
    (DeliversByItsOwnPriority, TWO_PHASES, "agreement", "member 4"),
    (UndoesInSilence, AHEAD_AND_CUT_OFF, "agreement", "delivered packet"),
    (ForgetsWhatIsUndone, AHEAD_AND_CUT_OFF, "reliable-multicast", "neither delivered nor reported lost"),
    (NeverAsksForPlaces, ONE_ORDER, "reliable-multicast", "neither delivered nor reported lost"),
    (ClingsToItsView, SHRUNK, "one-view", "member 4 holds member 2 as member, member 0 as left"),
]


def violations(made: Scenario, kind: Mutant | None) -> list[dict[str, Any]]:
    loggers = tuple(range(6 - made.protocol.loggers, 6))

    def make(me, members, rng):
        listening = wanted_by(made, 6)
        return (kind or Stack)(me, members, made.protocol, rng, loggers=loggers, observed=True, listening=listening)

    return traced(made, make_stack=make)["violations"]


@pytest.mark.parametrize(("mutant", "made", "spec", "says"), BUGS, ids=[bug[0].__name__ for bug in BUGS])
def test_each_planted_bug_is_caught_by_its_checker(mutant, made, spec, says):
    found = [v for v in violations(made, mutant) if v["spec"] == spec]
    assert found, f"{mutant.__name__} was not caught by {spec}"
    assert any(says in v["message"] for v in found)
    assert all(v["rows"] for v in found)


@pytest.mark.parametrize("made", [made for _, made, _, _ in BUGS], ids=[bug[0].__name__ for bug in BUGS])
def test_without_the_bug_nothing_is_reported(made):
    assert violations(made, None) == []


def test_a_channel_that_invents_messages_is_caught(monkeypatch):
    """Reference: 000 §2.3, Property 2.1"""
    honest = Network.unicast

    def misdelivers(self, now, source, target, size, arrive):
        honest(self, now, source, (target + 1) % 6 if target + 1 != source else target, size, arrive)

    monkeypatch.setattr(Network, "unicast", misdelivers)
    assert any(v["spec"] == "channel" for v in violations(RELIABLE, None))
