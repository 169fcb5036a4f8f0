"""Queues of workers: who is in one, and what each tells the others, by letter; `pubsub.queue` decides what is whose."""

import asyncio
from collections import Counter, deque
from weakref import ref

from gossamer.core.errors import Misuse
from gossamer.core.ids import owner_of
from gossamer.core.packet_sets import Horizon, difference, union
from gossamer.core.schema import SettingError
from gossamer.live.bound import Acknowledged, acknowledged_types, bind, copied
from gossamer.live.inbox import Inbox
from gossamer.live.ledger import known_members
from gossamer.live.mail import QUEUE, Mail
from gossamer.live.member import Member
from gossamer.live.subscription import Item, Lost, Subscription
from gossamer.pubsub.queue import By, Queue, Report
from gossamer.pubsub.unread import Unread, count_places
from gossamer.wire.events import Event
from gossamer.wire.queue_letters import BYE, HELLO, REPORT, WELCOME, QueueLetter, pack, unpack

_REPORT_S = 0.05
_NAME_BYTES_MAX = 200
_REPORTS_MAX = 1000
"""Reports of one member that may wait for one before them."""
_LEFT_UNDONE = "left undone by a worker that is gone"
_FORGOTTEN = "not kept for other workers of a queue"


class Worker:
    """One subscription's part in a queue."""

    def __init__(self, queue_id: bytes, by: By, subscription: Subscription, parts: "Queues") -> None:
        self._id = queue_id
        self._subscription = ref(subscription)
        self._parts = parts
        self.queue: Queue[Event] = Queue(parts.member.me, by, _key_of, parts.events_max)
        self._others: dict[int, int] = {}  # by member of the queue: the number of its next report
        self._waiting: dict[int, dict[int, QueueLetter]] = {}
        self._unwelcomed: dict[int, deque[QueueLetter]] = {}  # by others that have not said what they have in hand
        self._left: dict[int, int] = {}  # by member that has left the queue: the number of its farewell
        self._greeted: set[int] = set()
        self._number = int(parts.member.now() * 1e6)  # above those of an earlier subscription
        self._told: Horizon = {}  # how far the others know us to have seen
        self._in_hand: Counter[tuple[int, int]] = Counter()  # events that were taken and are not done
        self._acknowledged = Acknowledged()
        self._unread = Unread((), Event)
        self._types = acknowledged_types(parts.inbox.event_type, parts.inbox.home, self._done)
        self._timer = asyncio.get_running_loop().call_soon(self._look)

    @property
    def is_over(self) -> bool:
        """Whether the application reads no more."""
        subscription = self._subscription()
        return subscription is None or subscription.is_closed

    # What is whose.

    def arrived(self, events: list[Event]) -> list[Event]:
        """Events whose turn has come; returns those that are ours."""
        return self.queue.arrived(events)

    def lost(self, sender: int, last: int) -> None:
        """These do not come here; perhaps they came to others."""
        self.queue.lost(sender, last)

    def _give(self, events: list[Event]) -> None:
        """These are ours now, late."""
        subscription = self._subscription()
        if events and subscription is not None:
            self._parts.member.stats["taken over in a queue"] += len(events)
            subscription.offer_own(events)

    def taken(self, items: list[Item]) -> None:
        """The application has read these, to commit them together."""
        self._in_hand.update(count_places(items, Event))
        self._unread = Unread(items, Event)

    def taken_one_by_one(self, items: list[Item], *, shared: bool, blocking: bool) -> list[Item]:
        """The application reads these; each event can be acknowledged."""
        self.taken(items)
        kind = self._types[blocking]
        if shared:
            return copied(items, kind)
        bind(items, kind)
        return items

    def skipped(self, events: list[Event]) -> None:
        """These were too old to be read, and are done."""
        for event in events:
            self.queue.done(event.sender, event.seqno)

    def _done(self, event: Event) -> None:
        place = event.sender, event.seqno
        if self._in_hand[place] > 0 and self._acknowledged.note(event):
            self._in_hand[place] -= 1
            if not self._in_hand[place]:
                del self._in_hand[place]
                self._acknowledged.forget(*place)
            self.queue.done(*place)

    async def commit(self, unread: int, timeout: float | None, *, wait: bool) -> None:
        """All that was taken is done, but for the last so many items."""
        left = self._unread.last(unread)
        for place, count in self._in_hand.items():
            if count > left[place]:
                self.queue.done(*place, events=count - left[place])
        self._in_hand = Counter(left)
        self._acknowledged.clear()

    # The others.

    def _look(self) -> None:
        if self.is_over:
            self._parts.ended(self)
            return
        self._timer = asyncio.get_running_loop().call_later(_REPORT_S, self._look)
        here = set(known_members(self._parts.member))
        for member in sorted(here - self._greeted - {self._parts.member.me}):
            self._write(member, HELLO)
        self._greeted &= here
        self._left = {member: number for member, number in self._left.items() if member in here}
        for gone in sorted((self._others.keys() | self._waiting.keys()) - here):
            self.leave(gone)
        self._report()

    def _seen(self) -> Horizon:
        """How far we are with each sender; of one that has said nothing since we joined, what was before that."""
        streams = self._parts.member.stack.streams
        before = {sender: stream.start - 1 for sender, stream in streams.items() if stream.start > 0}
        return before | self._parts.inbox.positions()

    def _report(self) -> None:
        if self.queue.forgotten:
            self._parts.member.stats[_FORGOTTEN] += self.queue.forgotten
            self.queue.forgotten = 0
        seen = {sender: last for sender, last in self._seen().items() if self._told.get(sender) != last}
        report = self.queue.report(seen)
        if self._others and (seen or report.taken or report.done or report.since):
            letter = pack(QueueLetter(REPORT, self._id, self._number, *report))
            for member in self._others:
                self._parts.mail.write(member, QUEUE, letter)
            self._number += 1
        self._told |= seen

    def _write(self, to: int, kind: int) -> None:
        self._greeted.add(to)
        seen, knows = self._seen(), self._parts.member.stack.roster.knows
        self.queue.forget_but(lambda sender: sender in seen or knows(owner_of(sender)))  # others may be ahead of us
        in_hand = self.queue.in_hand() if kind == WELCOME else {}
        letter = QueueLetter(kind, self._id, self._number, seen, in_hand, {}, 0, self.queue.since)
        self._parts.mail.write(to, QUEUE, pack(letter))

    def heard(self, source: int, letter: QueueLetter) -> None:
        """Another member of the queue, or one that wants to know who is in it."""
        if letter.kind == BYE:
            has_come_back = letter.number < self._others.get(source, 0)  # letters have no order
            self._left[source] = max(letter.number, self._left.get(source, -1))
            self.leave(source)
            if has_come_back:
                self._write(source, HELLO)
        elif letter.kind == REPORT:
            waiting = self._waiting.setdefault(source, {})
            if len(waiting) < _REPORTS_MAX:
                waiting[letter.number] = letter
        elif letter.number > self._left.get(source, -1):  # else it has left since
            is_new = source not in self._others
            self._others[source] = max(letter.number, self._others.get(source, 0))  # letters have no order
            if is_new:
                self._unwelcomed[source] = deque(maxlen=_REPORTS_MAX)
            if is_new or letter.kind == HELLO:
                self._report()  # what it is not told
                self._write(source, WELCOME)
            self._members_changed()
            if letter.kind == WELCOME:
                self._welcomed(source, letter)
            self._read(source, letter._replace(taken={}))
        self._go_on(source)

    def _welcomed(self, source: int, letter: QueueLetter) -> None:
        """It says what it has in hand; reports that it sent later may have been read before."""
        read = self._unwelcomed.pop(source, None)
        if letter.number == self._others[source] or read is not None:
            in_hand = letter.taken
            for later in [report for report in read or () if report.number >= letter.number]:
                in_hand = difference(union(in_hand, later.taken), later.done)
            self.queue.has_in_hand(source, in_hand)

    def _go_on(self, source: int) -> None:
        """Read the reports of a member in their order."""
        waiting = self._waiting.get(source, {})
        while source in self._others and self._others[source] in waiting:
            letter = waiting.pop(self._others[source])
            self._others[source] += 1
            if source in self._unwelcomed:
                self._unwelcomed[source].append(letter)
            self._read(source, letter)
        for number in [number for number in waiting if number < self._others.get(source, 0)]:
            del waiting[number]

    def _read(self, source: int, letter: QueueLetter) -> None:
        report = Report(letter.seen, letter.taken, letter.done, letter.list_hash, letter.since)
        self._give(self.queue.reported(source, report, self._seen()))

    def leave(self, member: int) -> None:
        """A member is no longer in the queue: what it had not done goes to others."""
        self._waiting.pop(member, None)
        self._unwelcomed.pop(member, None)
        if self._others.pop(member, None) is not None:
            self._members_changed()

    def _members_changed(self) -> None:
        self._give(self.queue.members_are(self._others))
        subscription = self._subscription()
        for sender, numbers in self.queue.left_undone().items():
            self._parts.member.stats[_LEFT_UNDONE] += len(numbers)
            for first, last in numbers.ranges():
                if subscription is not None:
                    subscription.offer_loss(Lost(sender, first, last, _LEFT_UNDONE))

    def stop(self) -> None:
        """Tell the others that we are out of it, also those that have not answered our greeting yet."""
        self._timer.cancel()
        self._report()
        for member in sorted(self._greeted | self._others.keys()):
            self._parts.mail.write(member, QUEUE, pack(QueueLetter(BYE, self._id, self._number, {}, {}, {}, 0, {})))


