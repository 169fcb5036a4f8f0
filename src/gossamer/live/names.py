"""What people call members: names by number, for tables, messages and `event.source`, and for nothing else.

A name is what a member says of itself, and two may have the same one; numbers are what the protocols go by. Numbers are
random, so one table serves all groups of a process; it is bounded, and forgets the name that was learned first.
"""

from gossamer.core.ids import owner_of
from gossamer.core.views import NAME_CHARACTERS_MAX

NAMES_MAX = 10_000
UNKNOWN = "nobody known"

_names: dict[int, str] = {}


def learn(member: int, name: str) -> None:
    """Remember that a member is called so, if that can be shown to people."""
    if name and len(name) <= NAME_CHARACTERS_MAX and name.isprintable() and _names.get(member) != name:
        if len(_names) >= NAMES_MAX:
            _names.pop(next(iter(_names)), None)
        _names[member] = name


def known() -> dict[int, str]:
    """All names, those that were learned last at the end."""
    return dict(_names)


def name_of(member: int) -> str:
    """What a member, or the owner of a stream, is called; its number, if it has not said."""
    if member < 0:  # of a loss, where nobody knows whose packets are missing
        return UNKNOWN
    member = owner_of(member)
    return _names.get(member) or str(member)
