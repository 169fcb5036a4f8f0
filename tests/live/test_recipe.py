"""The recipe of docs/operations.md: restart, upgrade and lose loggers under traffic, with nothing confirmed lost."""

from __future__ import annotations

import asyncio
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest

import gossamer
from gossamer.live.group import Group
from gossamer.live.probe import probe
from tests.live.logger_scene import disk_of, held, leave_room, logged, resize
from tests.live.members import GROUP, PATIENCE_S, Process, payloads, processes, run, settings, until

DOCUMENT = Path(__file__).parents[2] / "docs" / "operations.md"
LARGE_BYTES = 60_000
ROOM_KB = 1 << 20


def steps_of_the_recipe() -> list[str]:
    """The names of its steps, as they are in the document."""
    recipe = DOCUMENT.read_text().partition("### A recipe")[2].partition("\n## ")[0]
    return re.findall(r"^\d+\. \*\*(.+?)\*\*", recipe, flags=re.MULTILINE)


class Recipe:
    """A group under traffic, and what an operator does to its loggers."""

    def __init__(self, place: gossamer.Settings, disk: Path, start: Callable[..., Process], group: Group) -> None:
        self.confirmed: list[bytes] = []
        self.payload_bytes = 0
        self.done = False
        self._sent: list[bytes] = []
        self._place, self._disk, self._start_process, self._group = place, disk, start, group
        self._loggers: dict[str, Process] = {}
        self.steps: dict[str, Callable[[], Awaitable[None]]] = {
            "Start two loggers": self.start_two_loggers,
            "Look before you touch anything": self.look,
            "Restart or upgrade one logger": self.restart_one,
            "A logger crashed": self.crash,
            "All loggers are down": self.stop_all,
            "A disk is full": self.fill_a_disk,
            "A disk is lost": self.lose_a_disk,
            "Move a logger": self.move,
            "Check": self.check,
        }

    async def publish(self) -> None:
        """Publish and flush without end; what was confirmed is noted."""
        while not self.done:
            for _ in range(5):
                self._sent.append((b"%d" % len(self._sent)).ljust(self.payload_bytes))
                await self._group.publish_wait("n", self._sent[-1])
            await self._group.flush(copies=2)
            self.confirmed[:] = self._sent
            await asyncio.sleep(0.01)

    async def start_two_loggers(self) -> None:
        await self._start("one")
        await self._start("two")
        await until(lambda: len(self._group.loggers()) == 2)

    async def look(self) -> None:
        """What `gossamer stats --json` shows."""
        for _ in range(100):
            found = await self._probed()
            if len(found) == len(self._loggers) and not any(p["stats"]["log"]["refusing"] for p in found):
                return
        raise AssertionError(f"{len(found)} of {len(self._loggers)} loggers answer, and accept something")

    async def _probed(self) -> list[dict[str, Any]]:
        """What the loggers say of themselves."""
        return [p for p in await probe(GROUP, self._place, enough=5) if p["logger"]]

    async def restart_one(self) -> None:
        for name in list(self._loggers):
            await self._stop(name, signal.SIGTERM)
            await self._nothing_is_confirmed()
            await self._start(name)
            await self.look()

    async def crash(self) -> None:
        await self._stop("two", signal.SIGKILL)
        await self._nothing_is_confirmed()
        await self._start("two")

    async def stop_all(self) -> None:
        await self._stop("one", signal.SIGKILL)
        await self._stop("two", signal.SIGTERM)
        await self._nothing_is_confirmed()
        await self._start("two")
        await self._start("one")

    async def fill_a_disk(self) -> None:
        leave_room(self._disk, 64)
        self.payload_bytes = LARGE_BYTES
        while not any(logger["stats"]["log"]["refusing"] for logger in await self._probed()):
            pass  # either of them: they share the disk
        self.payload_bytes = 0
        await self._nothing_is_confirmed()
        resize(self._disk, ROOM_KB)
        for name in list(self._loggers):
            await self._stop(name, signal.SIGTERM)
            await self._start(name)

    async def lose_a_disk(self) -> None:
        await self._stop("two", signal.SIGKILL)
        shutil.rmtree(self._disk / "two")
        await self._nothing_is_confirmed()
        await self._start("two")
        await until(lambda: self._is_filled("two"))

    async def move(self) -> None:
        await self._start("three")
        await until(lambda: self._is_filled("three"))
        await self._stop("one", signal.SIGTERM)
        del self._loggers["one"]
        retiring = self._start_process(self._place, "logger", GROUP, "--store", str(self._disk / "one"), "--retire")
        assert (await asyncio.to_thread(retiring.wait))[0] == 0

    async def check(self) -> None:
        self.done = True
        await until(lambda: len(self.confirmed) == len(self._sent))
        await until(lambda: self._group.stats()["unlogged"] == 0)
        for name in self._loggers:
            await self._stop(name, signal.SIGTERM)
            store = self._disk / name
            command = [sys.executable, "-m", "gossamer", "log", "info", str(store), "--verify"]
            assert (await asyncio.to_thread(subprocess.run, command, capture_output=True)).returncode == 0
            assert logged(store, self._group.me) == self.confirmed

    def _is_filled(self, name: str) -> bool:
        return held(self._disk / name, self._group.me) >= held(self._disk / "one", self._group.me)

    async def _nothing_is_confirmed(self) -> None:
        """One flush may be on its way back."""
        await asyncio.sleep(0.1)
        before = len(self.confirmed)
        await asyncio.sleep(0.5)
        assert len(self.confirmed) <= before + 5

    async def _start(self, name: str) -> None:
        process = self._start_process(self._place, "logger", GROUP, "--store", str(self._disk / name))
        assert b"logging group" in await asyncio.to_thread(process.popen.stderr.readline)
        self._loggers[name] = process

    async def _stop(self, name: str, by: signal.Signals) -> None:
        self._loggers[name].signal(by)
        await asyncio.to_thread(self._loggers[name].popen.wait, PATIENCE_S)


async def _follow(names: list[str], disk: Path) -> list[bytes]:
    """Do these steps; returns what a subscriber has heard."""
    place = settings(durable=True, copies=2)
    async with AsyncExitStack() as stack:
        start = stack.enter_context(processes())
        group = await stack.enter_async_context(gossamer.join(GROUP, place))
        subscriber = await stack.enter_async_context(gossamer.join(GROUP, place))
        heard = subscriber.subscribe("n")
        recipe = Recipe(place, disk, start, group)
        await recipe.steps[names[0]]()
        publishing = asyncio.create_task(recipe.publish())
        for name in names[1:]:
            await until(lambda: recipe.confirmed)
            await recipe.steps[name]()
        await publishing
        items: list = []
        while len(items) < len(recipe.confirmed):
            items += await heard.take(PATIENCE_S) or []
        assert payloads(items) == recipe.confirmed
        return recipe.confirmed


def test_the_recipe_of_the_documents_loses_nothing_that_was_confirmed(tmp_path):
    async def story() -> None:
        assert len(await _follow(steps_of_the_recipe(), disk)) > 100

    with disk_of(tmp_path / "disk", ROOM_KB >> 10) as disk:
        run(story())


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_the_steps_of_the_recipe_may_be_taken_in_any_order(tmp_path, seed):
    first, *between, last = steps_of_the_recipe()
    once = "Move a logger"  # it leaves other names behind
    shuffled = Random(seed).choices([name for name in between if name != once], k=12)

    async def story() -> None:
        await _follow([first, *shuffled, once, last], disk)

    with disk_of(tmp_path / "disk", ROOM_KB >> 10) as disk:
        run(story())
