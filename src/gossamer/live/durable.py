"""Durable subscribers: a subscription that goes on where its last commit was, on whatever host it is made again.

It asks the loggers for its name, gets the past from where it was, and renews its lease for as long as it reads. What is
done goes to every logger that is there; a commit is over when as many have it as `Settings.copies` says.
"""

import asyncio
import json
from collections import Counter, deque
from contextlib import suppress
from time import monotonic
from typing import Any
from weakref import ref

from gossamer.core.packet_sets import Horizon
from gossamer.core.schema import SettingError
from gossamer.live.bound import Acknowledged, acknowledged_types, bind, copied
from gossamer.live.errors import NameInUse, NoLogger, Timeout
from gossamer.live.inbox import Inbox
from gossamer.live.mail import COMMIT, COMMITTED, READ, READING, RELEASE, Mail
from gossamer.live.member import Member
from gossamer.live.names import name_of
from gossamer.live.past import Past
from gossamer.live.readers import numbers, parse, texts
from gossamer.live.subscription import Item, Start, Subscription, parse_start
from gossamer.logging.registrar import RENEW_S
from gossamer.pubsub.progress import Progress
from gossamer.pubsub.taken import Taken
from gossamer.pubsub.unread import Place
from gossamer.wire.events import Event

_ASK_AGAIN_S = 0.2
_PATIENCE_S = 30.0
"""How long loggers that do not answer are waited for."""
_NONE_FOR_S = 3.0
"""A group in which no logger is seen for so long has none: a member learns of loggers a moment after it joined."""
_COMMIT_AFTER_S = 0.05
"""What is acknowledged event by event is committed this much later, together."""
_LAST_COMMIT_S = 1.0
_BEHIND_S = 1.0
"""A commit that loggers have not kept for so long is waited for by the next one."""
NAME_BYTES_MAX = 200


