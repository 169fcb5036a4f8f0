"""A warm process that forks loggers: a start costs a fork, not a second of imports.

Run as a program it reads one JSON line per command from standard input, and answers each with one line: the process id
of a new logger, once it is a member, or why it could not start. It is single, so forking is safe; its children are
real processes, to be killed as any other.
"""

from __future__ import annotations

import asyncio
import faulthandler
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import gossamer
from gossamer.core.schema import SettingError
from gossamer.live.logger_group import logger
from gossamer.store import StoreError, open_store  # noqa: F401 - lmdb is loaded before the fork

CLOCK_JUMPS = {signal.SIGUSR1: 10 * 86_400.0, signal.SIGUSR2: -3600.0}
"""By how many seconds these signals set the clock of a logger."""
END_S = 60.0
"""How long a logger may take to end."""


@dataclass
class Nursery:
    """The parent of the loggers of one test."""

    group: str
    settings: dict[str, Any]
    _process: subprocess.Popen[str] = field(init=False)
    _alive: set[int] = field(init=False, default_factory=set)

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__.rpartition(".")[2]],
            cwd=Path(__file__).parent,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        for child in self._alive:
            os.kill(child, signal.SIGKILL)
        self._process.communicate(timeout=10)

    async def start(self, store: Path, retain: str = "7d", clock_s: float = 0.0, **changes: Any) -> int:
        """A logger that has joined, with its clock ahead by `clock_s`; its process id."""
        command = {
            "group": self.group,
            "store": str(store),
            "retain": retain,
            "clock_s": clock_s,
            "settings": {**self.settings, **changes},
        }
        answer = json.loads(await asyncio.to_thread(self._tell, command))
        if "error" in answer:
            raise StoreError(answer["error"])
        self._alive.add(answer["pid"])
        return int(answer["pid"])

    async def kill(self, pid: int, by: signal.Signals = signal.SIGKILL) -> None:
        """End a logger, and wait until it has."""
        os.kill(pid, by)
        self._alive.discard(pid)
        answer = json.loads(await asyncio.to_thread(self._tell, {"wait": pid}))
        assert "error" not in answer, answer["error"]

    def _tell(self, command: dict[str, Any]) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        return self._process.stdout.readline()


def _serve() -> None:
    for line in sys.stdin:
        command = json.loads(line)
        answer = _wait_for(command["wait"]) if "wait" in command else _fork(command)
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


def _wait_for(child: int) -> dict[str, Any]:
    """Until it has ended; one that does not is ended by force, and says where it was."""
    end = time.monotonic() + END_S
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > end:
            os.kill(child, signal.SIGABRT)
            os.kill(child, signal.SIGCONT)
            os.waitpid(child, 0)
            return {"error": f"logger {child} did not end within {END_S:.0f} s"}
        time.sleep(0.002)
    return {"waited": child}


def _fork(command: dict[str, Any]) -> dict[str, Any]:
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        faulthandler.enable()
        os.close(reading)
        asyncio.run(_log(command, writing))
        os._exit(0)
    os.close(writing)
    with open(reading) as answer:
        said = answer.read()
    if said != "ready":
        os.waitpid(child, 0)
        return {"error": said or "it ended without a word"}
    return {"pid": child}


def set_clock(ahead_s: float) -> None:
    """Set the clock of this process, for all of gossamer."""
    wall, wall_ns = time.time, time.time_ns
    fake = {wall: lambda: wall() + ahead_s, wall_ns: lambda: wall_ns() + int(ahead_s * 1e9)}
    for module in [m for name, m in sys.modules.items() if name.partition(".")[0] in ("gossamer", "time")]:
        for name, value in list(vars(module).items()):
            if value is wall or value is wall_ns:
                setattr(module, name, fake[value])


async def _log(command: dict[str, Any], ready: int) -> None:
    set_clock(command["clock_s"])
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    for number, jump_s in CLOCK_JUMPS.items():
        asyncio.get_running_loop().add_signal_handler(number, set_clock, jump_s)
    try:
        member = logger(
            command["group"],
            Path(command["store"]),
            gossamer.Settings(**command["settings"]),
            retain=command["retain"],
        )
        async with member:
            os.write(ready, b"ready")
            os.close(ready)
            await stop.wait()
    except (StoreError, SettingError, TimeoutError) as error:
        os.write(ready, str(error).encode())
        os._exit(2)


if __name__ == "__main__":
    _serve()
