"""One process of the live benchmarks: a publisher, a subscriber or a logger of one system, told what to do by lines.

The parent writes orders as lines of JSON to standard input and reads reports as lines of JSON from standard output, so
a worker can run in any network namespace. The same loop, the same payloads and the same check serve every system: only
`send_many`, `send` and `receive` differ (`live_systems.py`). A worker whose parent is gone reads the end of its input
and exits, or the kernel kills it if it waits elsewhere; one that hangs is killed by its own alarm.

    python benchmarks/live_worker.py publisher|subscriber|logger PLAN_AS_JSON
"""

import asyncio
import ctypes
import gc
import json
import os
import signal
import sys
from dataclasses import asdict, dataclass
from time import monotonic_ns, process_time_ns
from typing import Any

import numpy as np

CHUNK = 1_000
"""Events that are handed over at once where a system accepts many."""
WARM = b"\xff" * 8
"""In place of the number: marks a warm-up event, which only shows that events get through."""
END = 1 << 63
"""Added to the number of the first event after a round: nothing of the round will come after this one."""
CLOCK_MONOTONIC = 1
PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Plan:
    """What a worker must know before it opens its sockets."""

    system: str
    host: str
    """Where the publisher, or the server, listens."""
    port: int
    interface: str
    """The worker's own address."""
    size: int
    paced: bool
    """Latency: events are sent one by one and received one by one."""
    loop: str
    """The event loop of the asyncio systems: asyncio or uvloop."""
    key: str
    """The group's key, for systems that seal."""
    limit_s: int
    """The worker ends itself after this time."""
    parent: int
    """The process id of the parent; the worker ends with it."""

    def dump(self) -> str:
        """As one argument of a command line."""
        return json.dumps(asdict(self))


def make_payloads(first: int, count: int, size: int) -> list[list[bytes]]:
    """Numbered events in chunks: the number in 8 bytes, room for a time stamp in the next 8, then noise."""
    noise = np.random.default_rng(1).integers(0, 256, size, np.uint8)
    chunks = []
    for start in range(first, first + count, CHUNK):
        numbers = np.arange(start, min(start + CHUNK, first + count), dtype="<u8")
        block = np.tile(noise, (len(numbers), 1))
        block[:, :8] = numbers.view(np.uint8).reshape(-1, 8)
        data = block.tobytes()
        chunks.append([data[at : at + size] for at in range(0, len(data), size)])
    gc.freeze()  # the garbage collector should not scan the benchmark's own data
    return chunks


def is_event(payload: bytes) -> bool:
    """Whether it has a number, or is only a mark."""
    return payload[7] < 0x80


class Tally:
    """Counts and checks what a subscriber hears: every number once, in order, every payload complete."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.warm = False
        self.expected = 0
        self._last_ns = 0
        self.begin(0, 0)

    def begin(self, first: int, count: int) -> None:
        """Start a new round; forgets the last one, but not events of the new one that came early."""
        self.first, self.end = first, first + count
        self.expected = max(first, self.expected)
        self.wrong = self.skipped = self.finished = 0
        self._kept: list[tuple[list[bytes], int]] = []

    @property
    def missing(self) -> int:
        """How many events of this round have not come yet."""
        return self.end - self.expected

    def take(self, payloads: list[bytes]) -> None:
        """Check a batch as soon as it comes."""
        table = np.frombuffer(b"".join(payloads), "<u8").reshape(len(payloads), self.size // 8)
        numbers = table[:, 0]
        first, count = self.expected, len(numbers)
        if numbers[0] == first and (numbers == np.arange(first, first + count, dtype=np.uint64)).all():
            self.expected = first + count
        else:
            self._take_slowly(numbers.tolist())
        if self.expected >= self.end and not self.finished:
            self.finished = monotonic_ns()
        self._last_ns = monotonic_ns()

    def keep(self, payloads: list[bytes], now: int) -> None:
        """Latency: remember when a batch came; the check waits until the round is over."""
        self._kept.append((payloads, now))
        self.expected += sum(1 for p in payloads if is_event(p))
        if any(p[:8] == (END + self.end).to_bytes(8, "little") for p in payloads):
            self.expected = self.end  # what is missing is counted later

    def _take_slowly(self, numbers: list[int]) -> None:
        for number in numbers:
            if number == 2**64 - 1:
                self.warm = True
            elif number >= END:
                self._ended(number - END)
            elif number >= self.expected:
                self.skipped += number - self.expected
                self.expected = number + 1
            else:
                self.wrong += 1

    def _ended(self, end: int) -> None:
        if self.first < end <= self.end and not self.finished:  # another round's end may come late
            self.skipped += end - self.expected
            self.end = self.expected = end
            self.finished = self._last_ns  # not when the mark came, which was late

    def report(self) -> dict[str, Any]:
        """What the parent wants to know about the round."""
        latency = self._latency() if self._kept else {}
        return {"finished": self.finished, "wrong": self.wrong, "skipped": self.skipped, **latency}

    def _latency(self) -> dict[str, float]:
        """Check the batches that were kept, from the first number on; returns how old events were when they came."""
        self.expected = self.first
        delays: list[int] = []
        for batch, now in self._kept:
            self.take(batch)
            delays += [now - int.from_bytes(p[8:16], "little") for p in batch if is_event(p)]
        p50, p99, most = np.percentile(delays, [50, 99, 100]) / 1e3
        return {"p50_us": float(p50), "p99_us": float(p99), "max_us": float(most)}


class Pacer:
    """A kernel timer, precise to microseconds; asyncio's own sleeps are precise only to a millisecond."""

    def __init__(self, rate: float) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.timerfd_create(CLOCK_MONOTONIC, os.O_NONBLOCK)
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        seconds, nanoseconds = divmod(int(1e9 / rate), 10**9)
        times = (ctypes.c_long * 4)(seconds, nanoseconds, seconds, nanoseconds)
        libc.timerfd_settime(self._fd, 0, ctypes.byref(times), None)
        self._due = 0
        self._ticked = asyncio.Event()
        asyncio.get_running_loop().add_reader(self._fd, self._tick)

    def _tick(self) -> None:
        self._due += int.from_bytes(os.read(self._fd, 8), sys.byteorder)
        self._ticked.set()

    async def due(self) -> int:
        """Wait for the next tick; returns how many have passed since the last call."""
        await self._ticked.wait()
        self._ticked.clear()
        due, self._due = self._due, 0
        return due

    def close(self) -> None:
        """Close the timer."""
        asyncio.get_running_loop().remove_reader(self._fd)
        os.close(self._fd)


