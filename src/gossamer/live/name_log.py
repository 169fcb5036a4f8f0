"""The names of publishers that have left: loggers keep them beside the events, and are asked before those come.

A packet carries the number of its sender only, and the view forgets members that have left. A logger therefore keeps
what the senders of its packets are called, and a member that wants the past first asks by letter. A name is for people:
an answer that does not come is not waited for longer than a moment.
"""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress

from gossamer.core.ids import stream_of
from gossamer.live.log_disk import LogDisk
from gossamer.live.mail import NAMES, NAMES_ASKED, Mail
from gossamer.live.member import Member
from gossamer.live.names import known, learn
from gossamer.live.readers import parse
from gossamer.store.about import pack_names, unpack_names
from gossamer.store.contract import StoreError

_LOOK_S = 1.0
_PATIENCE_S = 1.0
_DIGITS_MAX = 20


class NameLog:
    """A logger's side: what the senders in its log are called."""

    def __init__(self, member: Member, disk: LogDisk, mail: Mail) -> None:
        self._member = member
        self._disk = disk
        self._mail = mail
        self._kept: dict[int, str] = {}
        self._unsaved = False
        with suppress(StoreError):  # a damaged store says so where it matters
            self._kept = disk.store.names()
        for number, name in self._kept.items():
            learn(number, name)
        self._timer = asyncio.get_running_loop().call_later(_LOOK_S, self._look_again)
        mail.on(NAMES_ASKED, self._asked)

    def stop(self) -> None:
        """The logger stops: what it has just learned is kept, too."""
        self._timer.cancel()
        if self._has_news():
            self._disk.keep_names(self._kept)

    def _look_again(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_LOOK_S, self._look_again)
        if self._has_news():
            asyncio.get_running_loop().run_in_executor(None, self._disk.keep_names, dict(self._kept))

    def _has_news(self) -> bool:
        """Whether names have to be written to the store now, also those that were learned for an answer."""
        self._look()
        unsaved, self._unsaved = self._unsaved and not self._disk.failure, False
        return unsaved

    def _look(self) -> None:
        """Keep the names of senders that are not kept yet, in memory."""
        new = {member: name for member, name in known().items() if self._kept.get(member) != name}
        channels = range(self._member.stack.streams.channels.bit_length())
        held = self._disk.store.held([stream_of(member, c) for member in new for c in channels]) if new else {}
        named = {m: name for m, name in new.items() if any(stream_of(m, c) in held for c in channels)}
        for member, name in named.items():
            self._kept.pop(member, None)
            self._kept[member] = name
        if named:
            self._kept = unpack_names(pack_names(self._kept))  # no more than the store keeps
            self._unsaved = True

    def _asked(self, source: int, _: bytes) -> None:
        with suppress(StoreError):
            self._look()
        self._mail.write(source, NAMES, json.dumps({"names": self._kept}).encode())


class AskedNames:
    """A reader's side."""

    def __init__(self, member: Member, mail: Mail) -> None:
        self._member = member
        self._mail = mail
        self._awaited: set[int] = set()
        self._then: list[Callable[[], None]] = []
        mail.on(NAMES, self._told)

    def ask(self, then: Callable[[], None]) -> None:
        """Call `then` when the loggers have told the names that they keep, or after a moment."""
        roster = self._member.stack.roster
        loggers = {one for one in roster.loggers if one in roster.members and one != self._member.me}
        if not loggers:
            return then()
        self._then.append(then)
        self._mail.expect(1)
        asyncio.get_running_loop().call_later(_PATIENCE_S, self._go_on, then)
        self._awaited |= loggers
        for logger in loggers:
            self._mail.write(logger, NAMES_ASKED, b"")
        return None

    def close(self) -> None:
        """The member leaves: nobody waits any more."""
        self._then.clear()

    def _told(self, source: int, content: bytes) -> None:
        if source not in self._awaited:
            return
        self._awaited.discard(source)
        for number, name in parse(content, names=dict)["names"].items():
            if isinstance(name, str) and number.isascii() and number.isdigit() and len(number) <= _DIGITS_MAX:
                learn(int(number), name)
        if not self._awaited:
            for then in list(self._then):
                self._go_on(then)

    def _go_on(self, then: Callable[[], None]) -> None:
        if then in self._then:
            self._then.remove(then)
            self._mail.expect(-1)
            then()
