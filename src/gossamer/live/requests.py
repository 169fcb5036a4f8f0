"""Requests and replies: a request is an event that asks for a letter.

Everybody who subscribes to its subject hears a request; its attribute `reply` is the number under which its publisher
waits. A reply goes to that member alone. If none comes at once, the members are asked whether they listen at all: first
those that have answered before, then all. So a request that nobody hears fails after a round trip, and one that is
answered at once costs one event and one letter.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable
from itertools import count
from time import time_ns
from typing import Any

from gossamer.core import varint
from gossamer.kernel.letters import LETTER_BYTES_MAX
from gossamer.live.codecs import Codec
from gossamer.live.errors import NobodyListens, NotAnEvent, Timeout
from gossamer.live.inbox import Inbox
from gossamer.live.ledger import known_members
from gossamer.live.mail import LISTENS, REPLY, WHO_LISTENS, Mail
from gossamer.live.member import Member
from gossamer.live.misuse import not_an_event
from gossamer.pubsub.poll import Poll
from gossamer.wire import WireError
from gossamer.wire.events import Event
from gossamer.wire.replies import Reply, pack, unpack

_ASK_AFTER_S = 0.003
"""A reply that has not come after this and a round trip may never come."""
_LOOK_S = 0.05
"""While members are asked: how often it is looked whether they are still there."""
_WATCH_S = 0.5
"""While a member that listens works on its reply: how often it is looked whether it is still there."""
_SUBJECTS_MAX = 1000
"""Of this many subjects it is remembered who answered."""


class _Asked:
    """A request that waits for replies."""

    def __init__(self, subject: str, *, many: bool = False) -> None:
        self.subject = subject
        self.many = many
        """Whether further replies are waited for after the first one."""
        self.replies: deque[Event] = deque()
        self.ready = asyncio.Event()
        self.poll: Poll | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.answered = False
        self.over = False
        """Whether nobody is left that could reply again."""
        self.error: BaseException | None = None

    async def wait(self) -> None:
        """Until something has happened; raises the error if there cannot be a reply."""
        if self.error is not None:
            raise self.error
        self.ready.clear()
        await self.ready.wait()

    def end(self) -> None:
        if self.timer is not None:
            self.timer.cancel()


class Requests:
    """The requests of one member, and its replies to those of others."""

    def __init__(self, group: str, member: Member, inbox: Inbox, mail: Mail, codec: Codec | None) -> None:
        self._group = group
        self._member = member
        self._inbox = inbox
        self._mail = mail
        self._codec = codec
        self._waiting: dict[int, _Asked] = {}
        self._numbers = count(1)
        self._answerers: dict[str, dict[int, None]] = {}  # by subject: members that answered, or said that they listen
        mail.on(REPLY, self._replied)
        mail.on(WHO_LISTENS, self._asked_who_listens)
        mail.on(LISTENS, self._told_who_listens)

    async def one(self, subject: str, publish: Callable[[int], Any], timeout: float | None) -> Event:
        """Publish the request, which is told its number, and return the first reply; Timeout if there is none."""
        number, asked = next(self._numbers), _Asked(subject)
        self._waiting[number] = asked
        sent = False
        self._mail.expect(1)
        try:
            async with asyncio.timeout(timeout):
                await publish(number)
                sent = True
                self._ask_later(number, asked)
                while not asked.replies:
                    await asked.wait()
            return asked.replies.popleft()
        except TimeoutError:
            raise self._late(subject, sent, timeout) from None
        finally:
            self._mail.expect(-1)
            del self._waiting[number]
            asked.end()

    async def many(
        self,
        subject: str,
        publish: Callable[[int], Any],
        timeout: float | None,
        limit: int | None,
    ) -> AsyncGenerator[Event]:
        """Publish the request, which is told its number, and yield replies, at most `limit`, until the time is over."""
        number, asked = next(self._numbers), _Asked(subject, many=True)
        self._waiting[number] = asked
        try:
            async with asyncio.timeout(timeout) as clock:
                deadline = clock.when()
                await publish(number)
            self._ask_later(number, asked)
            while limit is None or limit > 0:
                reply = await self._next(asked, deadline)
                if reply is None:
                    return
                limit = None if limit is None else limit - 1
                yield reply
        except TimeoutError:
            raise self._late(subject, False, timeout) from None
        finally:
            del self._waiting[number]
            asked.end()

    def _late(self, subject: str, sent: bool, timeout: float | None) -> Timeout:
        if sent:
            return Timeout(f"group {self._group!r}: no reply to {subject!r} within {timeout} s")
        return Timeout(f"group {self._group!r}: no room to send a request within {timeout} s")

    def _ask_later(self, number: int, asked: _Asked) -> None:
        patience = _ASK_AFTER_S + max(self._member.stack.round_trips.times.values(), default=0.0)
        asked.timer = asyncio.get_running_loop().call_later(patience, self._look, number)

    def _look(self, number: int) -> None:
        """Ask who listens, unless somebody has replied: then there is time to look whether others may."""
        asked = self._waiting.get(number)
        if asked is not None and asked.answered:
            asked.timer = asyncio.get_running_loop().call_later(_WATCH_S, self._who_listens, number)
        else:
            self._who_listens(number)

    async def _next(self, asked: _Asked, deadline: float | None) -> Event | None:
        """The next reply; None when the time is over, and NobodyListens if there cannot be one."""
        while not asked.replies:
            if asked.over:
                return None
            try:
                with self._mail.awaited():
                    async with asyncio.timeout_at(deadline):
                        await asked.wait()
            except TimeoutError:
                return None
        return asked.replies.popleft()

    def close(self, error: BaseException) -> None:
        """The membership is over, and so is all waiting."""
        for asked in self._waiting.values():
            asked.error = error
            asked.ready.set()

    # Replying.

    def reply(self, event: Event, payload: Any, attributes: dict[str, Any]) -> None:
        """Answer a request; returns at once."""
        if self._codec is not None:
            payload = self._codec.payload(payload)
        number = int(event.attributes["reply"] or 0)
        if not isinstance(payload, bytes):
            raise not_an_event(TypeError(), [payload])
        try:
            content = pack(Reply(number, time_ns(), payload, attributes))
        except (TypeError, ValueError) as error:
            raise not_an_event(error, [payload]) from None
        if len(content) > LETTER_BYTES_MAX:
            raise NotAnEvent(f"a reply of {len(content)} bytes: at most {LETTER_BYTES_MAX}; publish it instead")
        self._mail.write(event.member, REPLY, content)

    def _replied(self, source: int, content: bytes) -> None:
        reply = unpack(content)
        asked = self._waiting.get(reply.number)
        if asked is None:
            self._member.stats["replies that came too late"] += 1
            return
        self._remember(asked.subject, source)
        asked.answered = True
        made = tuple(Event(asked.subject, reply.payload, reply.attributes, source, -1, reply.time_ns / 1e9))
        asked.replies.append(tuple.__new__(self._inbox.event_type, made))
        asked.ready.set()

    # Whether anybody listens.

    def _remember(self, subject: str, member: int) -> None:
        if len(self._answerers) >= _SUBJECTS_MAX and subject not in self._answerers:
            del self._answerers[next(iter(self._answerers))]
        self._answerers.setdefault(subject, {})[member] = None

    def _who_listens(self, number: int) -> None:
        """No reply has come yet: ask who listens, or look whether those that were asked are still there."""
        asked = self._waiting.get(number)
        if asked is None or (asked.answered and not asked.many):
            return
        members = known_members(self._member)
        if asked.poll is None:
            others = [member for member in members if member != self._member.me]
            likely, here = self._answerers.get(asked.subject, {}), self._inbox.listens(asked.subject)
            asked.poll = Poll(others, likely, here=here)
        asked.poll.follow(members)
        self._go_on(number, asked, asked.poll)
        if not asked.poll.nobody:
            pause = _WATCH_S if asked.poll.somebody else _LOOK_S
            asked.timer = asyncio.get_running_loop().call_later(pause, self._who_listens, number)

    def _go_on(self, number: int, asked: _Asked, poll: Poll) -> None:
        question = bytearray()
        varint.put(question, number)
        for member in poll.to_ask():
            self._mail.write(member, WHO_LISTENS, bytes(question) + asked.subject.encode())
        if poll.nobody and asked.answered:
            asked.over = True
            asked.ready.set()
        elif poll.nobody:
            asked.error = NobodyListens(
                f"group {self._group!r}: nobody subscribes to {asked.subject!r}, so nobody can reply"
            )
            asked.ready.set()

    def _asked_who_listens(self, source: int, content: bytes) -> None:
        number, subject = _numbered(content)
        answer = bytearray()
        varint.put(answer, number)
        try:
            answer.append(self._inbox.listens(subject.decode()))
        except UnicodeDecodeError:
            raise WireError("a question about no subject") from None
        self._mail.write(source, LISTENS, bytes(answer))

    def _told_who_listens(self, source: int, content: bytes) -> None:
        number, yes = _numbered(content)
        asked = self._waiting.get(number)
        if asked is not None and asked.poll is not None:
            if yes == b"\x01":
                self._remember(asked.subject, source)
            else:
                self._answerers.get(asked.subject, {}).pop(source, None)
            asked.poll.answered(source, yes == b"\x01")
            self._go_on(number, asked, asked.poll)


def _numbered(content: bytes) -> tuple[int, bytes]:
    try:
        number, at = varint.get(content, 0)
    except ValueError as reason:
        raise WireError(str(reason)) from None
    return number, content[at:]
