"""A logger's side of durable subscribers: who reads which name, and how far each is; told and asked by letter.

Positions are in the store, beside those of Spark's consumers, under a name that says what they are. A logger that comes
back is told by the others what it missed.
"""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from gossamer.core.packet_sets import Horizon
from gossamer.live.log_disk import LogDisk
from gossamer.live.mail import COMMIT, COMMITTED, CONSUMERS, READ, READING, RELEASE, Mail
from gossamer.live.member import Member
from gossamer.logging.registrar import Outcome, Registrar
from gossamer.store.contract import StoreDamaged, StoreError
from gossamer.wire import WireError

SUBSCRIBER = "sub/"
"""What the names of durable subscribers begin with in a store: the others are Spark's."""
LOOK_S = 0.25


class Readers:
    """What one logger knows of durable subscribers."""

    def __init__(self, member: Member, disk: LogDisk, mail: Mail) -> None:
        self._member = member
        self._disk = disk
        self._mail = mail
        self._registrar = Registrar()
        self._members: frozenset[int] = frozenset()
        self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look_again)
        for topic, reader in (
            (READ, self._read),
            (COMMIT, self._commit),
            (RELEASE, self._release),
            (CONSUMERS, self._told_consumers),
        ):
            mail.on(topic, reader)

    def stop(self) -> None:
        """The logger stops."""
        self._timer.cancel()

    def _look_again(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(LOOK_S, self._look_again)
        self.look()

    def look(self) -> None:
        """Called a few times a second: who is there, and who decides?"""
        roster = self._member.stack.roster
        here = frozenset(roster.members)
        loggers = [logger for logger in roster.loggers if logger in here or logger == self._member.me]
        self._registrar.decides(self._member.now(), min(loggers) == self._member.me)
        for reader in self._members - here:
            self._registrar.left(reader)
        new = [logger for logger in loggers if logger not in self._members and logger != self._member.me]
        self._members = here.difference(new if new and not self._tell_consumers(new) else ())

    def _read(self, source: int, content: bytes) -> None:
        asked = parse(content, name=str, renews=bool)
        self.look()
        name = SUBSCRIBER + asked["name"]
        try:
            known = {consumer.name: consumer.committed for consumer in self._disk.store.consumers()}
            ends = {} if name in known else {s: numbers.last for s, numbers in self._disk.store.held().items()}
            readable = True
        except StoreDamaged:
            known, ends, readable = {}, {}, False
        except StoreError:
            return  # too many readers, for example: it is asked again
        roster = self._member.stack.roster
        loggers = [logger for logger in roster.loggers if logger in roster.members or logger == self._member.me]
        outcome: Outcome | None = None
        holder = -1
        if min(loggers) == self._member.me:
            outcome, holder = self._registrar.asked(
                self._member.now(), asked["name"], source, renews=asked["renews"], known=name in known or not readable
            )
        positions = known.get(name)
        answer = {
            "name": asked["name"],
            "outcome": outcome,
            "holder": holder,
            "positions": None if positions is None else texts(positions),
            "ends": texts(ends),
            "readable": readable,
        }
        self._mail.write(source, READING, json.dumps(answer).encode())

    def _commit(self, source: int, content: bytes) -> None:
        commit = parse(content, name=str, number=int, positions=dict)
        answer = json.dumps({"name": commit["name"], "number": commit["number"]}).encode()
        self._keep(commit["name"], commit["positions"], lambda: self._mail.write(source, COMMITTED, answer))

    def _keep(self, name: str, positions: dict[str, Any], done: Callable[[], None]) -> None:
        self._disk.commit(SUBSCRIBER + name, numbers(positions), done)

    def _release(self, source: int, content: bytes) -> None:
        self._registrar.released(parse(content, name=str)["name"], source)

    # Among loggers.

    def _tell_consumers(self, loggers: list[int]) -> bool:
        """Tell these how far every reader is; False if that cannot be read now."""
        try:
            consumers = self._disk.store.consumers()
        except StoreError:
            return False
        for consumer in consumers:
            if consumer.name.startswith(SUBSCRIBER):
                told = {"name": consumer.name.removeprefix(SUBSCRIBER), "positions": texts(consumer.committed)}
                for logger in loggers:
                    self._mail.write(logger, CONSUMERS, json.dumps(told).encode())
        return True

    def _told_consumers(self, source: int, content: bytes) -> None:
        told = parse(content, name=str, positions=dict)
        if source in self._member.stack.roster.loggers:
            self._keep(told["name"], told["positions"], lambda: None)


def parse(content: bytes, **fields: type) -> dict[str, Any]:
    """The fields of a letter; WireError if one is missing or is of another type."""
    try:
        found = json.loads(content)
        wrong = [name for name, kind in fields.items() if not isinstance(found.get(name), kind)]
    except (ValueError, AttributeError, RecursionError):
        raise WireError("a letter that is not JSON") from None
    if wrong:
        raise WireError(f"a letter without {wrong}")
    return dict(found)


def texts(positions: Horizon) -> dict[str, int]:
    """Positions as JSON has them."""
    return {str(sender): last for sender, last in positions.items()}


def numbers(positions: dict[str, Any]) -> Horizon:
    """Positions from JSON; WireError if they are none."""
    try:
        found = {int(sender): int(last) for sender, last in positions.items()}
    except (TypeError, ValueError):
        raise WireError("positions that are no numbers") from None
    if any(not 0 <= number < 1 << 63 for pair in found.items() for number in pair):
        raise WireError("positions that cannot be")
    return found
