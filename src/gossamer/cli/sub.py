"""`gossamer sub`: print the events of a group as they arrive, and every loss in its place."""

import asyncio
import json
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from gossamer.cli.ids import with_ids
from gossamer.cli.options import (
    Address,
    AsJson,
    GroupName,
    Impair,
    Insecure,
    Interface,
    Key,
    Trace,
    member_of,
    run_for_ever,
    settings_from,
    transport_from,
)
from gossamer.cli.output import Output
from gossamer.cli.progress import waiting
from gossamer.cli.tracing import traced
from gossamer.core.schema import SettingError
from gossamer.live.group import Group, Lost
from gossamer.live.names import name_of
from gossamer.live.subscription import FROM_NOW_ON, LATEST, Blocked, Item, Start, Subscription, Undo
from gossamer.pubsub import check_pattern, compile_where
from gossamer.wire.events import Event

COMMIT_S = 30.0
"""How long a logger may take to keep a position."""
_LOOK_S = 0.02


def sub(
    group: GroupName,
    pattern: Annotated[
        str, typer.Argument(help="Subjects to print: `*` matches one token, `>` all that follow.")
    ] = ">",
    where: Annotated[
        str | None, typer.Option(help="Print only events whose attributes match, e.g. 'price > 100'.")
    ] = None,
    start: Annotated[
        str, typer.Option(help="now, beginning, latest-per-subject, an ISO time, or JSON with first numbers by sender.")
    ] = "now",
    durable: Annotated[
        str | None,
        typer.Option(help="Go on where the last `sub` with this name stopped; what is printed is committed."),
    ] = None,
    queue: Annotated[
        str | None,
        typer.Option(help="Share the events with all that subscribe with this queue: each goes to one of them."),
    ] = None,
    count: Annotated[int, typer.Option(min=0, help="Stop after this many events; 0 means never.")] = 0,
    verify: Annotated[bool, typer.Option("--verify", help="Check that the numbered events of `pub` count up.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Do not print events.")] = False,
    stats: Annotated[Path | None, typer.Option(help="On exit, write the member's counters to this file.")] = None,
    address: Address = None,
    interface: Interface = None,
    key: Key = None,
    insecure: Insecure = False,
    impair: Impair = "",
    trace: Trace = None,
    as_json: AsJson = False,
) -> int:
    """Print the events of a GROUP whose subject matches PATTERN, until interrupted.

    A gap that could not be repaired is printed in its place. Exit code 1 if --verify finds anything wrong; 0 after
    SIGTERM.

    Examples:

        gossamer sub quotes 'quotes.nyse.*' --where 'price > 100'

        gossamer sub quotes --start beginning --json | jq .subject

        gossamer sub quotes --start 2026-01-31T12:00:00Z --count 10

        gossamer sub quotes --durable billing --start beginning
    """
    settings = settings_from(address, interface, key, insecure)
    begin = parse_start(start)
    check_pattern(pattern)
    if where is not None:
        compile_where(where)
    if stats is not None and not stats.parent.is_dir():
        raise SettingError(f"--stats {stats}: there is no directory {stats.parent}")
    if stats is not None and stats.is_dir():
        raise SettingError(f"--stats {stats}: is a directory; name a file")
    seen = Numbered()
    printer = None if quiet else (_as_json if as_json else _as_text)

    async def story() -> None:
        with traced(trace, settings) as rows:
            async with member_of(Group(group, settings, transport_from(impair), trace=rows)) as member:
                try:
                    heard = member.subscribe(pattern, where=where, start=begin, durable=durable, queue=queue)
                    await _print(heard, printer, seen if verify else None, count)
                finally:
                    if stats is not None:
                        stats.write_text(json.dumps(with_ids(member.profile()) | {"verified": seen.summary()}))

    run_for_ever(story())
    return 1 if verify and seen.wrong else 0


