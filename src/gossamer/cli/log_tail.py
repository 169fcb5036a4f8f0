"""`gossamer log tail`: the last events of a log, and those that come."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gossamer.cli.log import StorePath, app, keys_in
from gossamer.cli.sub import as_line
from gossamer.core.packet_sets import Horizon
from gossamer.core.packets import Packet
from gossamer.live.names import learn
from gossamer.wire import WireError
from gossamer.wire.events import Event, is_fragment, unpack
from gossamer.wire.fragments import Reassembler

if TYPE_CHECKING:
    from gossamer.pipeline.opening import Open
    from gossamer.store import LogStore

_LOOK_S = 0.2


@app.command()
def tail(
    store: StorePath,
    last: Annotated[int, typer.Option(min=0, help="How many events to show.")] = 10,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what is logged, until interrupted.")
    ] = False,
    count: Annotated[int, typer.Option(min=0, help="With --follow, stop after this many; 0 means never.")] = 0,
    key_file: Annotated[
        Path | None,
        typer.Option(help="File with the group's keys, one per line; GOSSAMER_KEY if not given.", exists=True),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per event.")] = False,
) -> int:
    """Print the last events of STORE, by the time at which they were stored. A logger may be writing to it.

    Exit code 1 if packets could not be read; they are named on standard error.

    Examples:

        gossamer log tail /var/log/quotes --last 3

        gossamer log tail /var/log/quotes --follow --json | jq .subject
    """
    from gossamer.pipeline.opening import open_for_reading, opener
    from gossamer.pipeline.options import ReadOptions

    options = ReadOptions.parse({"store": str(store), **keys_in(key_file)})
    with open_for_reading(options.store) as log:
        reading = _Tail(log, opener(options))
        shown = 0
        for event in reading.last(last):
            typer.echo(as_line(event, as_json))
        while follow and not (count and shown >= count):
            for event in reading.new():
                typer.echo(as_line(event, as_json))
                shown += 1
                if count and shown >= count:
                    break
            else:
                time.sleep(_LOOK_S)
    return 1 if reading.unreadable else 0


class _Tail:
    """A log that is read from its end."""

    def __init__(self, store: "LogStore", open_datagram: "Open") -> None:
        self.unreadable = 0
        self._store = store
        self._open = open_datagram
        self._reassembler = Reassembler()
        self._read: Horizon = {sender: numbers.last for sender, numbers in store.held().items()}

    def last(self, count: int) -> list[Event]:
        """The last events of what was there at first."""
        self._learn_names()
        found: list[tuple[int, Event]] = []
        for sender, at in self._read.items() if count else ():
            found += self._events(sender, max(0, at - count + 1), at)
        found.sort(key=lambda timed: timed[0])  # those of one packet stay in their order
        return [event for _, event in found[-count:]]

    def new(self) -> Iterator[Event]:
        """What was logged since this was asked before."""
        held = self._store.held()
        if any(sender not in self._read for sender in held):
            self._learn_names()
        for sender, numbers in held.items():
            first = self._read.get(sender, -1) + 1
            if numbers.last >= first:
                self._read[sender] = numbers.last
                yield from (event for _, event in self._events(sender, first, numbers.last))

    def _events(self, sender: int, first: int, last: int) -> list[tuple[int, Event]]:
        """The events of these packets, each with the time at which it was stored."""
        from gossamer.pipeline.opening import body_of
        from gossamer.store import Damaged

        found: list[tuple[int, Event]] = []
        while first <= last:
            try:
                for entry in self._store.read(sender, first, last):
                    first = entry.seqno + 1
                    packet = Packet(sender, entry.seqno, body_of(entry, self._open))
                    found += [(entry.time_ns, event) for event in self._unpack(packet)]
                break
            except (Damaged, WireError) as error:
                first = error.seqno + 1 if isinstance(error, Damaged) else first
                self.unreadable += 1
                typer.echo(f"sender {sender}: {error}", err=True)
        return found

    def _learn_names(self) -> None:
        """What the logger knows the senders by, which have left since, most of them."""
        for member, name in self._store.names().items():
            learn(member, name)

    def _unpack(self, packet: Packet) -> list[Event]:
        if is_fragment(packet.body):
            event = self._reassembler.add(packet)
            return [] if event is None else [event]
        return unpack(packet)
