"""What one member says to one other, for its application: a letter, in as many parts as it takes, each acknowledged."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(slots=True)
class Letter:
    """A part of a letter from the source, for the application of the member that hears it.

    `number` counts the source's letters to that member; `topic` says which part of the application it is for.
    """

    kind: ClassVar[str] = "gossip"
    number: int
    topic: int
    part: int
    parts: int
    content: bytes


@dataclass(slots=True)
class LetterSeen:
    """The source has this part of a letter."""

    kind: ClassVar[str] = "ack"
    number: int
    part: int
