"""What the tests of live groups share: a group of its own for each test, bad lines, real processes that end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import gossamer
from gossamer.live.group import Group
from gossamer.live.impair import ImpairedTransport, Impairments
from gossamer.live.transport import Endpoint

GROUP = f"group of process {os.getpid()}"
"""Tests run side by side; groups of other names do not hear each other, whatever their ports."""
PATIENCE_S = 60.0
_ports = count(20_000 + os.getpid() * 37 % 20_000)


def settings(**changes: Any) -> gossamer.Settings:
    """A group of its own for each test, in which each turn of the loop makes a packet of its own."""
    return gossamer.Settings(**{"address": f"239.192.77.7:{next(_ports)}", "coalesce_us": 0, **changes})


def run(story: Coroutine[Any, Any, None]) -> None:
    """To its end; nothing may fail behind its back."""

    async def watched() -> None:
        failures: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
        await asyncio.wait_for(story, 3 * PATIENCE_S)
        assert not failures

    asyncio.run(watched())


def impaired(seed: int, **chances: float) -> Callable[[Endpoint], ImpairedTransport]:
    """A line this bad."""
    return lambda endpoint: ImpairedTransport(endpoint).impair(Impairments(**chances), Random(seed))


@asynccontextmanager
async def joined(
    number: int, shared: gossamer.Settings, name: str = GROUP, others: int = 0, **chances: float
) -> AsyncIterator[list]:
    """So many members, all of whom know each other and as many others, each with a line this bad."""
    async with AsyncExitStack() as stack:
        groups = [
            await stack.enter_async_context(Group(name, shared, impaired(seed, **chances))) for seed in range(number)
        ]
        await until(lambda: all(len(group.members()) == number + others for group in groups))
        yield groups


async def until(condition: Callable[[], Any], patience_s: float = PATIENCE_S) -> None:
    """Wait until it is so; fails after a long while."""
    end = time.monotonic() + patience_s
    while not condition():
        assert time.monotonic() < end, "waited for in vain"
        await asyncio.sleep(0.005)


async def collect(subscription: gossamer.Subscription, wanted: int) -> list:
    """The first items, and no more than are wanted."""
    items: list = []
    while len(items) < wanted and (batch := await subscription.take()) is not None:
        items += batch
    assert len(items) <= wanted, f"{len(items)} items instead of {wanted}"
    return items


def payloads(items: list) -> list[bytes]:
    """Of events; a loss has none, and fails."""
    return [item.payload for item in items]


def hear_interrupts() -> None:
    """As a terminal would have it: who runs in the background inherits that interrupts are ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Process:
    """`gossamer ...` as a process of its own."""

    def __init__(self, place: gossamer.Settings, *words: str, environment: dict[str, str] | None = None) -> None:
        line = [sys.executable, "-m", "gossamer", *words, "--address", place.address]
        self.popen = subprocess.Popen(
            line,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **(environment or {})},
            preexec_fn=hear_interrupts,
        )

    def signal(self, number: signal.Signals) -> None:
        self.popen.send_signal(number)

    def rss_bytes(self) -> int:
        """How much memory it has now."""
        pages = int(Path(f"/proc/{self.popen.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def wait(self, patience_s: float = PATIENCE_S, last: bytes = b"") -> tuple[int, str, str]:
        """Exit code, output and errors; `last` ends its input."""
        out, err = self.popen.communicate(last, timeout=patience_s)
        return self.popen.returncode, (out or b"").decode(), (err or b"").decode()


@contextmanager
def processes() -> Iterator[Callable[..., Process]]:
    """Start as many as you like; they all end here."""
    started: list[Process] = []

    def start(place: gossamer.Settings, *words: str, **more: Any) -> Process:
        started.append(Process(place, *words, **more))
        return started[-1]

    try:
        yield start
    finally:
        for process in started:
            if process.popen.poll() is None:
                process.popen.kill()
            process.popen.communicate()


def lines(text: str) -> list[dict[str, Any]]:
    """What `--json` prints, one object a line."""
    return [json.loads(line) for line in text.splitlines()]
