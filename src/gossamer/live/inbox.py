"""From delivered packets to subscriptions: unpacked once, matched once per subject, counted by rung.

A member whose application is slow stops reading, and catches up by repair, while every subscription that lets it is
full. One that is behind while another is not must not stop the other: it loses what does not fit.

Each sender's packets come in order, so for each sender one number says how far the subscriptions are. When the past is
asked for, packets below that number come again, and only the subscriptions that asked for them see them.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Container
from functools import partial
from itertools import accumulate, repeat
from itertools import count as counting
from operator import attrgetter
from time import monotonic, time
from typing import Any
from weakref import ReferenceType, WeakValueDictionary, ref

from gossamer.core.effects import ReportBlocked, ReportLost, UndoDeliveries
from gossamer.core.ids import Phase, owner_of
from gossamer.core.packet_sets import Horizon, PacketSets
from gossamer.core.packets import Packet, Run
from gossamer.live.errors import NotAMember
from gossamer.live.home import Home
from gossamer.live.subscription import Blocked, Losses, Lost, Room, Subscription, Undo, size_of
from gossamer.live.switches import Switches
from gossamer.pubsub.last_values import LastValues
from gossamer.pubsub.predicates import Filter
from gossamer.pubsub.table import Subscriptions
from gossamer.trace.recorder import Recorder
from gossamer.wire.codec import WireError
from gossamer.wire.events import (
    Event,
    count_in_run,
    in_places,
    is_fragment,
    places_from,
    unpack,
    unpack_simple,
)
from gossamer.wire.fragments import EVENT_BYTES_MAX, Reassembler

_NEVER = 1 << 62
_LEFT_MAX = 1000
"""Of this many senders that left, it is known how far they were delivered: one that resumes is no new one."""
_TOLD_BYTES_MAX = 8192
"""Of patterns in a profile, which has to fit into a datagram."""
_BODY = attrgetter("body")


class Inbox:
    """The subscriptions of one member, and what waits in them."""

    def __init__(
        self,
        me: int,
        home: Home,
        event_bytes_max: int,
        recorder: Recorder,
        *,
        ordered: bool,
        pause: Callable[[], None],
        resume: Callable[[], None],
    ) -> None:
        self.received: Counter[str] = Counter()
        """Events by the rung through which they came; `own` for what this member published itself."""
        self.lost: Counter[str] = Counter()
        self.me = me
        self.home = home
        self.event_type: type[Event] = Event
        """The class of this group's events."""
        self._alone: type[Event] | None = None  # the class of a subscription's events, while it is alone
        self.retained: LastValues[Event] | None = None
        """The last events by subject, if this member keeps them."""
        self._steady = time() - monotonic()  # what makes a clock that is never set of the other
        self.has_ttl = False
        """Whether an event with a time to live has come."""
        self.expired = 0
        """Events that were too old when their turn came."""
        self.undos: Counter[str] = Counter()
        """How often subscriptions were told to undo something, and how often that is done."""
        self._undone_from: Horizon = {}  # by sender: what was undone last comes again from this number on
        self.is_paused = False
        """Whether the member does not read because the application does not."""
        self._recorder = recorder
        self._ordered = ordered
        self._pause = pause
        self._resume = resume
        self._closed = False
        self._may_pause = True
        self.marks: Horizon = {}
        """By sender: everything below was delivered."""
        self._left: dict[int, None] = {}  # senders that left, the latest last
        limits = {"limit_event_bytes": event_bytes_max, "limit_total_bytes": 4 * max(event_bytes_max, EVENT_BYTES_MAX)}
        self._reassembler = Reassembler(**limits)
        self._past = Reassembler(**limits)
        self._table: Subscriptions[int] = Subscriptions()
        # weak references: a subscription that the application has dropped (by leaving a loop) must not fill up for ever
        self._subscriptions: WeakValueDictionary[int, Subscription] = WeakValueDictionary()
        self._keys = counting()
        self.made = 0
        """How many subscriptions were made."""
        self._everything: dict[int, ReferenceType[Subscription]] = {}  # those that match all; replaced, never changed
        self._selective = False
        self.switches: Switches | None = None
        """What waits for another channel, once there is a channel map."""

    def patterns(self) -> list[str]:
        """What the application subscribes to now."""
        return [word for some in list(self._subscriptions.values()) for word in some.pattern.split()]

    @property
    def waiting(self) -> int:
        """How many items the application has not taken yet."""
        return sum(subscription.waiting for subscription in self._subscriptions.values())

    def subscribed(self) -> dict[str, Any]:
        """The patterns of all subscriptions, and how many there was no room to tell."""
        patterns = sorted({p for some in list(self._subscriptions.values()) for p in some.pattern.split(" ")})
        ends = list(accumulate(len(pattern.encode()) for pattern in patterns))
        told = bisect_right(ends, _TOLD_BYTES_MAX)
        return {"patterns": patterns[:told], "left_out": len(patterns) - told}

    def half_full(self) -> list[tuple[int, Subscription]]:
        """The subscriptions that the application does not read fast enough, by their keys."""
        return [(key, some) for key, some in list(self._subscriptions.items()) if some.is_half_full]

    def positions(self) -> Horizon:
        """By sender: the last number that was delivered."""
        return {sender: mark - 1 for sender, mark in self.marks.items() if mark > 0}

    def listens(self, subject: str) -> bool:
        """Whether a subscription is there for this subject."""
        return bool(self._table.match(subject))

    def subscribe(
        self, patterns: tuple[str, ...], where: str | None, losses: Losses, room: Room, echo: bool = True
    ) -> Subscription:
        """A new subscription, from now on."""
        if self._closed:
            raise NotAMember("this member has left the group: nothing more will come; join again")
        key = next(self._keys)
        self._alone = None
        self.made += 1
        subscription = Subscription(self, key, " ".join(patterns), losses, room, echo)
        self._table.add(*patterns, where=where, key=key)
        self._subscriptions[key] = subscription
        if ">" in patterns and where is None:
            self._everything = {**self._everything, key: ref(subscription)}
        self._selective = len(self._everything) < len(self._table)
        self.look()
        return subscription

    def made_if_one(self) -> int:
        """How many subscriptions were made so far, if one is left; -1 if there are more, or events are retained."""
        return self.made if len(self._subscriptions) == 1 and self.retained is None else -1

    def unpack_as(self, kind: type[Event] | None) -> None:
        """What comes is of this class, until there is another subscription: whoever calls this is the only one."""
        self._alone = kind

    def selected(self, subscription: Subscription, events: list[Event]) -> list[Event]:
        """Those of these events, of whatever sender, that a subscription is for."""
        found: list[Event] = []
        for event in events:
            keeps = [keep for key, keep in self._table.match(event.subject) if key == subscription.key]
            if any(keep is None or keep(event.attributes) for keep in keeps):
                found.append(tuple.__new__(self.event_type, event))
        return found

    def unsubscribe(self, key: int) -> None:
        """The subscription is closed, or the application has dropped it, or it could not be made."""
        self._alone = None
        self._subscriptions.pop(key, None)
        if key in self._table:
            self._table.remove(key)
        self._everything = {other: some for other, some in self._everything.items() if other != key}
        self._selective = len(self._everything) < len(self._table)
        self.look()

    def look(self) -> None:
        """Find out whether the member has to read: a subscription is full, or no longer."""
        every = list(self._subscriptions.values())
        full = [subscription.is_full for subscription in every if subscription.pauses]
        waits = any(subscription.waits_for_past for subscription in every)  # for an answer that has to be read
        pause = bool(full) and all(full) and not waits and self._may_pause
        if pause != self.is_paused:
            self.is_paused = pause
            (self._pause if pause else self._resume)()

    def close(self, error: BaseException | None = None) -> None:
        """Close all subscriptions: nothing more will come, because of an error if there is one."""
        self._closed = True
        for subscription in list(self._subscriptions.values()):
            subscription.close(error)

    def pause_no_more(self) -> None:
        """The member leaves, and has to read what others say of that."""
        self._may_pause = False
        self.look()

    def delivered(self, run: Run, phase: Phase, place: int = -1, under: int = -1) -> None:
        """Offer packets whose turn has come; in an order of all members, the first of them has this place.

        In a branch of the order it comes after the place `under` of the trunk.

        After a change of the channel map they may have to wait for another channel of their publisher.
        """
        if self.switches is None or place >= 0:  # an order of all needs no other
            self._deliver(run, phase, place, under)
        elif run := self.switches.pass_on(run, phase, self.delivered):
            self._deliver(run, phase)
            self.switches.went_on()

    def _deliver(self, run: Run, phase: Phase, place: int = -1, under: int = -1) -> None:
        sender = run[0].sender
        mark = self.marks.get(sender, 0)
        if run[0].seqno < mark and self._ordered:
            again = [packet for packet in run if packet.seqno < mark]
            self._offer_again(again)
            run, place = run[len(again) :], place + len(again) if place >= 0 else -1
            if not run:
                return
        self.marks[sender] = run[-1].seqno + 1
        for packet in run if self._recorder.tracing else ():
            self._recorder.delivered(time(), (self.me,), packet, phase)
        rung = "own" if owner_of(sender) == self.me else phase
        if not (self._everything or self._selective or self.retained is not None):  # it is enough to count
            self.received[rung] += count_in_run(run)
            return
        events: list[Event] = []
        subjects: set[str] = set()
        size_bytes = len(run[0].body) if len(run) == 1 else sum(map(len, map(_BODY, run)))
        where = places_from(run[0].seqno, place, under) if place >= 0 else None
        at, kind = 0, self._alone or self.event_type
        while (at := unpack_simple(run, at, events, subjects, kind, where)) < len(run):
            more = self._unpack(run[at], self._reassembler)
            subjects.update(event[0] for event in more)
            if is_fragment(run[at].body):  # the event counts when it is complete
                if not more:
                    self._look_for_beginning(run[at])
                size_bytes += size_of(more) - len(run[at].body)
            events += more if where is None else in_places(more, where, self.event_type)
            at += 1
        self.received[rung] += len(events)
        if self.retained is not None:
            self.retained.note(events)
        if events:
            self._offer(events, subjects, size_bytes)
        if self._reassembler.abandoned:
            self._report_abandoned()

    def handed_over(self) -> Horizon:
        """By sender: everything below was handed over to all that want it, also of the past that some want again."""
        again: Horizon = {}
        for subscription in list(self._subscriptions.values()):
            for sender, following in subscription.rewound.items():
                again[sender] = min(following, again.get(sender, following))
        return {**self.marks, **again} if again else self.marks

    def undo(self, effect: UndoDeliveries) -> None:
        """Tell all subscriptions what they have to undo; it comes again as if it had not been there."""
        firsts = dict(effect.packets)  # the last of each sender is its lowest
        for sender, first in firsts.items():
            self.marks[sender] = first
            self._reassembler.undo(sender, first)
        self._undone_from |= firsts
        self._recorder.undone(time(), self.me, effect.packets)
        place = (effect.place, 0, 0) if effect.under < 0 else (effect.under, 1 + effect.place, 0)
        for subscription in list(self._subscriptions.values()):
            self.undos["told"] += 1
            subscription.offer_undo(Undo(place, effect.packets, partial(self.undos.update, ("done",))))

    def _look_for_beginning(self, packet: Packet) -> None:
        """An event in several packets that was undone in part cannot be put together again: it is lost."""
        if packet.seqno == self._undone_from.pop(packet.sender, -1) and packet.sender not in self._reassembler:
            self._report(Lost(packet.sender, packet.seqno, packet.seqno, "partly undone"))

    def report(self, effect: ReportLost | ReportBlocked) -> None:
        """Report what does not come, in its place."""
        if isinstance(effect, ReportLost):
            self.given_up(effect)
            return
        for subscription in list(self._subscriptions.values()):
            subscription.offer_blocked(Blocked(effect.reason))

    def given_up(self, effect: ReportLost) -> None:
        """Report a gap that nobody could fill, when its turn has come."""
        if self.switches is not None and self.switches.holds(effect, self.given_up):
            return
        lost = Lost(effect.sender, effect.first, effect.last, effect.reason)
        mark = self.marks.get(effect.sender, 0)
        for subscription in list(self._subscriptions.values()):
            if not self._ordered or effect.first >= subscription.rewound.get(effect.sender, mark):
                subscription.offer_loss(lost)
                if effect.sender in subscription.rewound:
                    subscription.went_on(effect.sender, effect.last + 1, mark)
        if effect.first >= mark or not self._ordered:
            self.marks[effect.sender] = effect.last + 1
            self.lost[effect.reason] += effect.last - effect.first + 1
            self._recorder.lost(time(), self.me, effect)
            self._reassembler.lost(effect.sender, effect.first, effect.last)
            self._report_abandoned()
        if self.switches is not None:
            self.switches.went_on()

    def taken_back(self, sender: int, first: int) -> None:
        """What was reported as lost from `first` on comes after all, and is new."""
        self.marks[sender] = min(first, self.marks.get(sender, 0))

    def sender_left(self, sender: int) -> None:
        """Forget a sender that left, and of which everything was delivered; not at once, since it may resume."""
        self._reassembler.forget(sender)
        self._report_abandoned()
        if self.switches is not None:
            self.switches.went_on()
        self._left.pop(sender, None)
        self._left[sender] = None
        if len(self._left) > _LEFT_MAX:
            oldest = next(iter(self._left))
            del self._left[oldest]
            self.marks.pop(oldest, None)

    def begin(self, horizon: Horizon, missed: str = "") -> None:
        """Begin after `horizon`: everything up to it is the past; `missed` is why that is not all that was owed."""
        if missed:
            self._report(Lost(-1, -1, -1, missed))
        self.marks |= {sender: last + 1 for sender, last in horizon.items()}

    def past_known(
        self, subscription: Subscription, held: PacketSets, wanted: Horizon, present: Container[int]
    ) -> None:
        """Loggers hold the packets `held`: `subscription` gets them, starting from the numbers that it `wanted`.

        Everything from a sender that is no longer `present`, and from which nothing came here, is past.
        """
        behind: Horizon = {}
        for sender, numbers in held.items():
            if sender not in self.marks and sender not in present:
                self.marks[sender] = numbers.last + 1
            first = max(numbers.first, wanted.get(sender, 0))
            if first < self.marks.get(sender, 0):
                behind[sender] = first
        subscription.past_known(behind)
        for sender, first in wanted.items():
            if sender in held and first < held[sender].first:
                lost = Lost(sender, first, held[sender].first - 1, "collected")
                subscription.offer_loss(lost)

    def missed(self, why: str) -> None:
        """Events may have been missed, of which nobody can say what they were."""
        self._report(Lost(-1, -1, -1, why))

    def awaits_past(self) -> bool:
        """Whether a subscription still gets what was before it."""
        return any(some.rewound or some.waits_for_past for some in list(self._subscriptions.values()))

    def past_unknown(self, subscription: Subscription) -> None:
        """No logger told us of the past: report that, and go on with the present."""
        subscription.past_unknown(Lost(-1, -1, -1, "no logger answered: nothing from before"))

    def _unpack(self, packet: Packet, reassembler: Reassembler) -> list[Event]:
        """The events of a packet; a packet that cannot be read is reported to the application as lost."""
        try:
            if is_fragment(packet.body):
                event = reassembler.add(packet)
                return [] if event is None else self._alive(self._typed([event]))
            return self._alive(unpack(packet, self._alone or self.event_type))
        except WireError:
            self._report(Lost(packet.sender, packet.seqno, packet.seqno, "malformed"))
            return []

    def _alive(self, events: list[Event]) -> list[Event]:
        """The events that are not too old, where any can be."""
        if any("ttl" in event[2] for event in events):
            self.has_ttl = True
            events = self.alive(events)
        return events

    def _typed(self, events: list[Event]) -> list[Event]:
        """The same events as this group's."""
        return list(map(tuple.__new__, repeat(self._alone or self.event_type), events))

    def alive(self, events: list[Event]) -> list[Event]:
        """The events that are not too old; counts the others."""
        now = min(time(), monotonic() + self._steady)  # the clock may have been set: too old is what is so by both
        kept = [event for event in events if not _is_too_old(event, now)]
        self.expired += len(events) - len(kept)
        return kept

    def _report_abandoned(self) -> None:
        """Report fragmented events that will never be complete; a lost fragment was already reported as a packet."""
        for gone in self._reassembler.take_abandoned():
            if gone.reason not in ("fragment lost", "malformed"):
                self._report(Lost(*gone))

    def _report(self, lost: Lost) -> None:
        self.lost[lost.reason] += lost.last - lost.first + 1
        for subscription in self._subscriptions.values():
            subscription.offer_loss(lost)

    def _offer(self, events: list[Event], subjects: set[str], size_bytes: int) -> None:
        for found in self._everything.values():
            if (subscription := found()) is not None:
                subscription.offer(events, size_bytes)
        if self._selective:
            self._offer_selected(events, subjects, size_bytes)

    def _offer_selected(self, events: list[Event], subjects: set[str], size_bytes: int) -> None:
        """Offer events to the subscriptions that match, in order across subjects; each subject is looked up once."""
        wanted: dict[int, dict[str, Filter | None]] = {}
        for subject in subjects:
            for key, keep in self._table.match(subject):
                wanted.setdefault(key, {})[subject] = keep
        for key, keeps in wanted.items():
            subscription = self._subscriptions.get(key)
            if subscription is None or key in self._everything:
                continue
            kept = events if len(keeps) == len(subjects) else [event for event in events if event[0] in keeps]
            if any(keeps.values()):
                kept = [e for e in kept if (keep := keeps[e[0]]) is None or keep(e.attributes)]
            if kept:
                subscription.offer(kept, size_bytes if kept is events else size_of(kept))

    def _offer_again(self, run: Run) -> None:
        """Offer packets of the past to the subscriptions that asked for them."""
        asked = [(k, s) for k, s in self._subscriptions.items() if run[0].sender in s.rewound]
        if not asked:
            return
        for packet in run:
            events = self._unpack(packet, self._past)
            for key, subscription in asked:
                if packet.seqno < subscription.rewound.get(packet.sender, _NEVER):
                    continue
                subscription.rewound[packet.sender] = packet.seqno + 1
                mine = [
                    e
                    for e in events
                    for k, keep in self._table.match(e.subject)
                    if k == key and (not keep or keep(e.attributes))
                ]
                self.received["again"] += len(mine)
                if mine:
                    subscription.offer(mine, size_of(mine))
        for _, subscription in asked:
            sender = run[0].sender
            subscription.went_on(sender, subscription.rewound[sender], self.marks.get(sender, 0))


def _is_too_old(event: Event, now: float) -> bool:
    ttl = event.attributes.get("ttl")
    return isinstance(ttl, int | float) and now > event.time + ttl
