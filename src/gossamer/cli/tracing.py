"""An optional trace of what a live process sees."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gossamer.rungs import promises
from gossamer.settings import Settings
from gossamer.trace.buffer import RowBuffer


@contextmanager
def traced(path: Path | None, settings: Settings) -> Iterator[RowBuffer | None]:
    """A buffer for trace rows, written to the file `path` however the command ends; None without a path."""
    if path is None:
        yield None
        return
    from gossamer.trace.writer import TraceWriter

    protocol = settings.protocol_settings()
    metadata = {
        "world": "live",
        "name": settings.name,
        "protocol": protocol.name,
        "promises": list(promises(protocol)),
        "recovery": protocol.recovery,
        "copies": protocol.log_copies,
    }
    writer = TraceWriter(path, f"live-{secrets.token_hex(4)}", metadata)
    try:
        yield writer
    finally:
        writer.close()
