"""What the members subscribe to: a table of members and patterns, or what `gossamer stats --json` printed over time."""

import csv
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gossamer.pipeline.session import PipelineError
from gossamer.pubsub.subjects import SubjectError, check_pattern

COLUMNS = ("member", "pattern")
SHAPE = (
    "a table with the columns member and pattern (.csv, .json, .parquet), or what `gossamer stats --json` printed over "
    "time, in a folder or appended to one .json file"
)

Interests = dict[str, tuple[str, ...]]
"""By pattern, the members that subscribe to it."""


def read_interests(path: Path) -> Interests:
    """Read the table, or the files of a folder, at `path`; PipelineError names the file and what is wrong with it."""
    files = sorted(path.glob("*.json")) if path.is_dir() else [path]
    if not files:
        raise PipelineError(f"--interests {path}: this folder contains no *.json; give {SHAPE}")
    members: dict[str, dict[str, None]] = {}
    for file in files:
        for member, pattern in _rows(file):
            members.setdefault(_checked(file, member, pattern), {})[member] = None
    if not members:
        raise PipelineError(f"--interests {path}: nobody subscribes to anything there; give {SHAPE}")
    return {pattern: tuple(sorted(found)) for pattern, found in sorted(members.items())}


def _rows(file: Path) -> Iterable[tuple[str, str]]:
    readers = {".csv": _from_csv, ".json": _from_json, ".parquet": _from_parquet}
    if file.suffix not in readers:
        raise PipelineError(f"--interests {file}: unknown kind of file; give {SHAPE}")
    try:
        return list(readers[file.suffix](file))
    except OSError as error:
        raise PipelineError(f"--interests {file}: {error.strerror or error}") from None
    except (ValueError, pa.ArrowException) as error:
        raise PipelineError(f"--interests {file}: cannot be read: {str(error).splitlines()[0]}; give {SHAPE}") from None


def _from_csv(file: Path) -> Iterator[tuple[str, str]]:
    with file.open(newline="", encoding="utf-8") as lines:
        reader = csv.DictReader(lines)
        _check_columns(reader.fieldnames or [])
        yield from ((row["member"], row["pattern"]) for row in reader)


def _from_parquet(file: Path) -> Iterator[tuple[str, str]]:
    _check_columns(pq.read_schema(file).names)
    table = pq.read_table(file, columns=list(COLUMNS))
    yield from zip(map(str, table["member"].to_pylist()), table["pattern"].to_pylist(), strict=True)


def _from_json(file: Path) -> Iterator[tuple[str, str]]:
    """Rows of a table or profiles of members: as a list, one to a line, or a list to a line, as in a file to which
    the answers of members were appended again and again."""
    text = file.read_text("utf-8")
    try:
        lists = [json.loads(text)]
    except ValueError:
        lines = [json.loads(line) for line in text.splitlines() if line.strip()]
        single = [line for line in lines if not isinstance(line, list)]
        lists = [*([single] if single else []), *(line for line in lines if isinstance(line, list))]
    for rows in lists:
        yield from _from_objects(rows if isinstance(rows, list) else [rows])


def _from_objects(rows: list[Any]) -> Iterator[tuple[str, str]]:
    if not all(isinstance(row, dict) for row in rows):
        raise ValueError("expected a list of objects")
    if any("stats" in row for row in rows):
        yield from _from_profiles(rows)
        return
    for row in rows:
        _check_columns(row)
        yield str(row["member"]), row["pattern"]


def _from_profiles(profiles: list[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """What members answered `gossamer stats`. A member that comes back under its name is the same one.

    Loggers are left out: they listen to everything, whatever the map.
    """
    names = Counter(profile.get("name") for profile in profiles)
    for profile in profiles:
        name = profile.get("name")
        label = str(name) if name and names[name] == 1 else f"{name or 'member'}#{profile.get('member')}"
        told = profile.get("stats", {}).get("subscriptions")
        if told is None:
            raise ValueError(f"{label} does not tell its subscriptions: it runs an older version")
        if told["left_out"]:
            raise ValueError(f"{label} has too many subscriptions to tell them all")
        yield from ((label, pattern) for pattern in told["patterns"] if not profile.get("logger"))


def _check_columns(names: Iterable[str]) -> None:
    missing = [name for name in COLUMNS if name not in names]
    if missing:
        raise ValueError(f"the column {missing[0]} is missing")


def _checked(file: Path, member: object, pattern: Any) -> str:
    try:
        return check_pattern(pattern)
    except SubjectError as error:
        raise PipelineError(f"--interests {file}: member {member}: {error}") from None
