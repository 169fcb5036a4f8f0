"""What is to go from a logger's disk: gathered for a moment, then collected in the thread that writes.

A sweep of a large log may take seconds. So it goes in parts, between which packets are written and acknowledged.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from typing import NamedTuple

from gossamer.core.effects import Collect, ForgetCollected
from gossamer.core.packet_sets import PacketSets, difference, intersection, take, union
from gossamer.core.ranges import RangeSet
from gossamer.store.contract import LogStore, StoreError

_GATHER_S = 0.25
"""Collections within this time go together."""
_AT_ONCE = 8192
"""About how many packets, or senders, go at once: what is to be written waits for that."""


class _Done(NamedTuple):
    """What is gone, what consumers hold back, and the senders that could not be forgotten."""

    gone: PacketSets
    spared: PacketSets
    waiting: list[int]


class Collecting:
    """The packets of one store that are to go, and the senders that are to be forgotten.

    `gone` is called with each packet that went, `failed` if the store cannot do it.
    """

    def __init__(
        self,
        store: LogStore,
        thread: Executor,
        writing: threading.Lock,
        gone: Callable[[int, int], None],
        failed: Callable[[str], None],
    ) -> None:
        self._store = store
        self._thread = thread
        self._writing = writing
        self._gone = gone
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._numbers: PacketSets = {}
        self._overdue: PacketSets = {}
        self._forgetting: list[int] = []
        self._spared: PacketSets = {}  # what a consumer wants that came when it was about to be collected
        self._is_over = False

    def add(self, effect: Collect | ForgetCollected) -> None:
        """This is to go."""
        if isinstance(effect, ForgetCollected):
            self._forgetting.append(effect.sender)
        else:
            table = self._overdue if effect.overdue else self._numbers
            table.setdefault(effect.sender, RangeSet()).add(effect.first, effect.last)
        self._begin_after(_GATHER_S)

    def begin(self) -> None:
        """Collect some of what is to go, and of what consumers have held back."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        overdue, self._overdue = _divided(self._overdue)
        numbers, self._numbers = _divided(union(self._numbers, self._spared))
        self._spared = {}
        forgetting, self._forgetting = self._forgetting[:_AT_ONCE], self._forgetting[_AT_ONCE:]
        if (numbers or overdue or forgetting) and not self._is_over:
            collecting = self._loop.run_in_executor(self._thread, self._collect, overdue, numbers, forgetting)
            collecting.add_done_callback(self._collected)

    def end(self) -> None:
        """Collect once more: the rest when the store is opened again."""
        self.begin()
        self._is_over = True

    def _begin_after(self, wait_s: float) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(wait_s, self.begin)

    def _collect(self, overdue: PacketSets, numbers: PacketSets, forgetting: list[int]) -> _Done:
        """In the thread."""
        with self._writing:
            before = intersection(union(overdue, numbers), self._store.held({*overdue, *numbers}))
            self._store.collect(overdue)
            self._store.collect(numbers, spare=True)
            spared = intersection(numbers, self._store.held(numbers)) if self._store.consumers() else {}
            waiting = self._store.forget_collected(forgetting) if forgetting else []
        return _Done(difference(before, spared), spared, waiting)

    def _collected(self, done: "asyncio.Future[_Done]") -> None:
        try:
            gone, spared, waiting = done.result()
        except StoreError as error:
            self._is_over = True
            self._failed(str(error))
            return
        self._spared = union(self._spared, spared)
        for sender, numbers in gone.items():
            for seqno in numbers:
                self._gone(sender, seqno)
        if self._numbers or self._overdue or self._forgetting:
            self._begin_after(0)
        self._forgetting += waiting


def _divided(table: PacketSets) -> tuple[PacketSets, PacketSets]:
    """The first part of it, and the rest."""
    some = take(table, _AT_ONCE, _AT_ONCE)
    return some, difference(table, some)
