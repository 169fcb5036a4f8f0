"""Every preset in real groups: real processes on a real network that loses 5%, a kill, a stop of 3 s, a late joiner.

The publisher is on node 0, and so is the logger if there is one; the others are on nodes of their own. A subscriber
says what it heard in pieces (see `test_namespace`): numbers without a gap, and the reason of a loss where there was
one.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from subprocess import Popen
from tempfile import TemporaryDirectory
from time import sleep
from typing import Any

import pytest

import gossamer
from gossamer.live.logger_group import logger
from tests.live.members import PATIENCE_S, settings
from tests.live.test_namespace import Pieces, add, hear, say
from tests.netns import Network, Unavailable

NODES = 5
RATE = 600
SECONDS = 7.0
EVENTS = int(RATE * SECONDS)
KINDS = [
    *(("rpbcast", logged) for logged in (False, True)),
    *(("pbcast", logged) for logged in (False, True)),
    ("lbrm", True),
    *(("basic", logged) for logged in (False, True)),
    *(("redelivery", logged) for logged in (False, True)),
    *(("srm", logged) for logged in (False, True)),
]


@pytest.fixture
def network() -> Iterator[Network]:
    try:
        with Network(NODES) as network:
            network.lose(5)
            yield network
    except Unavailable as reason:
        pytest.skip(f"NO REAL NETWORK TESTED: {reason}")


# What runs on the nodes.


def publish(made: str, members: str) -> None:
    """Wait for so many members and a line; publish; say what is stable; stay until the end of the input."""

    async def story() -> None:
        async with gossamer.join("presets", gossamer.Settings(**json.loads(made))) as group:
            while len(group.members()) < int(members):
                await asyncio.sleep(0.05)
            say("ready")
            await asyncio.to_thread(sys.stdin.readline)
            for n in range(EVENTS):
                await group.publish_wait("n", b"%d" % n)
                if n % 10 == 9:
                    await asyncio.sleep(10 / RATE)
            await group.flush()
            say("published")
            await asyncio.to_thread(sys.stdin.read)

    asyncio.run(story())


def subscribe(made: str) -> None:
    """Hear everything from the first event on up to the last number; say it in pieces."""

    async def story() -> None:
        async with gossamer.join("presets", gossamer.Settings(**json.loads(made))) as group:
            heard = group.subscribe(">")
            say("ready")
            pieces: Pieces = []
            with suppress(TimeoutError):
                async with asyncio.timeout(PATIENCE_S):
                    async for item in heard:
                        add(pieces, item)
                        if isinstance(pieces[-1], list) and pieces[-1][1] == EVENTS - 1:
                            break
            say(pieces)
            say({"lost": group.stats()["lost"], "missing": group.stats()["missing"]})
            await asyncio.to_thread(sys.stdin.read)

    asyncio.run(story())


def log(made: str, folder: str) -> None:
    """A logger, until the end of the input."""

    async def story() -> None:
        async with logger("presets", Path(folder), gossamer.Settings(**json.loads(made))):
            say("ready")
            await asyncio.to_thread(sys.stdin.read)

    asyncio.run(story())


def be_quiet(made: str, seconds: str) -> None:
    """A member that does nothing but publish now and then; says how often it suspected somebody."""

    async def story() -> None:
        async with gossamer.join("presets", gossamer.Settings(**json.loads(made))) as group:
            say("ready")
            await asyncio.to_thread(sys.stdin.readline)
            for _ in range(int(seconds)):
                group.publish("n", b"alive")
                await asyncio.sleep(1.0)
            say(group.stats()["suspicions"])
            await asyncio.to_thread(sys.stdin.read)

    asyncio.run(story())


# The stories.


class Scene:
    """A publisher, three subscribers, perhaps a logger; all in one group."""

    def __init__(self, network: Network, protocol: str, folder: str, *, logged: bool) -> None:
        self.network = network
        self._protocol = protocol
        if logged:
            assert hear(self.start(0, log, folder)) == "ready"
        self.steady, self.stopped, self.killed = (self.start(node, subscribe) for node in (1, 2, 3))
        assert [hear(child) for child in (self.steady, self.stopped, self.killed)] == ["ready"] * 3
        self.publisher = self.start(0, publish, str(4 + logged))
        assert hear(self.publisher) == "ready"

    def start(self, node: int, role: Any, *arguments: str) -> Popen[str]:
        made = {"interface": self.network.nodes[node].address, "insecure": True, "protocol": self._protocol}
        return self.network.start(node, role, json.dumps(made), *arguments)

    def go(self) -> None:
        assert self.publisher.stdin is not None
        self.publisher.stdin.write("go\n")
        self.publisher.stdin.flush()


def in_order(pieces: Pieces) -> bool:
    """Numbers only grow, and no gap is without a word."""
    runs = [piece for piece in pieces if isinstance(piece, list)]
    said = all(isinstance(a, str) or isinstance(b, str) for a, b in pairwise(pieces))
    return runs == sorted(runs) and said


@pytest.mark.parametrize(("protocol", "logged"), KINDS, ids=[f"{name}{'+logger' * logged}" for name, logged in KINDS])
def test_a_kill_a_stop_and_a_late_joiner_lose_nothing_silently(network: Network, protocol: str, logged: bool):
    with TemporaryDirectory(prefix="gossamer-") as folder:
        scene = Scene(network, protocol, folder, logged=logged)
        scene.go()
        sleep(0.7)
        scene.killed.kill()
        sleep(0.5)
        scene.stopped.send_signal(signal.SIGSTOP)
        late = scene.start(4, subscribe)
        sleep(3.0)
        scene.stopped.send_signal(signal.SIGCONT)
        assert hear(late) == "ready"
        assert hear(scene.publisher) == "published"
        for child in (scene.steady, scene.stopped, late):
            pieces, ledger = hear(child), hear(child)
            assert in_order(pieces), pieces
            assert pieces[-1][-1] == EVENTS - 1, pieces
            assert ledger["missing"] == 0
            if child is not late:
                assert pieces == [[0, EVENTS - 1]], pieces  # peers or the logger keep more than that
            else:
                assert len(pieces) == 1, pieces
                assert 0 < pieces[0][0] < EVENTS - 1


@pytest.mark.soak
@pytest.mark.parametrize("protocol", ["rpbcast", "pbcast", "lbrm", "basic", "srm"])
def test_nobody_suspects_a_healthy_member_on_a_busy_machine(protocol: str):
    """Twelve members for a minute, beside two loops that take all that they can get."""
    place = {"address": settings().address, "protocol": protocol}
    script = "import ctypes, signal, sys; ctypes.CDLL(None).prctl(1, signal.SIGKILL); "
    script += "from tests.live.test_presets import be_quiet; be_quiet(*sys.argv[1:])"
    line = [sys.executable, "-c", script, json.dumps(place), "60"]
    pipe = subprocess.PIPE
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    children = [Popen(line, stdin=pipe, stdout=pipe, text=True, env=environment) for _ in range(12)]
    busy = [Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        assert [hear(child) for child in children] == ["ready"] * 12
        for child in children:
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
        assert [hear(child) for child in children] == [0] * 12
    finally:
        for child in [*children, *busy]:
            child.kill()
            child.communicate()
