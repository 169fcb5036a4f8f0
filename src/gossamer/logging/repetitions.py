"""To whom and how fast a sender repeats what no logger has acknowledged (000 §3.1).

As many loggers as there should be copies are sent what they lack, the same ones as long as they answer. One that does
not answer is sent only the oldest packet at each tick, as a probe. A repetition asks for an acknowledgement: where
requests are limited to what a path carries (`core.asking`), so are repetitions. Else many senders that repeat at a
fixed rate to a logger behind a narrow link fill it with copies of what waits there already, and hardly anything else
comes through, not even what the logger asks for.
"""

from math import inf

from gossamer.core.asking import Asking
from gossamer.core.ladder import UNLIMITED, Ladder
from gossamer.core.packet_sets import PacketSets, take
from gossamer.core.ranges import RangeSet
from gossamer.logging.unlogged import Unlogged


class Repetitions:
    """What may be on its way to each logger; `streams` are those of the sender."""

    def __init__(self, ladder: Ladder, streams: dict[int, Unlogged]) -> None:
        self.loggers: list[int] = []
        """Those to which packets are repeated now."""
        self._ladder = ladder
        self._streams = streams
        self._limit = ladder.settings.request_packets
        self._asking: dict[int, Asking] = {}  # by logger in reach
        self._silent: set[int] = set()  # loggers that were sent something and have not been heard since

    def tick(self, now: float) -> None:
        """Time has passed: loggers may be out of reach, or silent, and others take their place."""
        reach = self._ladder.roster.loggers_to_ask()
        self._asking = {logger: self._asking.get(logger) or Asking(self._limit, adapts=True) for logger in reach}
        self._silent.intersection_update(reach)
        answering = [logger for logger in self.loggers if logger in self._asking and logger not in self._silent]
        others = [logger for logger in reach if logger not in answering]
        places = max(0, self._ladder.settings.log_copies - len(answering))
        self.loggers = answering + self._ladder.rng.sample(others, min(len(others), places))
        for asking in self._asking.values():
            asking.tick(now)
            for stream, unlogged in self._streams.items():
                asking.remove(stream, unlogged.overdue_below, UNLIMITED)

    def choose(self, now: float, logger: int) -> PacketSets:
        """What to repeat to `logger` now, the oldest first; it counts as being on its way."""
        asking = self._asking[logger]
        if asking.wanted_count <= asking.limit or not self._limit:
            for stream, unlogged in self._streams.items():
                for part in unlogged.overdue(logger, 2 * self._limit or UNLIMITED).ranges():
                    asking.add(stream, *part)
        chosen = take(asking.choose(), 1 if logger in self._silent else 0)
        asking.asked(now, logger, chosen)
        return chosen

    def awaits(self, logger: int) -> None:
        """It was sent something, and should say so."""
        self._silent.add(logger)

    def acknowledged(self, now: float, logger: int, stream: int, first: int, last: int) -> None:
        """`logger` has these."""
        self._silent.discard(logger)
        asking = self._asking.get(logger)
        if asking is not None and asking.wanted_count:
            asking.answered_by(now, logger, {stream: RangeSet.span(first, last)})
            asking.remove(stream, first, last)

    def settled(self, stream: int, first: int, last: int) -> None:
        """Nobody need have these any more: enough loggers do, or they were let go."""
        for asking in self._asking.values():
            asking.remove(stream, first, last)

    def ready(self) -> list[int]:
        """The loggers that answer, and to which more may be repeated."""
        answering = [logger for logger in self.loggers if logger not in self._silent]
        return [logger for logger in answering if self._asking[logger].wants_more()]

    def overdue(self, now: float) -> float:
        """Do not wait for what should have been acknowledged by now; returns when to look again."""
        return min([asking.overdue(now) for asking in self._asking.values()], default=inf)