def say(**report: Any) -> None:
    """One line to the parent."""
    sys.stdout.write(json.dumps(report) + "\n")
    sys.stdout.flush()


async def next_order() -> dict[str, Any] | None:
    """One line from the parent; None at the end. Read in a thread, so that the system's own loop keeps running."""
    line = await asyncio.to_thread(sys.stdin.readline)
    return json.loads(line) if line else None


async def publish(publisher: Any, plan: Plan) -> None:
    """Carry out orders: a warm-up event; events as fast as they are accepted, many at once or lone; or paced ones."""
    say(ready=True)
    while (order := await next_order()) is not None:
        if order["kind"] == "warm":
            await publisher.send_many([WARM + bytes(plan.size - 8)])
            continue
        if order["kind"] == "end":
            await publisher.send_many([(END + order["first"]).to_bytes(8, "little") + bytes(plan.size - 8)])
            continue
        chunks = make_payloads(order["first"], order["count"], plan.size)
        started, cpu = monotonic_ns(), process_time_ns()
        if order["kind"] == "paced":
            await _publish_paced(publisher, [payload for chunk in chunks for payload in chunk], order["rate"])
            count = order["count"]
        elif order["kind"] == "lone":
            await _publish_lone(publisher, [payload for chunk in chunks for payload in chunk])
            count = order["count"]
        else:
            count = await _publish_burst(publisher, chunks, started + int(order["limit_s"] * 1e9))
        ended = monotonic_ns()
        await publisher.sent()
        say(count=count, started=started, ended=ended, cpu=process_time_ns() - cpu, stats=publisher.stats())


async def _publish_burst(publisher: Any, chunks: list[list[bytes]], until: int) -> int:
    """Publish as fast as possible, but not for ever; returns how many were published."""
    count = 0
    for chunk in chunks:
        await publisher.send_many(chunk)
        count += len(chunk)
        if monotonic_ns() > until:
            break
    return count


async def _publish_lone(publisher: Any, payloads: list[bytes]) -> None:
    """Publish one event in each turn of the loop, as an application does that has something to say now and then."""
    for payload in payloads:
        await publisher.send(payload)
        await asyncio.sleep(0)


async def _publish_paced(publisher: Any, payloads: list[bytes], rate: float) -> None:
    """Publish at this rate; each event is stamped when it is handed over."""
    pacer = Pacer(rate)
    at = 0
    try:
        while at < len(payloads):
            due = await pacer.due()
            for payload in payloads[at : at + due]:
                await publisher.send(payload[:8] + monotonic_ns().to_bytes(8, "little") + payload[16:])
            at += due
    finally:
        pacer.close()


async def subscribe(subscriber: Any, plan: Plan) -> None:
    """Wait for a warm-up event, then count and check round after round."""
    tally = Tally(plan.size)
    say(ready=True)
    while not tally.warm:
        tally.take(await subscriber.receive(1))
    say(heard=True)
    while (order := await next_order()) is not None:
        tally.begin(order["first"], order["count"])
        cpu = process_time_ns()
        while (missing := tally.missing) > 0:
            if plan.paced:
                tally.keep(*_stamped(await subscriber.receive(1)))
            else:
                tally.take(await subscriber.receive(min(CHUNK, missing)))
        cpu = process_time_ns() - cpu
        say(**tally.report(), cpu=cpu, stats=subscriber.stats())


def _stamped(payloads: list[bytes]) -> tuple[list[bytes], int]:
    return payloads, monotonic_ns()


async def serve(logger: Any, plan: Plan) -> None:
    """Nothing to do but to be there."""
    say(ready=True)
    while await next_order() is not None:
        pass


async def work(role: str, plan: Plan) -> None:
    """Open the system's end, serve, close."""
    from live_systems import SYSTEMS

    system = SYSTEMS[plan.system]
    opened = {"publisher": system.publisher, "subscriber": system.subscriber, "logger": system.logger}[role]
    assert opened is not None
    async with opened(plan) as end:
        await {"publisher": publish, "subscriber": subscribe, "logger": serve}[role](end, plan)


def main() -> None:
    """Serve until the input ends or the alarm rings."""
    role, plan = sys.argv[1], Plan(**json.loads(sys.argv[2]))
    signal.alarm(plan.limit_s)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != plan.parent:  # it was gone before the kernel was asked to watch it
        sys.exit("the parent is gone")
    if plan.loop == "uvloop":
        import uvloop

        uvloop.run(work(role, plan))
    else:
        asyncio.run(work(role, plan))


if __name__ == "__main__":
    main()
