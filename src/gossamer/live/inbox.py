"""From delivered packets to subscriptions: unpacked once, matched once per subject, counted by rung.

Each sender's packets come in order, so for each sender one number says how far the subscriptions are. When the past is
asked for, packets below that number come again, and only the subscriptions that asked for them see them.
"""

from collections import Counter
from collections.abc import Callable, Container
from itertools import count as counting
from time import time
from weakref import WeakValueDictionary

from gossamer.core.effects import ReportLost
from gossamer.core.ids import Phase
from gossamer.core.packet_sets import Horizon, PacketSets
from gossamer.core.packets import Packet, Run
from gossamer.live.home import Home
from gossamer.live.subscription import Losses, Lost, Subscription
from gossamer.pubsub.predicates import Filter
from gossamer.pubsub.table import Subscriptions
from gossamer.trace.recorder import Recorder
from gossamer.wire.codec import WireError
from gossamer.wire.events import Event, count_events, is_fragment, unpack, unpack_simple
from gossamer.wire.fragments import EVENT_BYTES_MAX, Reassembler

_NEVER = 1 << 62


def _count(packet: Packet) -> int:
    try:
        return count_events(packet.body)
    except WireError:
        return 0


class Inbox:
    """The subscriptions of one member, and what waits in them."""

    def __init__(
        self,
        me: int,
        home: Home,
        limit: int,
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
        self.waiting = 0
        """Events that the application has not taken yet."""
        self._me = me
        self._home = home
        self._limit = limit
        self._recorder = recorder
        self._ordered = ordered
        self._pause = pause
        self._resume = resume
        self._paused = self._closed = False
        self._marks: Horizon = {}  # by sender: everything below was delivered
        limits = {"limit_event_bytes": event_bytes_max, "limit_total_bytes": 4 * max(event_bytes_max, EVENT_BYTES_MAX)}
        self._reassembler = Reassembler(**limits)
        self._past = Reassembler(**limits)
        self._table: Subscriptions[int] = Subscriptions()
        # weak references: a subscription that the application has dropped (by leaving a loop) must not fill up for ever
        self._subscriptions: WeakValueDictionary[int, Subscription] = WeakValueDictionary()
        self._keys = counting()
        self._everything: dict[int, None] = {}  # subscriptions that match everything
        self._selective = False

    def subscribe(self, pattern: str, where: str | None, losses: Losses) -> Subscription:
        """A new subscription, from now on."""
        if self._closed:
            raise RuntimeError("this member has left the group: nothing more will come; join again")
        key = next(self._keys)
        self._table.add(pattern, where, key=key)
        subscription = Subscription(self._home, losses, self._took, lambda: self._unsubscribe(key))
        self._subscriptions[key] = subscription
        if pattern == ">" and where is None:
            self._everything[key] = None
        self._selective = len(self._everything) < len(self._table)
        return subscription

    def close(self, error: BaseException | None = None) -> None:
        """Close all subscriptions: nothing more will come, because of an error if there is one."""
        self._closed = True
        for subscription in list(self._subscriptions.values()):
            subscription.close(error)

    def delivered(self, run: Run, phase: Phase) -> None:
        """Offer packets whose turn has come."""
        sender = run[0].sender
        mark = self._marks.get(sender, 0)
        if run[0].seqno < mark and self._ordered:
            again = [packet for packet in run if packet.seqno < mark]
            self._offer_again(again)
            run = run[len(again) :]
            if not run:
                return
        self._marks[sender] = run[-1].seqno + 1
        for packet in run if self._recorder.tracing else ():
            self._recorder.delivered(time(), (self._me,), packet, phase)
        rung = "own" if sender == self._me else phase
        if not self._subscriptions:  # nobody subscribes: it is enough to count
            self.received[rung] += sum(map(_count, run))
            return
        events: list[Event] = []
        at = 0
        while (at := unpack_simple(run, at, events)) < len(run):
            events += self._unpack(run[at], self._reassembler)
            at += 1
        self.received[rung] += len(events)
        self._offer(events)
        self._report_abandoned()

    def given_up(self, effect: ReportLost) -> None:
        """Report a gap that nobody could fill, when its turn has come."""
        lost = Lost(effect.sender, effect.first, effect.last, effect.reason)
        mark = self._marks.get(effect.sender, 0)
        for subscription in list(self._subscriptions.values()):
            if not self._ordered or effect.first >= subscription.rewound.get(effect.sender, mark):
                self.waiting += subscription.offer_loss(lost)
                if effect.sender in subscription.rewound:
                    subscription.rewound[effect.sender] = effect.last + 1
        if effect.first >= mark or not self._ordered:
            self._marks[effect.sender] = effect.last + 1
            self.lost[effect.reason] += effect.last - effect.first + 1
            self._recorder.lost(time(), self._me, effect)
            self._reassembler.lost(effect.sender, effect.first, effect.last)
            self._report_abandoned()

    def begin(self, horizon: Horizon) -> None:
        """Begin after `horizon`: everything up to it is the past."""
        self._marks |= {sender: last + 1 for sender, last in horizon.items()}

    def past_known(
        self, subscription: Subscription, held: PacketSets, wanted: Horizon, present: Container[int]
    ) -> None:
        """Loggers hold the packets `held`: `subscription` gets them, starting from the numbers that it `wanted`.

        Everything from a sender that is no longer `present`, and from which nothing came here, is past.
        """
        behind: Horizon = {}
        for sender, numbers in held.items():
            if sender not in self._marks and sender not in present:
                self._marks[sender] = numbers.last + 1
            first = max(numbers.first, wanted.get(sender, 0))
            if first < self._marks.get(sender, 0):
                behind[sender] = first
        self.waiting -= subscription.past_known(behind)
        for sender, first in wanted.items():
            if sender in held and first < held[sender].first:
                lost = Lost(sender, first, held[sender].first - 1, "collected")
                self.waiting += subscription.offer_loss(lost)

    def past_unknown(self, subscription: Subscription) -> None:
        """No logger told us of the past: report that, and go on with the present."""
        self.waiting += subscription.offer_loss(Lost(-1, -1, -1, "no logger answered: nothing from before"))
        self.waiting -= subscription.past_known({})

    def _unpack(self, packet: Packet, reassembler: Reassembler) -> list[Event]:
        """The events of a packet; a packet that cannot be read is reported to the application as lost."""
        try:
            if is_fragment(packet.body):
                event = reassembler.add(packet)
                return [] if event is None else [event]
            return unpack(packet)
        except WireError:
            self._report(Lost(packet.sender, packet.seqno, packet.seqno, "malformed"))
            return []

    def _report_abandoned(self) -> None:
        """Report fragmented events that will never be complete; a lost fragment was already reported as a packet."""
        for gone in self._reassembler.take_abandoned():
            if gone.reason not in ("fragment lost", "malformed"):
                self._report(Lost(*gone))

    def _report(self, lost: Lost) -> None:
        self.lost[lost.reason] += lost.last - lost.first + 1
        for subscription in self._subscriptions.values():
            self.waiting += subscription.offer_loss(lost)

    def _offer(self, events: list[Event]) -> None:
        waiting = 0
        for key in self._everything:
            if (subscription := self._subscriptions.get(key)) is not None:
                waiting += subscription.offer(events)
        if self._selective and events:
            waiting += self._offer_selected(events)
        self.waiting += waiting
        if self.waiting > self._limit and not self._paused:
            self._paused = True
            self._pause()

    def _offer_selected(self, events: list[Event]) -> int:
        """Offer events to the subscriptions that match, in order across subjects; returns how many were offered.

        Each subject is looked up only once.
        """
        waiting = 0
        subjects = {event[0] for event in events}
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
            waiting += subscription.offer(kept) if kept else 0
        return waiting

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
                self.waiting += subscription.offer(mine) if mine else 0
        for _, subscription in asked:
            if subscription.rewound[run[0].sender] >= self._marks.get(run[0].sender, 0):
                del subscription.rewound[run[0].sender]

    def _took(self, count: int) -> None:
        self.waiting -= count
        if self._paused and self.waiting < self._limit // 2:
            self._paused = False
            self._resume()

    def _unsubscribe(self, key: int) -> None:
        self._subscriptions.pop(key, None)
        self._table.remove(key)
        self._everything.pop(key, None)
        self._selective = len(self._everything) < len(self._table)
