"""A subscriber that was cut off for long catches up quickly with a logger, and no process stands still meanwhile.

A publisher, a logger and two subscribers, each a process on a node of its own; one of the subscribers is cut off.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from time import monotonic, sleep
from typing import Any

import pytest

import gossamer
from gossamer.live.logger_group import logger
from tests import netns
from tests.netns import Network, Unavailable, hear, say, tell

GROUP = "long partition"
SETTINGS = {"key": Random(1).randbytes(32).hex()}
BURST_S = 0.005
STALL_MAX_S = 0.1
ROLES = ("logger", "near", "far", "publisher")


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Iterator[Network]:
    """Four nodes, or a skip that says why there are none."""
    monkeypatch.setattr(netns, "CHILD_LIMIT_S", 400)
    try:
        with Network(4) as network:
            yield network
    except Unavailable as reason:
        pytest.skip(f"NO REAL NETWORK TESTED: {reason}")


# What runs on the nodes.


class Watch:
    """How long the loop of a process stood still at most since it was told to begin."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._task = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        while True:
            before = monotonic()
            await asyncio.sleep(0.002)
            self.longest_s = max(self.longest_s, monotonic() - before - 0.002)

    def since(self, line: str) -> float:
        self.longest_s = 0.0 if line == "begin" else self.longest_s
        return self.longest_s


async def obey(answer: Any) -> None:
    """Each line of input is answered, until the end of it."""
    while line := await asyncio.to_thread(sys.stdin.readline):
        say(answer(line.strip()))


def publish(settings: str, rate: str) -> None:
    """A steady rate until it is told to stop; answers with how much that was, and how long the loop stood still."""

    async def story() -> None:
        async with gossamer.join(GROUP, gossamer.Settings(**json.loads(settings))) as group:
            sent, stopped, watch = 0, False, Watch()

            async def send() -> None:
                nonlocal sent
                began = monotonic()
                while not stopped:
                    due = int((monotonic() - began) * int(rate))
                    for number in range(sent, due):
                        await group.publish_wait("n", b"%d" % number)
                    sent = max(sent, due)
                    await asyncio.sleep(BURST_S)

            def answer(line: str) -> Any:
                nonlocal stopped
                stopped = stopped or line == "stop"
                return sent, watch.since(line)

            while len(group.members()) < 4:
                await asyncio.sleep(0.05)
            sending = asyncio.create_task(send())
            await obey(answer)
            await sending

    asyncio.run(story())


def subscribe(settings: str) -> None:
    """Answers with the next number that it expects, how many were not as expected, and the longest stall."""

    async def story() -> None:
        async with gossamer.join(GROUP, gossamer.Settings(**json.loads(settings))) as group:
            expected, wrong, watch = 0, 0, Watch()

            async def read() -> None:
                nonlocal expected, wrong
                async for batch in group.subscribe(">").batches():
                    for at, item in enumerate(batch):
                        number = int(item.payload) if isinstance(item, gossamer.Event) else -1
                        wrong += number != expected
                        expected = number + 1
                        if at % 1000 == 0:  # or the application itself would stand in the way
                            await asyncio.sleep(0)

            reading = asyncio.create_task(read())
            await obey(lambda line: (expected, wrong, watch.since(line)))
            reading.cancel()

    asyncio.run(story())


def log(settings: str, store: str) -> None:
    async def story() -> None:
        async with logger(GROUP, Path(store), gossamer.Settings(**json.loads(settings))):
            watch = Watch()
            await obey(lambda line: watch.since(line))

    asyncio.run(story())


# What the test does with them.


def ask(child: Any, what: str = "how far") -> Any:
    tell(child, what)
    return hear(child)


def cut(network: Network, store: Path, rate: int, cut_s: float) -> dict[str, float]:
    """Cut one subscriber off for so long; what it took to catch up, and the longest stalls from the heal on."""

    def on(node: int) -> str:
        return json.dumps({"interface": network.nodes[node].address, **SETTINGS})

    children = [
        network.start(1, log, on(1), str(store)),
        network.start(2, subscribe, on(2)),
        network.start(3, subscribe, on(3)),
        network.start(0, publish, on(0), str(rate)),
    ]
    log_, near, far, publisher = children
    began = monotonic()
    while min(ask(near)[0], ask(far)[0]) < rate:  # on a busy machine it takes a while until all have joined
        assert monotonic() - began < 60, "does not begin"
        sleep(0.1)
    network.partition([0, 1, 2], [3])
    sleep(cut_s)
    missed = ask(publisher)[0] - ask(far)[0]
    network.heal()
    for child in children:
        ask(child, "begin")
    began = monotonic()
    while ask(far)[0] < ask(publisher)[0] - rate * 0.1:
        assert monotonic() - began < 2 * cut_s + 60, "does not catch up"
        sleep(0.1)
    seconds = monotonic() - began
    stalls = {name: ask(child)[-1] if child is not log_ else ask(log_) for name, child in _named(children)}
    sent = ask(publisher, "stop")[0]
    while min(ask(near)[0], ask(far)[0]) < sent:
        assert monotonic() - began < 3 * cut_s + 60, "the end never comes"
        sleep(0.1)
    assert ask(near)[1] == ask(far)[1] == 0, "nothing is lost, or out of order"
    return {"missed": missed, "seconds": seconds, "rate": missed / seconds, **stalls}


def _named(children: list[Any]) -> Iterator[tuple[str, Any]]:
    return zip(ROLES, children, strict=True)


@pytest.mark.soak
def test_a_long_partition_is_caught_up_at_half_the_live_rate_or_better_and_no_loop_stands_still(network, tmp_path):
    rate = 10_000
    result = cut(network, tmp_path, rate, 60.0)
    assert result["rate"] >= rate / 2
    assert max(result[name] for name in ROLES) <= STALL_MAX_S


def test_a_partition_with_a_logger_is_caught_up_at_half_the_live_rate_or_better(network, tmp_path):
    rate = 3_000
    result = cut(network, tmp_path, rate, 6.0)
    assert result["rate"] >= rate / 2
