"""Many members, a process each: forked from one warm process, since a start would cost a second of imports.

Run as a program with an address and a number, it starts so many members of a group. For each line on its standard input
it prints a line of JSON: for `look`, how many members each of them knows and how often it suspected one; for `kill`,
the same after one of them was killed and all had the time to notice.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import gossamer

KILLED_S = 15.0
"""How long it takes at most until all know that one is gone: three times `suspect_after`."""


async def _take_part(address: str, about: Path) -> None:
    async with gossamer.join("crowd", gossamer.Settings(address=address)) as group:
        while True:
            said = about.with_suffix(".new")
            said.write_text(json.dumps([len(group.members()), group.stats()["suspicions"]]))
            said.rename(about)
            await asyncio.sleep(0.5)


def _fork(address: str, about: Path) -> int:
    child = os.fork()
    if not child:
        try:
            asyncio.run(_take_part(address, about))
        finally:
            os._exit(1)
    return child


def _look(members: dict[int, Path]) -> list[list[int]]:
    return [json.loads(about.read_text()) if about.exists() else [0, 0] for about in members.values()]


def main(address: str, number: int) -> None:
    """Serve one crowd."""
    with TemporaryDirectory() as place:
        folder, members = Path(place), dict[int, Path]()
        try:
            for n in range(number):
                members[_fork(address, folder / str(n))] = folder / str(n)
                time.sleep(0.1)
            for line in sys.stdin:
                if line.strip() == "kill":
                    victim = next(iter(members))
                    os.kill(victim, signal.SIGKILL)
                    os.waitpid(victim, 0)
                    del members[victim]
                    time.sleep(KILLED_S)
                sys.stdout.write(json.dumps(_look(members)) + "\n")
                sys.stdout.flush()
        finally:
            for child in members:
                os.kill(child, signal.SIGKILL)
            for child in members:  # or one of them still writes into the folder that is removed now
                os.waitpid(child, 0)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