async def _print(
    heard: Subscription, printer: Callable[[Item], str] | None, seen: "Numbered | None", count: int
) -> None:
    """Print all that comes, or the first `count`; what a durable subscription has printed is committed."""
    taken, output = 0, Output()
    with waiting("asking for the past"):
        while heard.waits_for_past:
            await asyncio.sleep(_LOOK_S)
    async for batch in heard.batches():
        unread = max(0, len(batch) - (count - taken)) if count else 0
        batch = batch[: count - taken] if count else batch
        taken += len(batch)
        if seen is not None:
            seen.take(batch)
        if printer is not None:
            await output.write("".join(printer(item) + "\n" for item in batch))
        if heard.acks is not None:
            await heard._commit_but(unread, timeout=COMMIT_S, wait=bool(count) and taken >= count)
        if count and taken >= count:
            return


class Numbered:
    """Checks that the numbered events of `pub` count up for each sender, without gaps or repetitions."""

    def __init__(self) -> None:
        self.wrong = 0
        self.lost = 0
        self.right = 0
        self._next: dict[int, int] = {}

    def take(self, batch: list[Item]) -> None:
        """Check the next events."""
        for item in batch:
            if isinstance(item, Lost):
                self.lost += item.last - item.first + 1
                self._next.pop(item.sender, None)
            if not isinstance(item, Event):
                continue
            expected = self._next.get(item.sender)
            number = int(item.payload) if item.payload.isdigit() else -1
            self.right += number >= 0 and number == (number if expected is None else expected)
            self.wrong += number < 0 or (expected is not None and number != expected)
            self._next[item.sender] = number + 1

    def summary(self) -> dict[str, int]:
        """The counts as a dictionary."""
        return {"right": self.right, "wrong": self.wrong, "lost": self.lost}


def parse_start(text: str) -> Start:
    """Parse the option --start."""
    if text == "beginning" or text == LATEST or text in FROM_NOW_ON:
        return "beginning" if text == "beginning" else "latest-per-subject" if text == LATEST else "now"
    try:
        if text.startswith("{"):
            return {int(sender): int(first) for sender, first in json.loads(text).items()}
        moment = datetime.fromisoformat(text)
    except (ValueError, AttributeError):
        raise SettingError(
            f"--start {text!r}: must be now, beginning, latest-per-subject, a time like 2026-01-31T12:00:00Z, or "
            '{"sender": number}'
        ) from None
    return moment if moment.tzinfo is not None else moment.astimezone()


def _as_text(item: Item) -> str:
    if isinstance(item, Lost):
        which = f" {item.first}..{item.last} of {item.source}" if item.sender >= 0 else ""
        return f"lost{which}: {item.reason}"
    if isinstance(item, Blocked):
        return f"blocked: {item.reason}"
    if isinstance(item, Undo):
        return f"undo from place {item.place}: {len(item.packets)} packets"
    attributes = " ".join(f"{name}={value}" for name, value in item.attributes.items())
    return f"{item.subject} {item.payload.decode('utf-8', 'backslashreplace')} {attributes}".rstrip()


def _as_json(item: Item) -> str:
    if isinstance(item, Lost):
        return json.dumps({"lost": with_ids(item._asdict()) | {"source": item.source}})
    if isinstance(item, Blocked):
        return json.dumps({"blocked": item.reason})
    if isinstance(item, Undo):
        return json.dumps({"undo": {"place": item.place, "packets": item.packets}})
    return json.dumps(as_table(item))


def as_line(item: Item, as_json: bool) -> str:
    """One line for an item."""
    return _as_json(item) if as_json else _as_text(item)


def as_table(event: Event) -> dict[str, Any]:
    """Convert an event to what JSON can represent: a payload that is not UTF-8 becomes base64."""
    try:
        payload: dict[str, Any] = {"payload": event.payload.decode()}
    except UnicodeDecodeError:
        payload = {"payload_base64": b64encode(event.payload).decode()}
    time = datetime.fromtimestamp(event.time, UTC).isoformat()
    return {
        "subject": event.subject,
        **payload,
        "attributes": dict(event.attributes),
        "sender": event.sender,
        "sender_id": str(event.sender),
        "source": name_of(event.sender),
        "seqno": event.seqno,
        "time": time,
        **({} if event.place is None else {"place": list(event.place)}),
    }
