"""An optional trace of what a live process sees."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gossamer.trace.buffer import RowBuffer


@contextmanager
def traced(path: Path | None, promises: tuple[str, ...] = ("no-bogus", "at-most-once")) -> Iterator[RowBuffer | None]:
    """A buffer for trace rows, written to the file `path` however the command ends; None without a path."""
    if path is None:
        yield None
        return
    from gossamer.trace.writer import TraceWriter

    writer = TraceWriter(path, f"live-{secrets.token_hex(4)}", {"world": "live", "promises": list(promises)})
    try:
        yield writer
    finally:
        writer.close()
