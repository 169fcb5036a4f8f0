"""Cuts of any shape while loggers are killed and everybody is stopped: what was flushed is logged, all of it is heard.

A publisher that flushes all the time, a subscriber and one or two loggers, each a process on a node of its own.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from time import monotonic, sleep
from typing import Any

import pytest

import gossamer
from gossamer.live.logger_group import logger
from gossamer.store import open_store
from tests.live.test_long_partition import ask
from tests.netns import Network, Unavailable, hear, say

GROUP = "cut and killed"
OPEN = {"insecure": True}
SEALED = {"key": Random(1).randbytes(32).hex()}
PATIENCE_S = 30.0


@pytest.fixture
def network(loggers: int) -> Iterator[Network]:
    """A node for each process, or a skip that says why there are none."""
    try:
        with Network(2 + loggers) as network:
            yield network
    except Unavailable as reason:
        pytest.skip(f"NO REAL NETWORK TESTED: {reason}")


# What runs on the nodes.


def publish(settings: str) -> None:
    """Publish and flush until it is told to stop; then say who it is, how much that was, and what was confirmed."""

    async def story() -> None:
        async with gossamer.join(GROUP, gossamer.Settings(**json.loads(settings))) as group:
            stopped, sent = False, 0

            async def send() -> None:
                nonlocal sent
                while not stopped:
                    for _ in range(20):
                        await group.publish_wait("n", b"%d" % sent)
                        sent += 1
                    await group.flush(timeout=PATIENCE_S, copies=group.settings.copies)
                    await asyncio.sleep(0.005)

            while len(group.members()) < 3:
                await asyncio.sleep(0.05)
            sending = asyncio.create_task(send())
            await asyncio.to_thread(sys.stdin.readline)
            stopped = True
            await sending
            say([group.me, sent])
            await asyncio.to_thread(sys.stdin.read)

    asyncio.run(story())


def subscribe(settings: str) -> None:
    """Each line is answered with how many came as expected, and with the first item that did not."""

    async def story() -> None:
        async with gossamer.join(GROUP, gossamer.Settings(**json.loads(settings))) as group:
            heard, wrong = 0, ""

            async def read() -> None:
                nonlocal heard, wrong
                async for item in group.subscribe(">"):
                    as_expected = isinstance(item, gossamer.Event) and int(item.payload) == heard
                    heard += 1
                    wrong = wrong or ("" if as_expected else repr(item))

            reading = asyncio.create_task(read())
            say("ready")
            while await asyncio.to_thread(sys.stdin.readline):
                say([heard, wrong])
            reading.cancel()

    asyncio.run(story())


def log(settings: str, store: str) -> None:
    async def story() -> None:
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        async with logger(GROUP, Path(store), gossamer.Settings(**json.loads(settings))):
            say("ready")
            await stop.wait()

    asyncio.run(story())


# What the test does with them.


class Scene:
    """The processes, and whatever may happen to them."""

    def __init__(self, network: Network, stores: list[Path], trust: dict[str, Any], rng: Random) -> None:
        self._network, self._stores, self._trust, self._rng = network, stores, trust, rng
        self.loggers = [self._start_logger(at) for at in range(len(stores))]
        assert [hear(child) for child in self.loggers] == ["ready"] * len(stores)
        self.subscriber = network.start(1, subscribe, self._settings(1))
        assert hear(self.subscriber) == "ready"
        self.publisher = network.start(0, publish, self._settings(0))

    def _settings(self, node: int) -> str:
        shared = {"durable": True, "copies": len(self._stores), **self._trust}
        return json.dumps({"interface": self._network.nodes[node].address, **shared})

    def _start_logger(self, at: int) -> Any:
        return self._network.start(2 + at, log, self._settings(2 + at), str(self._stores[at]))

    def suffer(self) -> None:
        """One thing goes wrong, for a while or until the next heal."""
        rng, nodes = self._rng, list(range(2 + len(self._stores)))
        rng.shuffle(nodes)
        what = rng.choice(["cut", "deafen", "end", "stop"])
        if what == "cut":
            place = rng.randrange(1, len(nodes))
            self._network.partition(nodes[:place], nodes[place:])
        elif what == "deafen":
            self._network.deafen(*nodes[: rng.choice([1, 2])])
        elif what == "end":
            self._restart(rng.randrange(len(self.loggers)))
        else:
            self._pause(rng.choice([self.subscriber, *self.loggers]))
        sleep(rng.uniform(0.1, 2.0))
        if rng.random() < 0.7:
            self._network.heal()

    def _restart(self, at: int) -> None:
        self.loggers[at].send_signal(self._rng.choice([signal.SIGTERM, signal.SIGKILL]))
        self.loggers[at].wait()
        sleep(self._rng.random())
        self.loggers[at] = self._start_logger(at)

    def _pause(self, child: Any) -> None:
        os.kill(child.pid, signal.SIGSTOP)
        sleep(2 * self._rng.random())
        os.kill(child.pid, signal.SIGCONT)

    def end(self) -> tuple[int, int]:
        """The publisher and how many events it sent, once everything was heard and the loggers have ended."""
        self._network.heal()
        me, sent = ask(self.publisher, "stop")
        end = monotonic() + PATIENCE_S
        while (found := ask(self.subscriber))[0] < sent:
            assert monotonic() < end, f"{found} of {sent}"
            sleep(0.1)
        assert found == [sent, ""]
        for child in self.loggers:
            child.send_signal(signal.SIGTERM)
            child.wait()
        return me, sent


@pytest.mark.soak
@pytest.mark.parametrize("trust", [OPEN, SEALED], ids=["open", "sealed"])
@pytest.mark.parametrize("loggers", [1, 2])
@pytest.mark.parametrize("seed", range(5))
def test_what_was_flushed_is_logged_and_everything_is_heard(network, tmp_path, seed, loggers, trust):
    stores = [tmp_path / str(at) for at in range(loggers)]
    scene = Scene(network, stores, trust, Random(seed))
    end = monotonic() + 25.0
    while monotonic() < end:
        scene.suffer()
    me, sent = scene.end()
    assert sent > 0
    logged = []
    for store in stores:
        with open_store(store, readonly=True) as made:
            logged.append([entry.seqno for entry in made.read(me, 0, 1 << 60)])
    assert all(numbers == list(range(len(numbers))) and numbers for numbers in logged)
    assert len({len(numbers) for numbers in logged}) == 1, "each logger has everything, as `copies` says"
