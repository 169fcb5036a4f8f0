"""What a wait looks like on a terminal: a bar where the end is known, else a line; nothing where nobody looks."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

PATIENCE_S = 2.0
"""A wait that takes longer is explained."""


@contextmanager
def progress_bar(text: str, total: float) -> Iterator[Callable[[float], None]]:
    """Yield a function to call with the progress so far; the bar goes to standard error, if that is a terminal."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"))
    with Progress(
        *columns, TimeRemainingColumn(), console=console, transient=True, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task(text, total=total)
        yield lambda done: bar.update(task, completed=min(done, total))


@contextmanager
def waiting(text: str, *, always: bool = False) -> Iterator[None]:
    """Explain the wait inside if it takes long: a line with the seconds so far on a terminal, gone at the end.

    With `always`, one line where there is no terminal, too.
    """
    over = threading.Event()
    if os.isatty(2):
        thread = threading.Thread(target=_show, args=(text, over, os.dup(2)), daemon=True)
    elif always:
        thread = threading.Thread(target=_say, args=(text, over), daemon=True)
    else:
        yield
        return
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _show(text: str, over: threading.Event, terminal: int) -> None:
    """Count the seconds, on a descriptor of our own: while Spark starts, standard error is sent elsewhere."""
    began = time.monotonic()
    with open(terminal, "w") as file:
        if over.wait(PATIENCE_S):
            return
        console = Console(file=file)
        with console.status(text) as status:
            while not over.wait(0.5):
                status.update(f"{text} ({time.monotonic() - began:.0f} s)")


def _say(text: str, over: threading.Event) -> None:
    if not over.wait(PATIENCE_S):
        Console(stderr=True, soft_wrap=True, highlight=False, markup=False).print(f"gossamer: {text}")
