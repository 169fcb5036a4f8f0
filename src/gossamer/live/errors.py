"""What a group tells its application by raising: little to import for those who only want to catch it."""

from gossamer.core.errors import Error
from gossamer.live.names import name_of

_SHOWN = 3
"""A message names so many members."""


class Full(Error):
    """Too much is published and not yet sent: try again later, or `await publish_wait(...)`."""

    packets = 1
    """There must be room for this many packets before it is worth trying again."""


class MemberFailed(Error, RuntimeError):
    """The member met with too many errors of its own and has stopped; the last one is its cause."""


class NameInUse(Error, RuntimeError):
    """A member that resumes under its name found another member running under it, or was replaced by one."""


class NobodyListens(Error, LookupError):
    """A request that no member can answer, because nobody subscribes to its subject."""


class NoLogger(Error, RuntimeError):
    """Something that only a logger can do was asked of a group that has none."""


class NotAMember(Error, RuntimeError):
    """A call on a group that is not joined yet, or was left, or whose event loop has stopped."""


class NotAnEvent(Error, ValueError):
    """What was to be published cannot be an event: it is too large, or an attribute cannot be sent."""


class NotDurable(Error, RuntimeError):
    """Something was published that no logger has, and none will get."""


class Overrun(Error, RuntimeError):
    """A subscription with `when_full="raise"` was full, and ended."""


class Timeout(Error, TimeoutError):
    """What was waited for did not happen in the time given; the message says what is missing."""


class WrongThread(Error, RuntimeError):
    """A call that only the thread of the group's event loop can make."""


class WrongType(Error, TypeError):
    """An argument of the wrong type; the message says what to pass."""


class WrongValue(Error, ValueError):
    """An argument that cannot be meant here; the message says what to pass."""


class Unsent(Error, RuntimeError):
    """A member left before what it had published was safe: durable or, without a logger, with all that were there."""

    def __init__(
        self, group: str, packets: int, members: tuple[int, ...], loggers: tuple[int, ...], never_sent: int = 0
    ) -> None:
        self.packets = packets
        """How many of the last packets are not safe."""
        self.members = members
        """The members that are not known to have them."""
        self.loggers = loggers
        """The loggers, none of which has made all of them durable; empty if the group has none."""
        self.never_sent = never_sent
        """How many events were published while the member was disconnected, and have gone with it."""
        others = f" and {len(members) - _SHOWN} more" if len(members) > _SHOWN else ""
        who = f" at {', '.join(map(name_of, members[:_SHOWN]))}{others}" if members else ""
        what = f"{packets} packet{'s' if packets != 1 else ''}"
        if never_sent:
            events = f"{never_sent} event{'s' if never_sent != 1 else ''}"
            super().__init__(
                f"group {group!r}: left while it was disconnected: {events} published meanwhile ({what}) will never be "
                "sent; reconnect() before leaving"
            )
        elif loggers:
            super().__init__(f"group {group!r}: left with {what} that no logger has acknowledged")
        else:
            super().__init__(
                f"group {group!r}: left with {what} not known to have arrived{who}; there is no logger, so nothing is "
                "durable"
            )


def replaced(group: str, name: str) -> NameInUse:
    """Another process has taken this member's place."""
    return NameInUse(
        f"group {group!r}: another process joined under the name {name!r} while this one did not answer; this one is "
        "no longer a member"
    )


def broken_down(group: str, error: Exception) -> MemberFailed:
    """Too much went wrong in this member, at last `error`."""
    failure = MemberFailed(
        f"group {group!r}: this member met with too many errors of its own and has stopped; the last was "
        f"{type(error).__name__}: {error}; join again, and please report it"
    )
    failure.__cause__ = error
    return failure
