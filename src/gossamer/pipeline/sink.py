"""Rows of Spark -> events in a group, at least once, each with an id by which a receiver can recognize a repetition.

Every task joins the group, publishes its rows, waits until they are sent and, if there is a logger, durable, and
leaves. A task that fails is repeated, so an event may arrive twice, but with the same attribute `_id`: this is
`query/batch/partition/row`, unless the row has an `_id` of its own in its headers.
"""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from time import monotonic
from typing import TYPE_CHECKING, Any, get_type_hints

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

import gossamer
from gossamer.core.schema import SettingError
from gossamer.pipeline.session import PipelineError
from gossamer.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa

ID = "_id"
"""The attribute that tells an event from its repetition."""
ORIGINAL = "original"
TURN_EVENTS = 256
"""Events to publish before the event loop gets a turn to send and receive."""
_OWN_OPTIONS = ("group", "rate", "headerTypes", "flushTimeout")
_SPARKS_OPTIONS = ("path", "checkpointlocation")
_PLAIN = (str, str | None, bool, int)


@dataclass(frozen=True)
class WriteOptions:
    """The options of a write, parsed and checked."""

    group: str
    settings: Settings
    rate: float | str | None = None
    """Events per second in each task; `original` keeps the spacing of the column `timestamp`; None means no limit."""
    guess_types: bool = False
    """Whether headers that look like numbers or booleans become attributes of that type."""
    flush_timeout_s: float = 60.0
    """How long a task waits for its events to become durable."""
    job: str = field(default_factory=lambda: uuid.uuid4().hex)
    """The name of this write if Spark has none for it."""

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> WriteOptions:
        """Parse the options of `df.write`: our own and any simple setting of a group, in upper or lower case."""
        given = {name.lower(): value for name, value in options.items() if name.lower() not in _SPARKS_OPTIONS}
        hints = get_type_hints(Settings)
        known = {name.lower(): name for name in (*_OWN_OPTIONS, *(f.name for f in fields(Settings)))}
        for name in given:
            if name not in known:
                near = get_close_matches(name, known, 1)
                meant = known[near[0]] if near else f"one of {', '.join(_OWN_OPTIONS)}"
                raise PipelineError(f"unknown option {name}: did you mean {meant}?")
        if not given.get("group"):
            raise PipelineError('the option group is missing; set it with .option("group", NAME)')
        settings = {
            known[name]: _typed(known[name], value, hints[known[name]])
            for name, value in given.items()
            if known[name] not in _OWN_OPTIONS
        }
        try:
            made = Settings(**settings)
        except SettingError as error:
            raise PipelineError(str(error)) from None
        return cls(
            group=given["group"],
            settings=made,
            rate=_rate(given.get("rate")),
            guess_types=_choice("headerTypes", given.get("headertypes", "text"), ("text", "guess")) == "guess",
            flush_timeout_s=_number("flushTimeout", given.get("flushtimeout", "60")),
        )


class PublishedRows(WriterCommitMessage):
    """What a task reports to the driver."""

    def __init__(self, events: int) -> None:
        self.events = events


class GroupWriter(DataSourceArrowWriter):
    """Publishes a batch to a group."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Publish the rows of one task, on an executor."""
        return publish(self._options, iterator)


