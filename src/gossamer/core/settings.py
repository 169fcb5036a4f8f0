"""The settings of a stack: which rung does what, and every number that a rung needs.

All presets share this one table, so that a rung can be swapped without learning new words.
"""

from dataclasses import dataclass

from gossamer.core.schema import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolSettings:
    """One protocol: a choice for each rung of the ladder, and its numbers."""

    name: str = setting("unreliable", "The preset from which the other settings start.")

    # The rungs.
    dissemination: str = setting(
        "multicast",
        "First pass: IP multicast, random trees, or copies.",
        choices=("multicast", "trees", "copies"),
    )
    repair: tuple[str, ...] = setting(
        (),
        "How gaps are filled: a chain, each repair passing on what it cannot fill. A single word is a chain of one,"
        " with `logger` after it if there are loggers; `none` is empty.",
        choices=("acknowledged", "negative", "digest", "logger"),
    )
    buffering: str = setting("none", "What a member keeps for others.", choices=("none", "age", "size"))
    heartbeat: str = setting(
        "none",
        "How a last packet is missed: never, at each idle tick, ever more rarely, or by hashed gossip.",
        choices=("none", "variable", "hashed"),
    )
    membership: str = setting("static", "Who says who is a member.", choices=("static", "sponsored"))
    ordering: str = setting("none", "In which order packets reach the application.", choices=("none", "fifo"))
    stability: str = setting(
        "none",
        "When the application is told that every member has a packet: never, when gossip has offered it for `gc_rounds`"
        " rounds, or when every member has said so (its own packets only).",
        choices=("none", "aged", "acknowledged"),
    )

    # Gossip.
    gossip_period: float = setting(0.25, "Length of a round (000 Table 7.1).", unit="s", above=0, high=3600)
    gossip_period_max: float = setting(
        0.0,
        "Rounds stretch up to this while nothing is missing (000 §8); 0 keeps them fixed.",
        unit="s",
        low=0,
        high=3600,
    )
    fanout: int = setting(1, "Members gossiped to in a round.", low=1, high=1000)
    selection: str = setting(
        "linear", "How a target is drawn, by round-trip time.", choices=("uniform", "linear", "quadratic")
    )
    view_size: int = setting(0, "Partial views: peers a member knows (004 opt. 6); 0 is all.", low=0, high=100_000)
    unsynchronized: bool = setting(True, "Each member counts its own rounds, out of step (004 opt. 5).")
    round_trips: bool = setting(False, "Measure round-trip times even where the selection does not need them.")
    gc_rounds: int = setting(10, "Rounds for which a packet is kept for others (GCLIMIT).", unit="rounds", low=1)
    buffer_packets: int = setting(1000, "Room of a buffer by size.", unit="packets", low=1)
    buffer_bytes: int = setting(0, "Room of a buffer by size, in bytes; 0 is no limit but the packets.", low=0)
    peer_rounds: int = setting(
        40,
        "Rounds after which a gap goes to the logger even without a note, as a fail-safe.",
        unit="rounds",
        low=1,
    )
    ask_again: float = setting(
        0.0,
        "A request to a peer that brings nothing in this time and two round trips is repeated, ever more rarely and"
        " first to the packet's sender, until a round takes over; 0 leaves it to the rounds.",
        unit="s",
        low=0,
        high=3600,
    )
    multicast_after: int = setting(
        0, "A repair asked for by this many is multicast (000 §8; 004 opt. 7 says 2); 0 never.", low=0
    )
    adaptive: bool = setting(False, "Ask the logger first while it is not congested (000 §8).")
    idle_after: float = setting(
        0.0,
        "A sender that has sent nothing for this long says how far it has come (hashed heartbeats); 0 is a round.",
        unit="s",
        low=0,
        high=3600,
    )
    signature_rounds_max: int = setting(
        8,
        "Hash signatures are sent every round after a disagreement, and down to every n rounds in peace.",
        low=1,
    )

    # pbcast.
    same_round: bool = setting(True, "Serve a solicitation only in its round (004 opt. 1).")
    round_bytes: int = setting(
        65_536, "Bytes a member retransmits per round (004 opt. 2); 0 is no limit.", unit="bytes", low=0
    )
    cyclic: bool = setting(True, "Do not ask again for what was asked for in the last round (004 opt. 3).")
    recent_first: bool = setting(True, "Recover the newest packets first (004 opt. 4).")
    region_rtt: float = setting(
        0.0,
        "A repair from farther than this is multicast again in the region (004 opt. 7); 0 never.",
        unit="s",
        low=0,
    )
    region_hops: int = setting(3, "How far a regional multicast goes.", unit="hops", low=1, high=255)
    trees: int = setting(4, "Random spanning trees to choose from (004 §4).", low=1, high=255)
    tree_degree: int = setting(2, "Children of a node in such a tree.", low=1, high=255)

    # Loggers and senders.
    loggers: int = setting(0, "Members that are loggers (the last ones).", low=0, high=1000)
    retry_period: float = setting(
        0.25,
        "How long an unanswered send or request waits before it is repeated.",
        unit="s",
        above=0,
        high=3600,
    )
    send_buffer: int = setting(
        100_000,
        "Packets kept until they are acknowledged; publishing more is refused.",
        unit="packets",
        low=1,
    )
    rate_limit: float = setting(
        0.0,
        "Packets a sender may send per second (004 §5); the rest waits; 0 is no limit.",
        unit="1/s",
        low=0,
    )
    admission: int = setting(
        0,
        "While this many packets are buffered, new ones wait (004 §5); 0 is no limit.",
        unit="packets",
        low=0,
    )
    window: int = setting(
        0,
        "A sender is at most this far ahead of the receivers that keep up; 0 is no limit.",
        unit="packets",
        low=0,
    )
    reach: int = setting(
        0,
        "A sender is at most this far ahead of the first gap of such a receiver: peers keep no more; 0 is no limit.",
        unit="packets",
        low=0,
    )
    patience: float = setting(
        0.1,
        "A receiver that holds up a sender for longer than this is not waited for until it has caught up.",
        unit="s",
        above=0,
    )
    queue_packets: int = setting(
        100_000,
        "Packets that may wait to be sent for the first time; publishing more is refused.",
        unit="packets",
        low=1,
    )
    request_packets: int = setting(
        0,
        "Packets that a member has asked a peer or a logger for at a time; 0 is no limit.",
        unit="packets",
        low=0,
    )
    service_limit: int = setting(
        1000, "Repairs a member may send per second (000 §7.1); 0 is no limit.", unit="repairs/s", low=0
    )
    service_queue: int = setting(10_000, "Repairs that may wait to be sent.", unit="packets", low=1)
    log_timeout: float = setting(
        172_800.0,
        "The fail-safe: a logged packet older than this goes, acknowledged or not.",
        unit="s",
        above=0,
    )
    heartbeat_min: float = setting(0.25, "First pause of variable heartbeats.", unit="s", above=0)
    heartbeat_max: float = setting(32.0, "Longest pause of variable heartbeats.", unit="s", above=0)
    heartbeat_factor: float = setting(2.0, "Each pause is this much longer.", low=1, high=100)
    sequence_block: int = setting(
        1000, "Numbers a sender checks out at once, durably (000 §6.2).", unit="packets", low=1
    )

    retention_age: float = setting(
        0.0,
        "A logger keeps a packet for at least this long, even if all have it.",
        unit="s",
        low=0,
    )
    retention_bytes: int = setting(
        0,
        "A logger keeps at most this much of what all have, the newest; 0 sets no limit to the age.",
        unit="bytes",
        low=0,
    )

    # Membership and crashes.
    suspect_after: float = setting(
        0.0,
        "A member that was not heard for twice this long is taken for disconnected; 0 never.",
        unit="s",
        low=0,
    )
    sponsors: int = setting(2, "Sponsors that a join or leave needs, unless a logger is one (k).", low=1, high=100)
    found_after: int = setting(
        0, "Unanswered announcements after which a process founds the group itself; 0 never.", low=0, high=1000
    )
    recovery: str = setting(
        "at-most-once",
        "After a crash: join anew, or resume at the logger.",
        choices=("at-most-once", "at-least-once"),
    )
