"""Questions that anybody may ask, a member or not, what is asked of an address before more is sent, and of a sender."""

from dataclasses import dataclass
from typing import ClassVar


@dataclass(slots=True)
class Probe:
    """Who are you, and how are you? Asked by anybody, a member or not; the answer names `nonce`.

    `aloud` asks for the answer over multicast, to learn whether it can be heard. In a group without a key the answer
    is not much longer than the question, or anybody could use us to flood others: `padding` makes room for it.
    """

    kind: ClassVar[str] = "request"
    nonce: int
    aloud: bool = False
    padding: bytes = b""


@dataclass(slots=True)
class WhoKeeps:
    """Do you keep this packet, and who should? Asked by anybody, like `Probe`, and answered in the same way."""

    kind: ClassVar[str] = "request"
    nonce: int
    sender: int
    seqno: int
    padding: bytes = b""


@dataclass(slots=True)
class Challenge:
    """Does a process of this group hear here? It is to return `nonce`, before more is sent to this address."""

    kind: ClassVar[str] = "request"
    nonce: int


@dataclass(slots=True)
class Call:
    """The source has something for `member`, and wants to know where that hears: it is to challenge the source."""

    kind: ClassVar[str] = "request"
    member: int


@dataclass(slots=True)
class Proof:
    """The answer to a `Challenge`."""

    kind: ClassVar[str] = "gossip"
    nonce: int


@dataclass(slots=True)
class Profile:
    """The answer to a `Probe`, the member's standing and counters, or to a `WhoKeeps`; as JSON."""

    kind: ClassVar[str] = "gossip"
    nonce: int
    text: bytes


@dataclass(slots=True)
class Where:
    """How far have you come? Asked of a sender whose packets come far below what was seen; the answer names `nonce`."""

    kind: ClassVar[str] = "request"
    nonce: int
    channel: int = 0


@dataclass(slots=True)
class Here:
    """The answer to a `Where`: `last` is the last number of the source in that channel."""

    kind: ClassVar[str] = "heartbeat"
    nonce: int
    last: int
    channel: int = 0
