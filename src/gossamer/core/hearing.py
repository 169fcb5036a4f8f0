"""Whether a member hears the group's multicast, and why not."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Hearing:
    """As `flow.listening` has it; a member without that rung always listens."""

    on: bool = True
    why: str = ""
    """Why it does not listen; empty while it does."""
    times: int = 0
    """How often it has left the multicast."""
    let_go: dict[int, float] = field(default_factory=dict)
    """The senders that do not wait for it, and when each last said so."""
    carried: float = 0.0
    """Packets per second that came through its path while senders sent more than that; what it may insist on a share
    of while it does not listen, and 0 while it does."""
