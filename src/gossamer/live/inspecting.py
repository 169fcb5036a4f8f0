"""The group as an application looks at it: members, notices, counters."""

from numbers import Integral
from typing import Any

from gossamer.live.envelope import Envelope
from gossamer.live.home import Home, at_home
from gossamer.live.ledger import Ledger, known_members
from gossamer.live.member import Member
from gossamer.live.misuse import check_is
from gossamer.live.names import name_of
from gossamer.live.notices import Bulletin, NoticeStream
from gossamer.wire.keys import KeyRing


class Inspecting:
    """What a `Group` tells of itself and of the others."""

    _home: Home
    _member: Member
    _envelope: Envelope
    _ledger: Ledger
    _bulletin: Bulletin
    _is_over: bool

    @at_home
    def members(self) -> tuple[int, ...]:
        """The members of the group, as far as this member knows; they are owed whatever is published from now on."""
        return known_members(self._member)

    @at_home
    def blocked(self) -> str:
        """Why nothing can be delivered now, in a group with one order for all (`order="total"`); empty if it can."""
        return self._member.stack.order.blocked()

    @at_home
    def loggers(self) -> tuple[int, ...]:
        """The members that are loggers."""
        return self._member.stack.roster.loggers

    def notices(self) -> NoticeStream:
        """What happens to the group, from now on, as an asynchronous iterator of `Notice(kind, text, member, ...)`.

        Members join, leave, are suspected or lag; packets are lost; keys, clocks or versions do not fit; a logger
        refuses; multicast does not arrive; a subscription is not read fast enough. What is wrong is also logged, as
        warnings of `logging.getLogger("gossamer")`.
        """
        self._home.check_here("read notices in that thread, or use gossamer.join_sync")
        return self._bulletin.stream()

    def name_of(self, member: int) -> str:
        """What people call a member; its number, if it has not said."""
        check_is(member, Integral, "name_of takes the number of a member, such as event.sender")
        return name_of(member)

    @property
    def is_over(self) -> bool:
        """Whether this member has left the group."""
        return self._is_over

    @property
    def keys(self) -> KeyRing | None:
        """This member's keys, to be changed while it runs: `install`, `use`, `remove`; None without a key."""
        return self._envelope.keys

    @at_home
    def stats(self) -> dict[str, Any]:
        """The loss ledger and every counter, as a plain dict.

        `received` = `first_pass` + `peer` + `logger`: events from others, by the rung through which they came.
        """
        return self._ledger.counters()

    @at_home
    def profile(self) -> dict[str, Any]:
        """What this member answers to a probe: who it is, whom it knows, and its counters."""
        return self._ledger.profile()
