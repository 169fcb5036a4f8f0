"""`gossamer pub`: publish events from the command line."""

import asyncio
import json
import os
import sys
import threading
from collections.abc import AsyncIterator
from concurrent.futures import CancelledError
from contextlib import suppress
from time import monotonic
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
    run,
    settings_from,
    transport_from,
)
from gossamer.cli.progress import PATIENCE_S, waiting
from gossamer.cli.tracing import traced
from gossamer.core.schema import SettingError
from gossamer.live.errors import Timeout
from gossamer.live.group import Full, Group
from gossamer.live.probe import probe
from gossamer.pubsub import check_subject
from gossamer.wire.attributes import pack

_CHUNK_BYTES = 65_536
_LOOK_S = 0.25
_AT_ONCE = 64
"""Events to publish before other tasks get a turn."""


def pub(
    group: GroupName,
    subject: Annotated[str, typer.Argument(help="Subject: tokens separated by dots, e.g. quotes.nyse.ibm.")],
    payload: Annotated[
        str | None, typer.Argument(help="Payload of every event; if not given, events are numbered.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="Number of events to publish.")] = 1,
    rate: Annotated[float, typer.Option(min=0, help="Events per second; 0 means as fast as possible.")] = 0.0,
    stdin: Annotated[bool, typer.Option("--stdin", help="Publish each line of standard input as an event.")] = False,
    attributes: Annotated[
        list[str] | None, typer.Option("--attribute", "-a", help="Attribute, e.g. price=101.5. May be repeated.")
    ] = None,
    wait: Annotated[int, typer.Option(min=0, help="First wait until the group has this many other members.")] = 0,
    timeout: Annotated[
        float,
        typer.Option(min=0, help="Seconds to wait for room, or for a logger; 0 means for ever."),
    ] = 30.0,
    address: Address = None,
    interface: Interface = None,
    key: Key = None,
    insecure: Insecure = False,
    impair: Impair = "",
    trace: Trace = None,
    as_json: AsJson = False,
) -> int:
    """Publish events under a SUBJECT to a GROUP; exit once they are sent and, if there is a logger, durable.

    Exit code 1 if some of them are not known to have arrived, or are not logged after --timeout.

    Examples:

        gossamer pub quotes quotes.nyse.ibm 101.5 -a price=101.5

        gossamer pub quotes load.test --count 100000 --rate 5000

        tail -f access.log | gossamer pub web access --stdin
    """
    settings = settings_from(address, interface, key, insecure)
    check_subject(subject)
    known = _attributes(attributes or [])
    patience = _Patience(timeout)

    async def story() -> dict[str, Any]:
        with traced(trace, settings) as rows:
            joined = Group(group, settings, transport_from(impair), trace=rows)
            async with member_of(joined, lambda: patience.for_leaving(settings.leave_timeout)) as member:
                with waiting(f"waiting for {wait} other members of group {group}", always=True):
                    while len(member.members()) <= wait:
                        await asyncio.sleep(0.01)
                events = _lines(settings.event_bytes_max) if stdin else _numbered(payload, count)
                watch = asyncio.create_task(patience.watch(member))
                try:
                    await _publish(member, subject, events, rate, known, patience)
                finally:
                    watch.cancel()
                await _flush(member, patience)
                return member.stats()

    stats = run(story())
    if as_json:
        typer.echo(json.dumps(with_ids(stats)))
    elif sys.stderr.isatty():
        typer.echo(f"{stats['published']} events published", err=True)
    return 0


class _Patience:
    """How much of `--timeout` is left once we wait, also while leaving: it counts from the last acknowledgement."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end: float | None = None
        self._logged = -1
        self._progress = monotonic()

    async def watch(self, member: Group) -> None:
        """Note for as long as we publish whether loggers still acknowledge: what has room is published all the same."""
        while True:
            stats = member.stats()
            if stats["logged"] != self._logged or not stats["unlogged"] or not member.loggers():
                self._logged, self._progress = stats["logged"], monotonic()
            await asyncio.sleep(_LOOK_S)

    def begin(self) -> None:
        """From now on we wait."""
        self._end = self._progress + self.seconds if self.seconds else None

    def over(self) -> None:
        """What was waited for has come."""
        self._end = None

    def left(self) -> float | None:
        """Seconds; None for as long as it takes."""
        return None if self._end is None else max(0.0, self._end - monotonic())

    def for_leaving(self, usual: float) -> float | None:
        """How long leaving may take: not longer than usual."""
        left = self.left()
        return None if left is None or not usual else min(left, usual)


async def _flush(member: Group, patience: _Patience) -> None:
    """Wait until everything is logged, but not for ever: then leaving says what is not."""
    patience.begin()
    try:
        left = patience.left()
        await member.flush(timeout=PATIENCE_S if left is None else min(left, PATIENCE_S))
    except TimeoutError:
        typer.echo(f"gossamer: waiting {await _awaited(member)}", err=True)
        with waiting("waiting for a logger"), suppress(TimeoutError):
            await member.flush(timeout=patience.left())


async def _awaited(member: Group) -> str:
    """What holds up events that are not logged, as far as the loggers say."""
    loggers = [one for one in await probe(member.name, member.settings, wait=0.5) if one["logger"]]
    for one in loggers:
        if refusing := one["stats"]["log"]["refusing"]:
            return f"for logger {one['name']}, which accepts nothing more: {refusing}; make room and restart it"
    if loggers:
        return f"for logger {loggers[0]['name']} to acknowledge what was published"
    return "for a logger to acknowledge what was published: none answers; is it running?"


async def _publish(
    member: Group,
    subject: str,
    events: AsyncIterator[bytes],
    rate: float,
    attributes: dict[str, Any],
    patience: _Patience,
) -> None:
    loop = asyncio.get_running_loop()
    begin, done = loop.time(), 0
    async for payload in events:
        try:
            member.publish(subject, payload, **attributes)
        except Full:
            await _publish_late(member, subject, payload, attributes, patience)
        done += 1
        if rate and (early := begin + done / rate - loop.time()) > 0.001:
            await asyncio.sleep(early)
        elif done % _AT_ONCE == 0:
            await asyncio.sleep(0)


async def _publish_late(
    member: Group, subject: str, payload: bytes, attributes: dict[str, Any], patience: _Patience
) -> None:
    """Publish when there is room again; Timeout, with the reason, if there is none for long."""
    patience.begin()
    try:
        async with asyncio.timeout(patience.left()):
            with waiting("waiting for room to publish: what was published before is not sent or not logged"):
                await member.publish_wait(subject, payload, **attributes)
        patience.over()
    except TimeoutError:
        why = await _awaited(member) if member.loggers() else "for the network"
        raise Timeout(f"no room to publish, after {patience.seconds:g} s: waiting {why}") from None


async def _numbered(payload: str | None, count: int) -> AsyncIterator[bytes]:
    for number in range(count):
        yield b"%d" % number if payload is None else payload.encode()


async def _lines(longest: int) -> AsyncIterator[bytes]:
    """The lines of standard input, be it a file, a pipe or a terminal.

    A daemon thread reads them, so that an interrupt need not wait for the next line to be typed. What it cannot read
    is an error here.
    """
    some: asyncio.Queue[list[bytes] | OSError] = asyncio.Queue(maxsize=4)
    loop = asyncio.get_running_loop()

    def hand_over(found: list[bytes] | OSError) -> None:
        putting = some.put(found)
        try:
            asyncio.run_coroutine_threadsafe(putting, loop).result()
        except RuntimeError:  # the loop has ended
            putting.close()
            raise

    def read() -> None:
        rest = bytearray()  # of a line whose end has not come yet; one that is too long for an event is passed on, too
        with suppress(RuntimeError, CancelledError):
            try:
                while chunk := os.read(sys.stdin.fileno(), _CHUNK_BYTES):
                    first, *others = chunk.split(b"\n")
                    rest += first
                    if others or len(rest) > longest:
                        hand_over([bytes(rest), *others[:-1]])
                        rest = bytearray(others[-1] if others else b"")
            except OSError as error:
                hand_over(OSError(error.errno, error.strerror, "standard input"))
            hand_over([bytes(rest)] if rest else [])
            hand_over([])

    threading.Thread(target=read, daemon=True).start()
    while found := await some.get():
        if isinstance(found, OSError):
            raise found
        for line in found:
            yield line


def _attributes(texts: list[str]) -> dict[str, Any]:
    """Parse attributes: what looks like a number or a boolean becomes one, everything else is a string."""
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise SettingError(f"--attribute {text!r}: must look like price=101.5")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
        if not isinstance(found[name], bool | int | float | str):
            found[name] = value
    try:
        return found if not found or pack(found) else {}
    except ValueError as error:
        raise SettingError(f"--attribute: {error}") from None
