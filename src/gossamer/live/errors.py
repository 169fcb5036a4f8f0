"""What a group tells its application by raising: little to import for those who only want to catch it."""

_SHOWN = 3
"""A message names so many members."""


class NameInUse(RuntimeError):
    """A member that resumes under its name found another member running under it, or was replaced by one."""


class NotDurable(RuntimeError):
    """Something was published that no logger has, and none will get."""


class Overrun(RuntimeError):
    """A subscription with `when_full="raise"` was full, and ended."""


class Unsent(RuntimeError):
    """A member left before what it had published was safe: durable or, without a logger, with all that were there."""

    def __init__(self, group: str, packets: int, members: tuple[int, ...], loggers: tuple[int, ...]) -> None:
        self.packets = packets
        """How many of the last packets are not safe."""
        self.members = members
        """The members that are not known to have them."""
        self.loggers = loggers
        """The loggers, none of which has made all of them durable; empty if the group has none."""
        others = f" and {len(members) - _SHOWN} more" if len(members) > _SHOWN else ""
        who = f" at {', '.join(map(str, members[:_SHOWN]))}{others}" if members else ""
        what = f"{packets} packet{'s' if packets != 1 else ''}"
        if loggers:
            super().__init__(f"group {group!r}: left with {what} that no logger has acknowledged")
        else:
            super().__init__(
                f"group {group!r}: left with {what} not known to have arrived{who}; there is no logger, so nothing is "
                "durable"
            )
