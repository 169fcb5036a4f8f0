"""A group without a logger is divided until its sides take each other for dead: it becomes one again, nothing is lost.

Every member is a process on a node of its own; it publishes and hears all the others, while it is cut off, too.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Iterator
from time import monotonic, sleep
from typing import Any

import pytest

import gossamer
from tests.netns import Network, Unavailable, hear, say, tell

SHAPES = [[[0], [1]], [[0, 1, 2], [3, 4, 5]], [[0], [1, 2, 3, 4, 5]]]
PATIENCE_S = 30.0
PAUSE_S = 0.01
LOSS_PERCENT = 10


@pytest.fixture
def network(sides: list[list[int]]) -> Iterator[Network]:
    """A node for each member, or a skip that says why there are none."""
    try:
        with Network(sum(map(len, sides))) as network:
            yield network
    except Unavailable as reason:
        pytest.skip(f"NO REAL NETWORK TESTED: {reason}")


# What runs on the nodes.


def take_part(settings: str) -> None:
    """Publish from the first line of input until `stop`; each line is answered with what was sent, heard and known."""

    async def story() -> None:
        async with gossamer.join("sides", gossamer.Settings(**json.loads(settings))) as group:
            heard: Counter[int] = Counter()
            sent, wrong, publishing = 0, "", False

            async def read() -> None:
                nonlocal wrong
                async for item in group.subscribe(">"):
                    if isinstance(item, gossamer.Lost) or int(item.payload) != heard[item.sender]:
                        wrong = wrong or repr(item)
                    heard[item.sender] += 1

            async def send() -> None:
                nonlocal sent
                while True:
                    if publishing:
                        group.publish("n", b"%d" % sent)
                        sent += 1
                    await asyncio.sleep(PAUSE_S)

            tasks = [asyncio.create_task(read()), asyncio.create_task(send())]
            while line := await asyncio.to_thread(sys.stdin.readline):
                publishing = line.strip() == "go" or (publishing and line.strip() != "stop")
                say({"me": group.me, "sent": sent, "heard": heard, "members": len(group.members()), "wrong": wrong})
            for task in tasks:
                task.cancel()

    asyncio.run(story())


# What the test does with them.


class Everybody:
    """All members, by the number of their node."""

    def __init__(self, network: Network, **settings: Any) -> None:
        self._children = [
            network.start(n, take_part, json.dumps({"interface": node.address, "insecure": True, **settings}))
            for n, node in enumerate(network.nodes)
        ]
        self.know(len(self._children))

    def ask(self, what: str = "look") -> list[dict[str, Any]]:
        for child in self._children:
            tell(child, what)
        return [hear(child) for child in self._children]

    def know(self, *members: int) -> None:
        """Wait until each knows so many members: one number for all, or one for each."""
        end = monotonic() + PATIENCE_S
        wanted = list(members) if len(members) > 1 else list(members) * len(self._children)
        while (known := [one["members"] for one in self.ask()]) != wanted:
            assert monotonic() < end, known
            sleep(0.1)

    def heard_all(self) -> bool:
        """Whether everything that was sent was heard by all."""
        found = self.ask()
        sent = {str(one["me"]): one["sent"] for one in found}
        assert [one["wrong"] for one in found] == [""] * len(found)
        return all(one["heard"] == sent for one in found)


@pytest.mark.parametrize(
    ("sides", "suspect_after", "cut_s"),
    [
        *((sides, 1.0, 4.0) for sides in SHAPES[:2]),
        *(pytest.param(sides, 5.0, 20.0, marks=pytest.mark.soak) for sides in SHAPES),
    ],
    ids=str,
)
def test_sides_that_took_each_other_for_dead_are_one_group_again_and_lack_nothing(network, sides, suspect_after, cut_s):
    everybody = Everybody(network, tuning={"suspect_after": suspect_after})
    everybody.ask("go")
    sleep(1.0)
    network.partition(*sides)
    sleep(cut_s)
    everybody.know(*(len(side) for side in sides for _ in side))  # as far as each side knows, the other is gone
    network.heal()
    everybody.know(sum(map(len, sides)))
    network.lose(LOSS_PERCENT)  # and they repair for each other what is lost from now on
    sleep(3.0)
    everybody.ask("stop")
    end = monotonic() + PATIENCE_S
    while not everybody.heard_all():
        assert monotonic() < end, everybody.ask()
        sleep(0.1)