class Durable:
    """One durable subscription."""

    def __init__(self, name: str, subscription: Subscription, start: Start, parts: "Durables") -> None:
        self.name = name
        self.progress = Progress()
        self._subscription = ref(subscription)  # an application that drops it must not go on reading
        self._types = acknowledged_types(parts.inbox.event_type, parts.inbox.home, self._done)
        self._start = start
        self._parts = parts
        self._answers: dict[int, dict[str, Any]] = {}
        self._answered = asyncio.Event()
        self._granted = False
        self._committed: Horizon = {}
        self._number = 0
        self._under_way: deque[tuple[int, float]] = deque()  # commits that are not kept yet, and since when
        self._acknowledged = Acknowledged()
        self._taken = Taken()
        self._uncounted: list[tuple[Taken, int | None]] | None = []  # read one by one, not committed: how many
        self._batched = False  # whether anything was read in batches since a commit
        self._sent: dict[int, int] = {}  # by logger: the last commit that it was told
        self._told_at: dict[int, float] = {}  # by logger: when that was
        self._kept: dict[int, int] = {}  # by logger: the last commit that it has
        self._news = asyncio.Event()
        self._soon: asyncio.TimerHandle | None = None
        self.task = asyncio.get_running_loop().create_task(self._live())

    async def _live(self) -> None:
        try:
            await self._claim()
            while not self.is_closed:
                await asyncio.sleep(RENEW_S / 4)
                await self._renew()
        except (NameInUse, NoLogger) as error:
            if (subscription := self._subscription()) is not None:
                subscription.refuse(error)
        finally:
            self._parts.ended(self)
            asyncio.get_running_loop().call_soon(self._news.set)  # a commit that waits learns of it

    @property
    def is_closed(self) -> bool:
        """Whether the subscription is read no more."""
        subscription = self._subscription()
        return subscription is None or subscription.is_closed

    def _done(self, event: Event) -> None:
        if self._acknowledged.note(event):
            self._count()
            if self.progress.done(event.sender, event.seqno):
                self._acknowledged.forget(event.sender, event.seqno)
            self.commit_soon()

    # Being the reader.

    async def _claim(self) -> None:
        """Ask until a logger that decides has granted the name, and all that are there have said how far it was."""
        await self._meet_a_logger()
        end = monotonic() + _PATIENCE_S
        while not self.is_closed:
            self._ask(renews=False)
            with suppress(TimeoutError):
                async with asyncio.timeout(_ASK_AGAIN_S):
                    while not self._complete():
                        self._answered.clear()
                        await self._answered.wait()
            outcome = self._outcome()
            if outcome == "granted" and self._complete():
                return self._begin()
            if self._answers:
                end = monotonic() + _PATIENCE_S
            elif monotonic() > end:
                raise NoLogger(f"durable name {self.name!r}: no logger has answered within {_PATIENCE_S:.0f} s")
            await asyncio.sleep(_ASK_AGAIN_S / 4)
        return None

    async def _meet_a_logger(self) -> None:
        end = monotonic() + _NONE_FOR_S
        while not self._parts.any_logger and not self.is_closed:
            if monotonic() > end:
                raise NoLogger(
                    f"durable name {self.name!r}: the group has no logger to keep its position; start one with "
                    "`gossamer logger GROUP --store DIR`"
                )
            await asyncio.sleep(_ASK_AGAIN_S / 20)

    def _ask(self, *, renews: bool) -> None:
        self._asked_at = monotonic()
        self._answers.clear()
        question = json.dumps({"name": self.name, "renews": renews}).encode()
        for logger in self._parts.loggers():
            self._parts.mail.write(logger, READ, question)

    def _complete(self) -> bool:
        loggers = self._parts.loggers()
        return bool(loggers) and all(logger in self._answers for logger in loggers)

    def _outcome(self) -> str | None:
        """What the logger that decides has said; NameInUse if it refuses."""
        for answer in self._answers.values():
            if answer.get("outcome") == "refused":
                holder = answer["holder"] if isinstance(answer.get("holder"), int) else -1
                raise NameInUse(
                    f"durable name {self.name!r}: member {name_of(holder)} reads it; one at a time can: stop that one, "
                    "choose another name, or share the work with queue="
                )
            if answer.get("outcome") is not None:
                return str(answer.get("outcome"))
        return None

    def heard(self, source: int, answer: dict[str, Any]) -> None:
        """A logger has answered."""
        if source in self._parts.loggers():
            self._answers[source] = answer
            self._answered.set()

    def _begin(self) -> None:
        """The name is ours: begin where it was or, if it is new, where the application said."""
        subscription = self._subscription()
        if subscription is None:
            return
        self._granted = True
        known = [numbers(a["positions"]) for a in self._answers.values() if a.get("positions") is not None]
        unread = [logger for logger, answer in self._answers.items() if answer.get("readable") is False]
        if unread and not known:
            raise NoLogger(
                f"durable name {self.name!r}: logger {name_of(unread[0])} cannot read how far it was, its store is "
                "damaged, and no other logger knows; `gossamer log info` shows what is still readable"
            )
        wish = parse_start(self._start)
        if known:
            at = furthest(known)
            # of senders that are new since then, everything; the loggers have kept it for us, or will get it
            since = {sender: at.get(sender, -1) + 1 for sender in [*at, *self._parts.inbox.marks]}
            self._parts.past.wish(subscription, 0, since)
        elif wish is not None:
            at = {sender: first - 1 for sender, first in wish[1].items() if first > 0}
            self._parts.past.wish(subscription, *wish)
        else:
            ends = [numbers(answer.get("ends") or {}) for answer in self._answers.values()]
            at = furthest([*ends, self._parts.inbox.positions()])
            self._parts.past.wish(subscription, 0, {sender: last + 1 for sender, last in at.items()})
        self._committed = at
        self._send_commit()

    async def _renew(self) -> None:
        if (subscription := self._subscription()) is not None:
            self._look_at_given(subscription)
            self.look()
        if self._outcome() not in (None, "granted") or monotonic() > self._asked_at + RENEW_S:
            self._ask(renews=True)
        for logger in self._parts.loggers():  # one may have come back
            if self._kept.get(logger, 0) < self._number:
                self._tell(logger)

    # Committing.

    def taken(self, items: list[Item]) -> None:
        """The application has read these, to commit them together."""
        self._gave(together=True)
        self._taken = Taken(items, Event)
        self._batched = True
        self._parts.inbox.unpack_as(None)

    def taken_one_by_one(self, items: list[Item], *, shared: bool, blocking: bool) -> list[Item]:
        """The application reads these; each event can be acknowledged."""
        self._gave(together=self._uncounted is not None)
        self._taken = Taken(items, Event)
        if self._uncounted is not None:
            self._uncounted.append((self._taken, None))
        else:
            self.progress.expect(self._taken.places())
        kind = self._types[blocking]
        if shared:
            return copied(items, kind)
        self._parts.inbox.unpack_as(kind)
        for part in self._taken.parts:  # events of one packet are of one class
            if type(items[part.begin]) is not kind:
                bind(items[part.begin : part.end], kind)
        return items

    def _gave(self, *, together: bool) -> None:
        if (subscription := self._subscription()) is not None:
            self.progress.gave(self._parts.inbox.marks, subscription.rewound, together=together)

    def _count(self) -> None:
        """Count the events that were read one by one: who never acknowledges one of them need not pay for that."""
        uncounted, self._uncounted = self._uncounted, None
        if uncounted is not None:
            counted: Counter[Place] = Counter()
            for taken, count in uncounted:
                counted.update(taken.places(count))
            (self.progress.expect if self._batched else self.progress.separate)(counted)

    def _look_at_given(self, subscription: Subscription) -> None:
        """If nothing waits, everything whose turn has come was given, also what does not match."""
        if subscription.has_given_all:
            self.progress.gave(self._parts.inbox.marks, subscription.rewound)

    async def commit(self, unread: int, timeout: float | None, *, wait: bool) -> None:
        """All that was taken is done, but for the last so many items: wait until loggers have kept enough of that."""
        if (subscription := self._subscription()) is not None:
            self._look_at_given(subscription)
        self.progress.all_but(self._taken.first(unread))
        self._uncounted = [(self._taken, unread)] if unread else []
        self._batched = False
        self._acknowledged.clear()
        self.look()
        await self._wait_for(self._number if wait else self._overdue(), timeout)

    def _overdue(self) -> int:
        """A commit that loggers should have kept by now; 0 if there is none."""
        under_way = self._under_way
        while under_way and self._is_kept(under_way[0][0]):
            under_way.popleft()
        return under_way[0][0] if under_way and under_way[0][1] < monotonic() - _BEHIND_S else 0

    async def _wait_for(self, number: int, timeout: float | None) -> None:
        if self._is_kept(number):
            return
        try:
            with self._parts.mail.awaited():
                async with asyncio.timeout(timeout):
                    await self._kept_by_enough(number)
        except TimeoutError:
            raise Timeout(f"durable name {self.name!r}: no logger has kept its position within {timeout} s") from None

    async def _kept_by_enough(self, number: int) -> None:
        while not self._is_kept(number):
            if self.task.done():
                raise NameInUse(f"durable name {self.name!r}: this subscription reads it no more")
            self._news.clear()
            await self._news.wait()

    def _is_kept(self, number: int) -> bool:
        return not number or sum(kept >= number for kept in self._kept.values()) >= self._parts.copies

    def commit_soon(self) -> None:
        """Something was acknowledged: commit it in a moment."""
        if self._soon is None:
            self._soon = asyncio.get_running_loop().call_later(_COMMIT_AFTER_S, self.look)

    def look(self) -> None:
        """Commit, if there is anything new."""
        if self._soon is not None:
            self._soon.cancel()
            self._soon = None
        if not self._granted:
            return
        before = self._committed
        if new := {s: last for s, last in self.progress.positions().items() if last > before.get(s, -1)}:
            self._committed = before | new
            self._send_commit()

    def _send_commit(self) -> None:
        self._number = max(self._number + 1, self._parts.now_us())  # above those of an earlier subscription
        self._under_way.append((self._number, monotonic()))
        for logger in self._parts.loggers():
            self._tell(logger)

    def _tell(self, logger: int) -> None:
        """Tell a logger how far we are, unless it has not answered yet: then it is told the latest when it has.

        One that was killed before it answered may be back as the same member, and is told again after a while.
        """
        is_asked = self._sent.get(logger, 0) > self._kept.get(logger, 0)
        if is_asked and monotonic() < self._told_at[logger] + RENEW_S:
            return
        self._told_at[logger] = monotonic()
        self._sent[logger] = self._number
        told = {"name": self.name, "number": self._number, "positions": texts(self._committed)}
        self._parts.mail.write(logger, COMMIT, json.dumps(told).encode())

    def kept(self, logger: int, number: int) -> None:
        """A logger has made a commit durable."""
        self._kept[logger] = max(number, self._kept.get(logger, 0))
        self._news.set()
        if self._kept[logger] < self._number:
            self._tell(logger)

    async def finish(self) -> None:
        """The member leaves: commit what was acknowledged, and let others read."""
        if self._granted and not self.task.done():
            with suppress(Timeout, NameInUse):
                self.look()
                await self._wait_for(self._number, _LAST_COMMIT_S)
            self.release()
        self.task.cancel()

    def release(self) -> None:
        """Let others read."""
        for logger in self._parts.loggers():
            self._parts.mail.write(logger, RELEASE, json.dumps({"name": self.name}).encode())


