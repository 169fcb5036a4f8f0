"""A table of Parquet files that changes as a whole, on any file system with an atomic rename.

    DIR/date=2026-11-16/subject=quotes.nyse.ibm/*.parquet     the rows, for any reader of Parquet
    DIR/_log/00000000000000000042.json                        the changes, numbered
    DIR/_staging/42-ab12/..                                     files of the next change, before they take their place

A change adds files and removes files. It happens at the moment when its JSON takes its name; putting the files in place
is then only tidying up, can be done again, and is done before anything else by whoever opens the table next. So a crash
at any moment leaves the table before the change or behind it. Plain readers of the folder see the same, except while
the files of one change are on the way; `files` is exact at all times.

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
    """What became of the table at once; paths are relative to it."""

    batch: int = -1
    """The last batch of the stream that is in the table."""
    query: str = ""
    """The stream that these batches are of."""
    staging: str = ""
    """Where the added files lie until they are in place, in the same folders as there."""
    add: list[str] = field(default_factory=list)
    remove: list[str] = field(default_factory=list)


class Table:
    """A table in a folder, made if it is not there."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._log = self.path / LOG
        self._number, self.last = _newest(self._log)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """For the one process that changes it: keeps others out, and finishes what a crash has interrupted."""
        try:
            self._log.mkdir(parents=True, exist_ok=True)
            lock = os.open(self._log / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise PipelineError(f"{self.path}: no folder for an archive ({error.strerror})") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._number, self.last = _newest(self._log)
            self._put_in_place()
            shutil.rmtree(self.path / STAGING, ignore_errors=True)
            yield
        except BlockingIOError:
            raise PipelineError(f"{self.path}: another process is writing this archive: wait, or stop it") from None
        finally:
            os.close(lock)

    def stage(self) -> Path:
        """A folder for the files of the next change; a new name, for tasks of a dead driver may still be writing."""
        return self.path / STAGING / f"{self._number + 1}-{token_hex(4)}"

    def commit(self, staged: Path, *, batch: int, query: str, remove: Iterable[str] = ()) -> Change:
        """Make the change whose files are staged there; when this returns it has happened."""
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
        """The Parquet files that are the table now, absolute; even if a crash left the last change half tidied up."""
        there = {str(path.relative_to(self.path)) for path in self.path.glob(FILES)}
        removed = set(self.last.remove)
        staged = [name for name in self.last.add if name not in there]
        return [
            *(str(self.path / name) for name in sorted(there - removed)),
            *(str(self.path / self.last.staging / name) for name in staged),
        ]

    def _put_in_place(self) -> None:
        """Tidy up behind the last change, as far as that is not done yet."""
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
    """Whether this is a folder with a table, not something else."""
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
    """On stable storage, file or folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