class GroupStreamWriter(DataSourceStreamArrowWriter):
    """Publishes a stream to a group, batch by batch."""

    def __init__(self, options: WriteOptions) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Publish the rows of one task, on an executor."""
        return publish(self._options, iterator)


def check_columns(names: list[str]) -> None:
    """Raise PipelineError unless rows with these columns can become events."""
    if "value" not in names or not {"subject", "topic"} & set(names):
        raise PipelineError(f"a sink needs the columns subject (or topic) and value; found {', '.join(names)}")


def publish(options: WriteOptions, batches: Iterator[pa.RecordBatch]) -> PublishedRows:
    """Publish the rows of one task; when this returns they are sent, and durable if there is a logger."""
    return PublishedRows(asyncio.run(_publish(options, batches, _task_name(options))))


async def _publish(options: WriteOptions, batches: Iterator[pa.RecordBatch], task: str) -> int:
    filled = (batch for batch in batches if batch.num_rows)
    batch = next(filled, None)
    if batch is None:
        return 0  # do not join the group to publish nothing
    count = 0
    pace = _Pace(options.rate)
    async with gossamer.join(options.group, options.settings) as group:
        while batch is not None:
            for subject, payload, attributes, time_s in _events(batch, options.guess_types):
                await pace.wait(count, time_s)
                attributes.setdefault(ID, f"{task}/{count}")
                await _publish_one(group, subject, payload, attributes)
                count += 1
                if not count % TURN_EVENTS:
                    await asyncio.sleep(0)
            batch = await asyncio.to_thread(next, filled, None)  # the member keeps listening while Spark works
        await _flush(group, options)
    return count


async def _publish_one(group: gossamer.Group, subject: str, payload: bytes, attributes: dict[str, Any]) -> None:
    try:
        try:
            group.publish(subject, payload, **attributes)
        except gossamer.Full:
            await group.publish_wait(subject, payload, **attributes)
    except (ValueError, TypeError) as error:
        raise PipelineError(f"a row cannot become an event: {error}") from None


async def _flush(group: gossamer.Group, options: WriteOptions) -> None:
    try:
        await asyncio.wait_for(group.flush(), options.flush_timeout_s)
    except TimeoutError:
        raise PipelineError(
            f"group {options.group}: not everything was sent and logged within {options.flush_timeout_s:g} s; check "
            "its logger, or raise flushTimeout"
        ) from None


class _Pace:
    """Waits until the next event is due."""

    def __init__(self, rate: float | str | None) -> None:
        self._rate = rate
        self._started = 0.0
        self._first_s: float | None = None

    async def wait(self, count: int, time_s: float | None) -> None:
        """Wait until event number `count`, first published at `time_s`, is due."""
        if self._rate is None:
            return
        if not count:
            self._started = monotonic()
        if isinstance(self._rate, str):
            if time_s is None:
                raise PipelineError("rate = original: needs the column timestamp")
            self._first_s = time_s if self._first_s is None else self._first_s
            due = time_s - self._first_s
        else:
            due = count / self._rate
        delay = self._started + due - monotonic()
        if delay > 0:
            await asyncio.sleep(delay)


def _events(batch: pa.RecordBatch, guess: bool) -> Iterator[tuple[str, bytes, dict[str, Any], float | None]]:
    """Subject, payload, attributes and time of each row."""
    names = batch.schema.names
    columns = {
        name: batch.column(name).to_pylist() for name in ("value", "key", "headers", "timestamp") if name in names
    }
    subjects = batch.column("subject" if "subject" in names else "topic").to_pylist()
    nothing = [None] * len(subjects)
    rows = zip(
        subjects,
        columns["value"],
        columns.get("headers", nothing),
        columns.get("key", nothing),
        columns.get("timestamp", nothing),
        strict=True,
    )
    for subject, value, headers, key, timestamp in rows:
        attributes = _attributes(headers, guess)
        if key is not None:
            attributes.setdefault("key", _as_text(key))
        payload = value.encode() if isinstance(value, str) else value or b""
        yield subject, payload, attributes, timestamp.timestamp() if timestamp is not None else None


def _attributes(headers: Any, guess: bool) -> dict[str, Any]:
    """Attributes from a map of strings, or from a struct with typed fields."""
    if not headers:
        return {}
    if isinstance(headers, Mapping):
        return dict(headers)
    return {name: _guessed(text) if guess else text for name, text in headers}


def _guessed(text: str | None) -> Any:
    if text is None or text in ("true", "false"):
        return None if text is None else text == "true"
    if re.fullmatch(r"-?(0|[1-9][0-9]{0,18})", text) and -(1 << 63) <= int(text) < 1 << 63:
        return int(text)
    if re.fullmatch(r"-?[0-9.]+(e[-+]?[0-9]+)?|-?inf|nan", text):
        try:
            return float(text)
        except ValueError:
            return text
    return text


def _as_text(key: Any) -> str:
    return key.decode("utf-8", "replace") if isinstance(key, bytes) else str(key)


def _task_name(options: WriteOptions) -> str:
    """A name that stays the same if the task is repeated: query, batch, partition."""
    context = TaskContext.get()
    if context is None:
        return f"{options.job}/0/0"
    query = context.getLocalProperty("sql.streaming.queryId") or options.job
    batch = context.getLocalProperty("streaming.sql.batchId") or "0"
    return f"{query}/{batch}/{context.partitionId()}"


def _typed(name: str, text: str, hint: Any) -> Any:
    """Parse the value of a setting."""
    if hint not in _PLAIN:
        raise PipelineError(f"the setting {name} cannot be an option; put it into gossamer.toml")
    if hint is bool:
        return _choice(name, text.lower(), ("true", "false")) == "true"
    return int(_number(name, text)) if hint is int else text


def _rate(text: str | None) -> float | str | None:
    if text is None or text == ORIGINAL:
        return text
    rate = _number("rate", text)
    if not rate:
        raise PipelineError("rate = 0: must be original, or a number of events per second above 0")
    return rate


def _number(option: str, text: str) -> float:
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)?", text):
        raise PipelineError(f"{option} = {text!r}: must be a number")
    return float(text)


def _choice(option: str, text: str, choices: tuple[str, ...]) -> str:
    if text not in choices:
        raise PipelineError(f"{option} = {text!r}: must be {' or '.join(choices)}")
    return text
