"""Subscriptions that begin with the last event of each subject: asked for by letter, before what comes now.

Loggers answer from their logs; without a logger, members that keep last events (`Settings.retain`) do. What is newer
than the moment of the subscription comes by itself, so it is left out of the answers: nothing comes twice.
"""

import asyncio
import json
from collections.abc import Callable
from itertools import count
from weakref import ref

from gossamer.kernel.letters import LETTER_BYTES_MAX
from gossamer.live.envelope import Envelope, SealedEnvelope
from gossamer.live.inbox import Inbox
from gossamer.live.last_log import LastLog
from gossamer.live.ledger import known_members
from gossamer.live.mail import LAST, LAST_ASKED, Mail
from gossamer.live.member import Member
from gossamer.live.name_log import AskedNames
from gossamer.live.readers import parse
from gossamer.live.subscription import Lost, Subscription
from gossamer.pubsub.last_values import newest
from gossamer.pubsub.subjects import SubjectError, compile_pattern
from gossamer.store.contract import StoreError
from gossamer.wire import WireError
from gossamer.wire.events import Event
from gossamer.wire.last_letters import LastLetter, pack, unpack

_LOOK_S = 0.05
_PACKETS_AT_A_TIME = 200
"""A logger that reads its log acknowledges new packets after so many: with 64 KB in each, some 50 ms."""
_ROOM = LETTER_BYTES_MAX - 1000
NOBODY_KEEPS = "nobody keeps last events: start a logger, or join with Settings(retain=...)"


class _Wish:
    """A subscription that waits for last events."""

    def __init__(self, subscription: Subscription, marks: dict[int, int], asked: list[int]) -> None:
        self.subscription = ref(subscription)
        self.marks = marks
        self.asked = dict.fromkeys(asked)
        self.parts: dict[int, dict[int, LastLetter]] = {}
        self.events: list[Event] = []
        self.kept = False


class Latest:
    """What one member keeps and wants of last events."""

    def __init__(
        self, member: Member, inbox: Inbox, mail: Mail, names: AskedNames, opened: Callable[[bytes], bytes]
    ) -> None:
        self._names = names
        self._member = member
        self._inbox = inbox
        self._mail = mail
        self._wishes: dict[int, _Wish] = {}
        self._numbers = count(1)
        self._log = None if member.disk is None else LastLog(member.disk.store, opened)
        self._tasks: set[asyncio.Task[None]] = set()
        mail.on(LAST_ASKED, self._asked)
        mail.on(LAST, self._told)

    # Wanting.

    def begin(self, subscription: Subscription, patterns: tuple[str, ...]) -> None:
        """Get a subscription the last event of each subject, before what comes from now on."""
        subscription.wait_for_past()
        roster = self._member.stack.roster
        loggers = [logger for logger in roster.loggers if logger in roster.members]
        number = next(self._numbers)
        asked = loggers or [member for member in known_members(self._member) if member != self._member.me]
        wish = self._wishes[number] = _Wish(subscription, dict(self._inbox.marks), asked)
        if self._inbox.retained is not None and not loggers:
            wish.kept = True
            wish.events += self._inbox.retained.matching(_any_of(patterns))
        self._names.ask(lambda: None)  # those of members that have left: their answer is the shorter one
        question = json.dumps({"question": number, "patterns": patterns}).encode()
        for member in asked:
            self._mail.write(member, LAST_ASKED, question)
        asyncio.get_running_loop().call_soon(self._look, number)

    def _look(self, number: int) -> None:
        """Whether those that were asked are still there, and the one that wants to know."""
        wish = self._wishes.get(number)
        if wish is None:
            return
        subscription = wish.subscription()
        if subscription is None or subscription.is_closed:
            del self._wishes[number]
            return
        here = known_members(self._member)
        wish.asked = {member: None for member in wish.asked if member in here}
        if wish.asked:
            asyncio.get_running_loop().call_later(_LOOK_S, self._look, number)
        else:
            self._conclude(number, wish)

    def _told(self, source: int, content: bytes) -> None:
        letter = unpack(content)
        wish = self._wishes.get(letter.question)
        if wish is None or source not in wish.asked:
            return
        parts = wish.parts.setdefault(source, {})
        parts[letter.part] = letter
        wish.kept = wish.kept or letter.keeps
        if len(parts) == letter.parts:
            wish.events += [event for part in parts.values() for event in part.events]
            del wish.asked[source]
            if not wish.asked:
                self._conclude(letter.question, wish)

    def _conclude(self, number: int, wish: _Wish) -> None:
        del self._wishes[number]
        subscription = wish.subscription()
        if subscription is None or subscription.is_closed:
            return
        here = self._member.stack.roster
        past = [
            e
            for e in newest(wish.events)  # what one logger knows may be older than what another one does
            if e.seqno < wish.marks.get(e.sender, 0 if here.knows(e.member) else e.seqno + 1)
        ]
        found = self._inbox.selected(subscription, self._inbox.alive(past))
        lost = [] if wish.kept else [Lost(-1, -1, -1, NOBODY_KEEPS)]
        subscription.past_is([*lost, *sorted(found, key=lambda event: event.time)])

    # Keeping.

    def _asked(self, source: int, content: bytes) -> None:
        asked = parse(content, question=int, patterns=list)
        try:
            matches = _any_of(tuple(asked["patterns"]))
        except SubjectError as error:
            raise WireError(str(error)) from None
        if self._log is not None:
            task = asyncio.get_running_loop().create_task(self._answer_from_log(source, asked["question"], matches))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            kept = self._inbox.retained
            self._answer(source, asked["question"], kept is not None, [] if kept is None else kept.matching(matches))

    async def _answer_from_log(self, source: int, question: int, matches: Callable[[str], bool]) -> None:
        """In the log's own thread: it may have much to read, and lets others write in between."""
        log, disk = self._log, self._member.disk
        assert log is not None
        assert disk is not None
        try:
            while not await disk.in_thread(log.catch_up, _PACKETS_AT_A_TIME):
                pass
            keeps, events = True, await disk.in_thread(log.matching, matches)
        except StoreError:  # then another logger has to know: what can still be read need not be the last
            keeps, events = False, []
        if not disk.is_closed:
            self._answer(source, question, keeps, events)

    def _answer(self, source: int, question: int, keeps: bool, events: list[Event]) -> None:
        letters, left_out = pack(question, keeps, events, _ROOM)
        self._member.stats["last events too long for a letter"] += left_out
        for letter in letters:
            self._mail.write(source, LAST, letter)


def opener_of(envelope: Envelope) -> Callable[[bytes], bytes]:
    """What opens the datagrams of a log: with the group's keys, however old they are."""
    if not isinstance(envelope, SealedEnvelope):
        return _sealed_without_key
    from gossamer.wire.sealing import Opener, SealError

    opening = Opener(envelope.keys)

    def opened(datagram: bytes) -> bytes:
        try:
            return opening.open(datagram, replay_check=False)
        except SealError as error:
            raise WireError(str(error)) from None

    return opened


def _sealed_without_key(_: bytes) -> bytes:
    raise WireError("it is sealed, and this group has no key")


def _any_of(patterns: tuple[str, ...]) -> Callable[[str], bool]:
    tests = [compile_pattern(pattern) for pattern in patterns]
    return lambda subject: any(matches(subject) for matches in tests)
