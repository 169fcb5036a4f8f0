"""Letters between applications: each goes to whatever of the group concerns itself with its topic."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gossamer.core.effects import HandLetter
from gossamer.core.inputs import LetterWritten
from gossamer.live.member import Member
from gossamer.wire import WireError

REPLY, WHO_LISTENS, LISTENS = 1, 2, 3
READ, READING, COMMIT, COMMITTED, RELEASE, CONSUMERS = 4, 5, 6, 7, 8, 9
QUEUE = 10
LAST_ASKED, LAST = 11, 12
NAMES_ASKED, NAMES = 13, 14

Reader = Callable[[int, bytes], None]


class Mail:
    """The letters of one member."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._readers: dict[int, Reader] = {}

    def on(self, topic: int, reader: Reader) -> None:
        """From now on `reader` gets the letters of this topic: who wrote, and what. It may raise WireError."""
        self._readers[topic] = reader

    def write(self, to: int, topic: int, content: bytes) -> None:
        """Write to a member, perhaps to ourselves; what we write to ourselves comes in the loop's next turn."""
        if to == self._member.me:
            asyncio.get_running_loop().call_soon(self.read, HandLetter(to, topic, content))
        else:
            self._member.step(LetterWritten(to, topic, content))

    @contextmanager
    def awaited(self) -> Iterator[None]:
        """While something is awaited by letter, letters are read even if the application reads nothing else."""
        self.expect(1)
        try:
            yield
        finally:
            self.expect(-1)

    def expect(self, more: int) -> None:
        """So many more letters are awaited, or fewer."""
        self._member.sockets.expect(more)

    def read(self, letter: HandLetter) -> None:
        """A letter has come."""
        reader = self._readers.get(letter.topic)
        try:
            if reader is None:
                raise WireError(f"no such topic: {letter.topic}")
            reader(letter.source, letter.content)
        except WireError:
            self._member.stats["unreadable letters"] += 1