class Queues:
    """The queues of which one member is part."""

    def __init__(self, member: Member, inbox: Inbox, mail: Mail, events_max: int) -> None:
        self.member = member
        self.inbox = inbox
        self.mail = mail
        self.events_max = events_max
        self._workers: dict[bytes, Worker] = {}
        mail.on(QUEUE, self._heard)

    def check(self, name: str, patterns: tuple[str, ...], where: str | None, by: By) -> bytes:
        """The queue's identity; raises unless this member can join it."""
        if not isinstance(name, str) or not 0 < len(name.encode()) <= _NAME_BYTES_MAX or not name.isprintable():
            raise SettingError(f"queue = {name!r}: must be a name of 1 to {_NAME_BYTES_MAX} printable characters")
        if by not in ("any", "sender", "key"):
            raise SettingError(f"queue_by = {by!r}: must be 'any', 'sender' or 'key'")
        queue_id = "\0".join((name, by, where or "", *sorted(patterns))).encode()
        if queue_id in self._workers and not self._workers[queue_id].is_over:
            raise Misuse(f"queue {name!r}: this member is in it already; read that subscription in several tasks")
        return queue_id

    def begin(self, queue_id: bytes, by: By, subscription: Subscription) -> None:
        """Make a subscription part of a queue."""
        if queue_id in self._workers:
            self.ended(self._workers[queue_id])
        worker = self._workers[queue_id] = Worker(queue_id, by, subscription, self)
        subscription.queue = subscription.acks = worker

    def ended(self, worker: Worker) -> None:
        """A subscription was closed."""
        for queue_id in [queue_id for queue_id, one in self._workers.items() if one is worker]:
            del self._workers[queue_id]
            worker.stop()

    def finish(self) -> None:
        """The member leaves."""
        for worker in list(self._workers.values()):
            self.ended(worker)

    def _heard(self, source: int, content: bytes) -> None:
        letter = unpack(content)
        worker = self._workers.get(letter.queue)
        if worker is not None and source != self.member.me:
            worker.heard(source, letter)


def _key_of(event: Event) -> str:
    key = event.attributes.get("key")
    return "" if key is None else str(key)
