"""What the tables of the live benchmarks have in common."""

import asyncio
import os
import platform
import signal
import sys
from collections.abc import Iterable
from importlib.util import find_spec

from live_systems import SYSTEMS, System

DEFAULT_LOOP = "uvloop" if find_spec("uvloop") else "asyncio"


def row(texts: Iterable[str]) -> str:
    """One line of a table."""
    return f"| {' | '.join(texts)} |"


def machine(loop: str, rounds: int) -> str:
    """The machine that the numbers were measured on."""
    load = os.getloadavg()[0]
    busy = ", BUSY: measure again when it is quiet" if load > 0.5 else ""
    return (
        f"{os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}, {loop}, "
        f"median of {rounds}, load before {load:.1f}{busy}"
    )


def choose(names: str) -> list[System]:
    """The systems that are asked for and installed; says which are skipped, and why."""
    if unknown := [name for name in names.split(",") if name not in SYSTEMS]:
        raise SystemExit(f"no system {unknown[0]!r}; choose from {', '.join(SYSTEMS)}")
    chosen = []
    for system in (SYSTEMS[name] for name in names.split(",")):
        if reason := system.unavailable():
            note(f"SKIPPED {system.name}: {reason}")
        else:
            chosen.append(system)
    return chosen


def end_gently() -> None:
    """On a signal to end, cancel this task, so that processes and namespaces are cleaned up."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)


def note(text: str) -> None:
    """Report progress on standard error."""
    print(text, file=sys.stderr, flush=True)
