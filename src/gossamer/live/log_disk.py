"""A logger's disk: carries out what a stack asks of its log, and makes sure that acknowledged means durable.

Effects after a `Persist` wait until its packets are on stable storage. The store syncs in a thread of its own, so the
loop keeps reading meanwhile, and everything that comes in that time is the next transaction (group commit). If the
store fails, nothing more is accepted or acknowledged; what it holds is still served.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from time import monotonic_ns, time_ns
from typing import Any, TypeVar

from gossamer.core.effects import (
    Collect,
    Deliver,
    Effect,
    ForgetCollected,
    ForgetSender,
    HandLetter,
    PastKnown,
    Persist,
    Replay,
    ReportLost,
    ReserveNumbers,
    TakeBack,
    TellHoldings,
    Unicast,
)
from gossamer.core.inputs import Committed, DamageFound, Input, LogSpan, Started
from gossamer.core.letters import Letter, LetterSeen
from gossamer.core.messages import Ack, Echo, Holdings, NeverSent, Repair, SeenReport, ViewUpdate
from gossamer.core.packet_sets import Horizon, PacketSets
from gossamer.core.packets import Packet
from gossamer.core.ranges import RangeSet
from gossamer.live.collecting import Collecting
from gossamer.store.contract import Damaged, LogEntry, LogStore, StoreDamaged, StoreError

CONSUMERS_POLL_S = 1.0
_KEEP_TIME_NS = 60 * 10**9
"""How often the service time is recorded: a crash makes packets younger by no more than this."""
_CLOCK_SET_NS = 10**9
"""A clock that is off by more than this was set."""
_DAMAGED_MAX = 1000
"""A store in which more packets than this are damaged has failed."""
_STRETCHES = 500
"""When a store is opened, it is split into about this many parts to look up how old each is."""
_SERVED = (Replay, TellHoldings, PastKnown, HandLetter, Deliver, ReportLost, TakeBack, ForgetSender)
"""What a logger does for others that claims nothing new of its log, besides what it sends."""


T = TypeVar("T")
_Commits = dict[str, tuple[Horizon, list[Callable[[], None]]]]
"""By consumer: its positions, and what to call when they are durable."""


class LogDisk:
    """A store, and the effects that wait for it."""

    def __init__(
        self,
        store: LogStore,
        *,
        travelled: Callable[[Packet], bytes],
        carry_out: Callable[[list[Effect]], None],
        happened: Callable[[Input], None],
        now: Callable[[], float],
    ) -> None:
        """`now` is the stack's clock."""
        self.store = store
        self.failure = ""
        """Why nothing more is accepted; empty while all is well."""
        self.is_closed = False
        """Whether the logger has stopped."""
        self.noted: Callable[[str, int, int], None] | None = None
        """Called with each packet that enters (`store`) or leaves (`collect`) the log, if somebody wants to know."""
        self.appended = 0
        self.damaged = 0
        self._travelled = travelled
        self._carry_out = carry_out
        self._happened = happened
        self._now = now
        self._service = store.service_time()
        self._run = monotonic_ns()  # when the run of the service time began
        self._shift = 0  # by how much the wall clock was ahead of the monotonic one then
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="gossamer-log")
        self._loop = asyncio.get_running_loop()
        self._tables = threading.Lock()  # the thread and the loop take turns to write
        self._waiting: deque[Effect] = deque()
        self._busy = False
        self._committed = Committed({})
        self._commits: _Commits = {}
        self._committing = False
        self._collecting = Collecting(store, self._thread, self._tables, self._has_gone, self._fail)
        self._idle = asyncio.Event()
        self._idle.set()
        self._polling = self._loop.call_later(CONSUMERS_POLL_S, self._poll_consumers)

    def started(self) -> Started:
        """What the store remembers; from now on it is in service."""
        remembered = Started(
            {},
            reserved=self.store.reserved(),
            logged=self.store.held(),
            collected=self.store.collected(),
            stored=self._stored(),
        )
        self._begin_run()
        return remembered

    def committed(self) -> Committed:
        """What durable readers have finished with; they commit from other processes."""
        return Committed({c.name: dict(c.committed) for c in self.store.consumers()})

    def commit(self, consumer: str, positions: Horizon, done: Callable[[], None]) -> None:
        """Record how far a durable subscriber is; `done` is called when that is durable, and not if the log has failed.

        What comes while one is being written is written together with it, so that the log itself has to wait but once.
        """
        if self.failure:
            return
        known, waiting = self._commits.setdefault(consumer, ({}, []))
        for sender, last in positions.items():
            known[sender] = max(last, known.get(sender, -1))
        waiting.append(done)
        self._write_commits()

    def _write_commits(self) -> None:
        if not self._commits or self._committing or self.is_closed or self.failure:
            return
        commits, self._commits = self._commits, {}
        self._committing = True
        writing = self._loop.run_in_executor(self._thread, self._store_commits, commits)
        writing.add_done_callback(lambda written: self._commits_written(written, commits))

    def _store_commits(self, commits: "_Commits") -> None:
        with self._tables:
            for consumer, (positions, _) in commits.items():
                self.store.commit(consumer, positions)

    def _commits_written(self, written: "asyncio.Future[None]", commits: "_Commits") -> None:
        self._committing = False
        try:
            written.result()
        except StoreError as error:
            return self._fail(str(error))
        for _, waiting in commits.values():
            for done in waiting:
                done()
        self._write_commits()
        return None

    def keep_names(self, names: dict[int, str]) -> None:
        """Record what senders are called; a store that cannot has other worries. Any thread may call it."""
        with suppress(StoreError), self._tables:
            self.store.keep_names(names)

    async def in_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        """Do something with the store that may take long, in turn with what is written."""
        if self.is_closed:
            raise StoreError("the log is closed")
        return await self._loop.run_in_executor(self._thread, work, *arguments)

    def stats(self) -> dict[str, Any]:
        """Why it refuses packets, if it does; how many it wrote, how many it found damaged, and how much it holds."""
        return {
            "refusing": self.failure,
            "appended": self.appended,
            "damaged": self.damaged,
            "bytes": self.store.bytes_used(),
        }

    def takes(self, effects: list[Effect]) -> bool:
        """Take these effects, in order, if they have to be written or have to wait; returns whether they were taken.

        A report to a sender's pace claims nothing of the log, and does not wait for it: else a disk that is busy would
        look like a path that is full, and the sender would go at its pace.
        """
        if not self._busy and not any(isinstance(effect, Persist) for effect in effects):
            return False
        self._waiting.extend([effect for effect in effects if not _is_report(effect)])
        if reports := [effect for effect in effects if _is_report(effect)]:
            self._carry_out(reports)
        if not self._busy:
            self._go_on()
        return True

    def carry_out(self, effect: Effect) -> None:
        """Carry out one effect that concerns the log and need not wait."""
        if isinstance(effect, Collect | ForgetCollected):
            self._collecting.add(effect)
        elif isinstance(effect, ReserveNumbers):
            try:
                with self._tables:
                    self.store.reserve(effect.below)
            except StoreError as error:
                self._fail(str(error))

    def read(self, effect: Replay) -> list[LogEntry]:
        """The requested entries that are intact. Of the others the stack is told, so that nobody waits for them."""
        found: list[LogEntry] = []
        parts = [(effect.first, effect.last)]
        while parts:
            first, last = parts.pop()
            try:
                for entry in self.store.read(effect.sender, first, last):
                    found.append(entry)
                    first = entry.seqno + 1
            except Damaged as bad:
                self._drop(bad, effect.to)
                parts.append((bad.seqno + 1, last))
            except StoreDamaged as error:
                self._fail(str(error))
                if first < last:  # some of it may be elsewhere in the file
                    middle = (first + last) // 2
                    parts += [(middle + 1, last), (first, middle)]
            except StoreError:  # too many readers, for example: whoever asked will ask again
                return found
        if len(found) <= effect.last - effect.first:
            self._report_unread(effect, found)
        return found

    def _drop(self, bad: Damaged, asked_by: int) -> None:
        """Make room for the copy of another logger; but a store with much damage has failed, and takes no copies."""
        self.damaged += 1
        if self.damaged > _DAMAGED_MAX:
            self._fail(f"{bad}; so are {self.damaged - 1} others")
        if self.failure:
            return
        try:
            with self._tables:
                self.store.drop(bad.sender, bad.seqno)
            if self.noted is not None:
                self.noted("collect", bad.sender, bad.seqno)
        except StoreError as error:
            self._fail(str(error))
        self._happened(DamageFound(bad.sender, bad.seqno, bad.seqno, asked_by))

    def _report_unread(self, effect: Replay, found: list[LogEntry]) -> None:
        """What the store says that it holds, and does not find, is damaged, and so is whatever should lead to it."""
        held = self.store.held([effect.sender]).get(effect.sender, RangeSet())
        unread = RangeSet(held.within(effect.first, effect.last))
        for entry in found:
            unread.discard(entry.seqno)
        if unread and not self.failure:
            self._fail(f"damaged: {len(unread)} packets of sender {effect.sender} are not where they should be")
        for first, last in unread.ranges():
            self._happened(DamageFound(effect.sender, first, last, effect.to))

    def holdings(self, effect: TellHoldings) -> PacketSets:
        """The packets in the store that were stored since the time asked about."""
        held = self.store.held()
        if effect.since_ns <= 0:
            return held
        return {s: RangeSet(some) for s, n in held.items() if (some := self._since(s, n, effect.since_ns))}

    async def close(self) -> None:
        """Wait for what is being written, and close the store. What was not said to be kept is told again."""
        self._polling.cancel()
        await self._idle.wait()
        self.is_closed = True
        self._collecting.end()
        self._keep_time()
        self._thread.shutdown()
        self.store.close()

    # Writing.

    def _go_on(self) -> None:
        """Carry out the effects that wait, up to the next packets that have to be written first."""
        ready: list[Effect] = []
        while self._waiting and not isinstance(self._waiting[0], Persist):
            ready.append(self._waiting.popleft())
        if self._waiting:
            self._write()
        else:
            self._busy = False
            self._idle.set()
        if ready:
            self._carry_out(ready)

    def _write(self) -> None:
        """Write all packets that wait, wherever they are in the queue, in one transaction."""
        self._busy = True
        self._idle.clear()
        self._follow_clock()
        now = time_ns()
        entries: list[LogEntry] = []
        others: deque[Effect] = deque()
        instead: set[tuple[int, int]] = set()
        for effect in self._waiting:
            if isinstance(effect, Persist):
                if effect.instead:
                    instead.update((packet.sender, packet.seqno) for packet in effect.run)
                    entries = [entry for entry in entries if (entry.sender, entry.seqno) not in instead]
                entries += [LogEntry(p.sender, p.seqno, now, self._travelled(p)) for p in effect.run]
            else:
                others.append(effect)
        self._waiting = others
        behind = len(others)
        writing = self._loop.run_in_executor(self._thread, self._append, entries, sorted(instead))
        writing.add_done_callback(lambda done: self._written(done, entries, behind))

    def _append(self, entries: list[LogEntry], instead: list[tuple[int, int]]) -> None:
        with self._tables:
            for packet in instead:
                self.store.drop(*packet)
            self.store.append(entries)

    def _written(self, done: "asyncio.Future[None]", entries: list[LogEntry], behind: int) -> None:
        try:
            done.result()
        except StoreError as error:
            return self._fail(str(error))
        self.appended += len(entries)
        if self.noted is not None:
            for entry in entries:
                self.noted("store", entry.sender, entry.seqno)
        ready = _acknowledged_at_once([self._waiting.popleft() for _ in range(behind)])
        if self._waiting:
            self._carry_out_then_go_on(ready)
        else:
            self._busy = False
            self._idle.set()
            self._carry_out(ready)
        return None

    def _carry_out_then_go_on(self, ready: list[Effect]) -> None:
        self._carry_out(ready)
        self._go_on()

    def _fail(self, reason: str) -> None:
        """What could not be stored was not acknowledged, and will not be: drop all effects that rely on it."""
        self.failure = self.failure or reason
        self._waiting.clear()
        self._busy = False
        self._idle.set()

    def _has_gone(self, sender: int, seqno: int) -> None:
        if self.noted is not None:
            self.noted("collect", sender, seqno)

    # Reading.

    def _since(self, sender: int, numbers: RangeSet, since_ns: int) -> list[tuple[int, int]]:
        """The parts of `numbers` that were stored since then; a sender's packets are stored roughly in order."""
        return [
            (max(first, start), last)
            for first, last in numbers.ranges()
            if (start := self._first(sender, first, last, since_ns)) <= last
        ]

    def _first(self, sender: int, first: int, last: int, since_ns: int) -> int:
        """The first number of `first..last` stored since then, by binary search; beyond `last` if there is none."""
        end = last + 1
        while first < end:
            middle = (first + end) // 2
            if self._time_of(sender, middle) >= since_ns:
                end = middle
            else:
                first = middle + 1
        return first

    def _time_of(self, sender: int, seqno: int) -> int:
        try:
            return next((entry.time_ns for entry in self.store.read(sender, seqno, seqno)), 0)
        except StoreError:
            return 0

    def _poll_consumers(self) -> None:
        self._polling = self._loop.call_later(CONSUMERS_POLL_S, self._poll_consumers)
        if not self.failure:
            self._follow_clock()
            if monotonic_ns() - self._run > self._service.runs[-1].lasted_ns + _KEEP_TIME_NS:
                self._keep_time()
            try:
                committed = self.committed()
            except StoreDamaged as error:
                return self._fail(str(error))
            except StoreError:
                return None  # it is there the next time
            if committed != self._committed:
                self._collecting.begin()
            self._committed = committed
            self._happened(committed)
        return None

    def _stored(self) -> list[LogSpan]:
        """Roughly when the held packets were stored, and their size: from a sample, however large the store is."""
        held = self.store.held()
        count = sum(map(len, held.values()))
        step = max(1, count // _STRETCHES)
        size = self.store.bytes_used() // max(1, count)
        now = self._now()
        stretches = [
            LogSpan(now - self._age_s(sender, last), sender, last, size * (last - first + 1))
            for sender, numbers in held.items()
            for start, end in numbers.ranges()
            for first in range(start, end + 1, step)
            for last in [min(end, first + step - 1)]
        ]
        return sorted(stretches)

    # Time.

    def _age_s(self, sender: int, seqno: int) -> float:
        """How old a packet was when the store was last in service; one that cannot be read is new."""
        stamp = self._time_of(sender, seqno)
        return self._service.age_ns(stamp) / 1e9 if stamp else 0.0

    def _follow_clock(self) -> None:
        """If somebody has set the clock, stamps have another meaning from now on."""
        if abs(time_ns() - monotonic_ns() - self._shift) > _CLOCK_SET_NS:
            self._keep_time()
            self._begin_run()

    def _begin_run(self) -> None:
        self._run = monotonic_ns()
        self._shift = time_ns() - self._run
        self._service.begin(time_ns())
        self._keep_time()

    def _keep_time(self) -> None:
        """Record how long this run has lasted; a store that cannot takes packets for younger than they are."""
        if self._service.runs and not self.failure:
            self._service.lasts(monotonic_ns() - self._run)
            with suppress(StoreError), self._tables:
                self.store.keep_service_time(self._service)


def _acknowledged_at_once(effects: list[Effect]) -> list[Effect]:
    """The same effects with one acknowledgement to each member, since all of them wait for the same transaction."""
    first: dict[int, PacketSets] = {}
    merged: list[Effect] = []
    for effect in effects:
        if isinstance(effect, Unicast) and isinstance(effect.message, Ack):
            have = first.setdefault(effect.to, effect.message.have)
            if have is not effect.message.have:
                for sender, numbers in effect.message.have.items():
                    have.setdefault(sender, RangeSet()).update(numbers)
                continue
        merged.append(effect)
    return merged


def _is_report(effect: Effect) -> bool:
    return type(effect) is Unicast and type(effect.message) is SeenReport


def only_serving(effects: list[Effect]) -> list[Effect]:
    """These effects but for those that write to a log that has failed, or claim anything that should be in it.

    Such a logger sponsors nobody. But it says who is there, or a newcomer would found a group without loggers; and it
    answers letters, or readers would wait for it: what is in them claims nothing that is not in the log.
    """
    served: list[Effect] = []
    for effect in effects:
        if isinstance(effect, Unicast):
            message = effect.message
            if isinstance(message, ViewUpdate):
                served.append(Unicast(effect.to, ViewUpdate(message.entries, answer=message.answer)))
            elif isinstance(message, Repair | Holdings | Echo | NeverSent | Letter | LetterSeen):
                served.append(effect)
        elif isinstance(effect, _SERVED):
            served.append(effect)
    return served