class Durables:
    """The durable subscriptions of one member."""

    def __init__(self, member: Member, inbox: Inbox, mail: Mail, past: Past, copies: int) -> None:
        self.inbox = inbox
        self.mail = mail
        self.past = past
        self.copies = copies
        self._member = member
        self._active: dict[str, Durable] = {}
        mail.on(READING, self._told)
        mail.on(COMMITTED, self._committed)

    def check(self, name: str) -> None:
        """Raise unless this name can be read here."""
        if not isinstance(name, str) or not 0 < len(name.encode()) <= NAME_BYTES_MAX or not name.isprintable():
            raise SettingError(f"durable = {name!r}: must be a name of 1 to {NAME_BYTES_MAX} printable characters")
        if name in self._active:
            raise NameInUse(f"durable name {name!r}: this member reads it already; close that subscription first")

    def begin(self, name: str, subscription: Subscription, start: Start) -> None:
        """Make a subscription durable."""
        subscription.wait_for_past()
        durable = Durable(name, subscription, start, self)
        self._active[name] = subscription.acks = durable

    def ended(self, durable: Durable) -> None:
        """A subscription was closed, or refused."""
        if self._active.get(durable.name) is durable:
            del self._active[durable.name]
            durable.look()
            durable.release()

    async def finish(self) -> None:
        """The member leaves."""
        for durable in list(self._active.values()):
            await durable.finish()

    @property
    def any_logger(self) -> bool:
        """Whether the group has loggers, in reach or away."""
        return bool(self._member.stack.roster.loggers)

    def now_us(self) -> int:
        """The member's clock, in microseconds."""
        return int(self._member.now() * 1e6)

    def loggers(self) -> list[int]:
        """The loggers that are there."""
        roster = self._member.stack.roster
        return [logger for logger in roster.loggers if logger in roster.members]

    def _told(self, source: int, content: bytes) -> None:
        answer = parse(content, name=str)
        if answer["name"] in self._active:
            self._active[answer["name"]].heard(source, answer)

    def _committed(self, source: int, content: bytes) -> None:
        answer = parse(content, name=str, number=int)
        if answer["name"] in self._active:
            self._active[answer["name"]].kept(source, answer["number"])


def furthest(some: list[Horizon]) -> Horizon:
    """For each sender the highest of its positions."""
    found: Horizon = {}
    for positions in some:
        for sender, last in positions.items():
            found[sender] = max(last, found.get(sender, -1))
    return found
