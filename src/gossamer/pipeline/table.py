"""A table of Parquet files that changes as a whole, on any file system with an atomic rename.

    DIR/date=2026-11-16/subject=quotes.nyse.ibm/*.parquet     the rows, for any reader of Parquet
    DIR/_log/00000000000000000042.json                        the changes, numbered
    DIR/_staging/42-ab12/..                                     files of the next change, before they are moved in place

A change adds files and removes files. It happens at the moment when its JSON gets its name; moving the files in place
is then only tidying up, can be repeated, and is done first by the next process that changes the table. So a crash at
any moment leaves the table as before or as after the change. Plain readers of the folder see the same, except while
the files of a change are being moved; `files` is always exact.

One process changes a table at a time: the stream that archives into it.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from secrets import token_hex

from gossamer.pipeline.session import PipelineError

LOG, STAGING, LOCK = "_log", "_staging", "lock"
FILES = "*=*/*=*/*.parquet"


@dataclass(frozen=True)
class Change:
    """One atomic change of the table; paths are relative to it."""

    batch: int = -1
    """The last batch of the stream that is in the table after this change."""
    query: str = ""
    """The stream that the batches belong to."""
    staging: str = ""
    """Where the added files are until they are moved, in the same subfolders as in the table."""
    add: list[str] = field(default_factory=list)
    remove: list[str] = field(default_factory=list)


class Table:
    """A table in a folder, created if it does not exist."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._log = self.path / LOG
        self._number, self.last = _newest(self._log)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Keep other writers out, after finishing a change that a crash has interrupted."""
        try:
            self._log.mkdir(parents=True, exist_ok=True)
            lock = os.open(self._log / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise PipelineError(f"{self.path}: cannot hold an archive ({error.strerror})") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._number, self.last = _newest(self._log)
            self._put_in_place()
            shutil.rmtree(self.path / STAGING, ignore_errors=True)
            yield
        except BlockingIOError:
            raise PipelineError(f"{self.path}: another process is writing this archive; wait, or stop it") from None
        finally:
            os.close(lock)

    def stage(self) -> Path:
        """A folder for the files of the next change, always new: tasks of a dead driver may still be writing."""
        return self.path / STAGING / f"{self._number + 1}-{token_hex(4)}"

    def commit(self, staged: Path, *, batch: int, query: str, remove: Iterable[str] = ()) -> Change:
        """Make the change whose files are in `staged`; when this returns, it has happened."""
        add = sorted(str(path.relative_to(staged)) for path in staged.glob(FILES))
        for name in add:
            _sync(staged / name)
        change = Change(batch, query, str(staged.relative_to(self.path)), add, sorted(remove))
        self._number += 1
        temporary = self._log / f".{self._number}.partial"
        temporary.write_text(json.dumps(asdict(change)), "utf-8")
        _sync(temporary)
        os.replace(temporary, self._log / f"{self._number:020}.json")
        _sync(self._log)
        self.last = change
        self._put_in_place()
        return change

    def files(self) -> list[str]:
        """Absolute paths of the files in the table now, even if a crash left the last change partly moved."""
        there = {str(path.relative_to(self.path)) for path in self.path.glob(FILES)}
        removed = set(self.last.remove)
        staged = [name for name in self.last.add if name not in there]
        return [
            *(str(self.path / name) for name in sorted(there - removed)),
            *(str(self.path / self.last.staging / name) for name in staged),
        ]

    def _put_in_place(self) -> None:
        """Tidy up after the last change, as far as that is not done yet."""
        staged = self.path / self.last.staging
        for name in self.last.add:
            if self.last.staging and (staged / name).exists():
                (self.path / name).parent.mkdir(parents=True, exist_ok=True)
                os.replace(staged / name, self.path / name)
        for name in self.last.remove:
            (self.path / name).unlink(missing_ok=True)
        if self.last.staging:
            shutil.rmtree(staged, ignore_errors=True)


def is_table(path: str | os.PathLike[str]) -> bool:
    """Whether this folder holds a table."""
    return (Path(path) / LOG).is_dir()


def _newest(log: Path) -> tuple[int, Change]:
    names = sorted(log.glob("*.json"))
    if not names:
        return 0, Change()
    try:
        return int(names[-1].stem), Change(**json.loads(names[-1].read_text("utf-8")))
    except (ValueError, TypeError) as error:
        raise PipelineError(f"{names[-1]}: not a change of an archive ({error})") from None


def _sync(path: Path) -> None:
    """Flush a file or folder to stable storage."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
