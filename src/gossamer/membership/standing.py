"""A process's own standing in its group, and everything that can change it, as one table.

Outside, it wants in: it is joining until sponsors have answered. If nobody ever answers it founds the group, and is
alone until it meets somebody: then it stays, or joins those who were there before. It is in until it wants out, and
leaving until sponsors have heard that.
"""

from enum import Enum
from typing import Final


class Standing(Enum):
    """What a process is to its group."""

    OUTSIDE = "outside"
    JOINING = "joining"
    ALONE = "alone"
    IN = "in"
    LEAVING = "leaving"

    @property
    def is_inside(self) -> bool:
        """Whether it is a member."""
        return self in (Standing.IN, Standing.ALONE)


class Event(Enum):
    """What can change it."""

    SPONSORED = "enough sponsors have answered"
    UNANSWERED = "nobody answers, and it never founded a group before"
    UNANSWERED_AGAIN = "nobody answers, but it knows what is new: it has founded a group before, or it is a logger"
    MET_ELDERS = "there are others, and they were there before"
    MET_YOUNGER = "there is another one, which will join us"
    ASKED_TO_SPONSOR = "somebody wants to join"
    WANTS_OUT = "the application wants to leave"


TRANSITIONS: Final = {
    (Standing.JOINING, Event.SPONSORED): Standing.IN,
    (Standing.JOINING, Event.UNANSWERED): Standing.ALONE,
    (Standing.JOINING, Event.UNANSWERED_AGAIN): Standing.IN,
    (Standing.JOINING, Event.WANTS_OUT): Standing.LEAVING,
    (Standing.ALONE, Event.MET_ELDERS): Standing.JOINING,
    (Standing.ALONE, Event.MET_YOUNGER): Standing.IN,
    (Standing.ALONE, Event.ASKED_TO_SPONSOR): Standing.IN,
    (Standing.ALONE, Event.WANTS_OUT): Standing.LEAVING,
    (Standing.IN, Event.ASKED_TO_SPONSOR): Standing.IN,
    (Standing.IN, Event.WANTS_OUT): Standing.LEAVING,
    (Standing.LEAVING, Event.WANTS_OUT): Standing.LEAVING,
    (Standing.LEAVING, Event.SPONSORED): Standing.OUTSIDE,
    (Standing.OUTSIDE, Event.WANTS_OUT): Standing.LEAVING,
}
"""What a standing becomes; whatever is not listed changes nothing."""
