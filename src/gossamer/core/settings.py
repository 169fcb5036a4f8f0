"""The settings of a stack: which rungs it has, and every number that a rung needs.

All presets share this one table, so a rung can be swapped without learning new names.
"""

from dataclasses import dataclass

from gossamer.core.ids import CHANNELS_MAX
from gossamer.core.schema import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtocolSettings:
    """One protocol: a choice for each rung of the ladder, and the numbers that go with it."""

    name: str = setting("unreliable", "The preset that supplies every setting not given.")

    # The rungs.
    dissemination: str = setting(
        "multicast",
        "How packets are first sent: by IP multicast, along random trees, as one copy to each member, or to the primary"
        " and along the propagation graph by which they are ordered (002).",
        choices=("multicast", "trees", "copies", "graph"),
    )
    repair: tuple[str, ...] = setting(
        (),
        "How gaps are filled: a chain in which each repair passes on what it cannot fill. A single word is a chain of"
        " one, followed by `logger` if there are loggers; `none` is an empty chain.",
        choices=("acknowledged", "negative", "digest", "coordinator", "srm", "logger", "exclusion"),
    )
    buffering: str = setting(
        "none",
        "What a member keeps for others: nothing, packets of the last `gc_rounds` rounds, the last `buffer_packets`,"
        " everything for a short time and for long only what hashes to it (003), about `bufferers` members for each"
        " packet, or what not all members have yet.",
        choices=("none", "age", "size", "hashed", "unstable"),
    )
    heartbeat: str = setting(
        "none",
        "How receivers learn that a sender's last packet exists: not at all, by heartbeats at growing intervals, or by"
        " hashes in gossip.",
        choices=("none", "variable", "hashed"),
    )
    membership: str = setting(
        "static",
        "Who belongs to the group: a fixed list of members, members that join and leave through sponsors, or views that"
        " all members agree on, with the same packets in each (virtual synchrony).",
        choices=("static", "sponsored", "synchronous"),
    )
    ordering: str = setting(
        "none",
        "The order in which packets reach the application: as they arrive, each sender's as sent, or all packets at all"
        " members in one order, which is given by the primary of a propagation graph (002), by one member for all"
        " channels, or by priorities that all receivers propose and the sender decides (simulations only).",
        choices=("none", "fifo", "total", "central", "two-phase"),
    )
    stability: str = setting(
        "none",
        "When the application is told that every member has a packet: never, once gossip has offered it for"
        " `gc_rounds` rounds, once every member has acknowledged it in gossip (its own packets only), or once every"
        " member has said so when its sender asked, which then tells all of them.",
        choices=("none", "aged", "acknowledged", "polled"),
    )

    channels: int = setting(
        1,
        "How many channels the group may have: a member hears channel 0, and of the others those that it listens to.",
        low=1,
        high=CHANNELS_MAX,
    )

    # Gossip.
    gossip_period: float = setting(
        0.25,
        "Length of a gossip round (000 Table 7.1). Shorter rounds repair sooner and cost more traffic.",
        unit="s",
        above=0,
        high=3600,
    )
    gossip_period_max: float = setting(
        0.0,
        "How long rounds may grow while nothing is missing (000 §8); 0 keeps them at `gossip_period`.",
        unit="s",
        low=0,
        high=3600,
    )
    fanout: int = setting(1, "Members to gossip to in each round. Raise it if losses are heavy.", low=1, high=1000)
    selection: str = setting(
        "linear",
        "How gossip targets are drawn: uniformly, or with a linear or quadratic preference for short round-trip times.",
        choices=("uniform", "linear", "quadratic"),
    )
    view_size: int = setting(
        0, "Number of peers a member knows, for partial views (004 opt. 6); 0 means all.", low=0, high=100_000
    )
    unsynchronized: bool = setting(True, "Each member counts its own rounds, out of step with the others (004 opt. 5).")
    round_trips: bool = setting(False, "Measure round-trip times even if `selection` does not need them.")
    gc_rounds: int = setting(
        10,
        "Rounds for which a packet is kept for others (GCLIMIT). More rounds leave less to the logger and take more"
        " memory.",
        unit="rounds",
        low=1,
    )
    buffer_packets: int = setting(1000, "Packets that a buffer by size can hold.", unit="packets", low=1)
    buffer_bytes: int = setting(
        0,
        "Bytes that a buffer by size can hold; 0 means that only `buffer_packets` limits it. With hashed bufferers:"
        " packets are collected once this much has come after them; 0 means that only `gc_rounds` decides.",
        unit="bytes",
        low=0,
    )
    bufferers: int = setting(
        0,
        "Members that keep a packet for long (003: C), of a group of any size; everybody, if there are no more. 0"
        " chooses the fewest for which `buffer_failure` holds at `buffer_loss`, as the group grows and shrinks, but at"
        " least one.",
        unit="members",
        low=0,
        high=100_000,
    )
    buffer_failure: float = setting(
        0.001,
        "The probability that a packet that somebody lacks is kept for long by nobody (003: P_fail), for which"
        " `bufferers` is chosen.",
        above=0,
        high=1,
    )
    buffer_loss: float = setting(
        0.01,
        "The part of the packets that a receiver is expected to lose in the first pass, for which `bufferers` is"
        " chosen. All members must have the same, or they disagree on who keeps what.",
        low=0,
        high=1,
    )
    buffer_hash: str = setting(
        "blake",
        "The hash that chooses the bufferers: a cryptographic one for 16 packets at a time, or the shuffle table of 003"
        " §4, which is slower and less fair. All members must have the same.",
        choices=("blake", "shuffle"),
    )
    short_rounds: int = setting(
        2,
        "Rounds for which everybody keeps a packet, before only its bufferers do (003 §5). More rounds take more memory"
        " and leave less to be passed on; 0 is the protocol of 003 §4, without a short term.",
        unit="rounds",
        low=0,
    )
    short_bytes: int = setting(
        0,
        "Bytes for which everybody keeps packets, if `buffer_bytes` is set; 0 means an eighth of that.",
        unit="bytes",
        low=0,
    )
    multicast_again: bool = setting(
        True,
        "With hashed bufferers: if gossip shows that two members lack the same packets, ask their sender to multicast"
        " them again (003 §5).",
    )
    peer_rounds: int = setting(
        40,
        "Fail-safe: rounds after which a gap goes to the next repair even if no peer has said that the packet is gone.",
        unit="rounds",
        low=1,
    )
    loss_patience: float = setting(
        0.0,
        "How long a member waits for packets that nobody sends before it reports them as lost: asks peers where no"
        " logger could help, or loggers that do not answer; 0 means `peer_rounds` for peers, and no end for loggers.",
        unit="s",
        low=0,
    )
    ask_again: float = setting(
        0.0,
        "How long, in addition to a round trip and what it varies by, to wait for a peer's answer before asking again:"
        " first the packet's sender, then others at growing intervals, until the rounds take over. 0 leaves repeats to"
        " the rounds, and asks at once for packets that were only overtaken.",
        unit="s",
        low=0,
        high=3600,
    )
    multicast_after: int = setting(
        0, "Multicast a repair that this many members have requested (000 §8; 004 opt. 7 says 2); 0 means never.", low=0
    )
    adaptive: bool = setting(False, "Ask the logger before peers while it is not congested (000 §8).")
    idle_after: float = setting(
        0.0,
        "How long a sender is silent before it announces its last packet (hashed heartbeats); 0 means one round.",
        unit="s",
        low=0,
        high=3600,
    )
    signature_rounds_max: int = setting(
        8,
        "Most rounds between hash signatures while members agree; after a disagreement, they are sent every round.",
        low=1,
    )

    # pbcast.
    same_round: bool = setting(True, "Answer a solicitation only during its own round (004 opt. 1).")
    round_bytes: int = setting(
        65_536, "Bytes a member may retransmit per round (004 opt. 2); 0 means no limit.", unit="bytes", low=0
    )
    cyclic: bool = setting(True, "Do not ask again for packets requested in the previous round (004 opt. 3).")
    recent_first: bool = setting(True, "Recover the newest packets first (004 opt. 4).")
    region_rtt: float = setting(
        0.0,
        "Multicast a repair again within the region if it comes from farther away than this round-trip time"
        " (004 opt. 7); 0 means never.",
        unit="s",
        low=0,
    )
    parity: int = setting(
        0,
        "Packets that share a parity packet, from which receivers recover one that was lost without asking for it; 0"
        " means none, -1 as many as the receivers' losses demand, none where they lose nothing or a repair is quick.",
        unit="packets",
        low=-1,
        high=64,
    )
    region_hops: int = setting(3, "How far a regional multicast travels.", unit="hops", low=1, high=255)
    trees: int = setting(4, "Number of random spanning trees to choose from (004 §4).", low=1, high=255)
    tree_degree: int = setting(2, "Children of each node in such a tree.", low=1, high=255)

    # Coordinators.
    null_period: float = setting(
        0.25,
        "How often a coordinator says that it lives (001 §4, δ). Shorter periods notice losses and partitions sooner,"
        " at the price of a multicast each.",
        unit="s",
        above=0,
        high=3600,
    )
    null_misses: int = setting(
        3, "A coordinator that was not heard for this many periods is gone (001 §4, m).", low=1, high=1000
    )
    probe_period: float = setting(
        0.1,
        "How long a member that looks for a coordinator waits for an answer before it asks the next on its list.",
        unit="s",
        above=0,
        high=3600,
    )
    priority: str = setting(
        "measured",
        "In which order members look for a coordinator: by measured round trips (loggers and low numbers lead); in"
        " simulations also by the distances in the network, from member 0 (`sdf`, 001 §5.1), or in any order that is"
        " correct (`arbitrary`, 001 §4.2).",
        choices=("measured", "sdf", "arbitrary"),
    )
    lists: tuple[tuple[int, ...], ...] = setting(
        (), "Priority lists of members 0, 1, ... that are given once for all (001 §4.2); empty leaves it to `priority`."
    )

    # SRM.
    request_wait: float = setting(
        2.0,
        "C1 of SRM: a member that lacks a packet waits at least this many times its distance to the packet's sender"
        " before it asks everybody. More lets members near the loss ask first.",
        low=0,
        high=1000,
    )
    request_spread: float = setting(
        2.0,
        "C2 of SRM: it waits up to this many distances longer, drawn at random. More leaves fewer duplicate requests"
        " among members that are equally far, and delays repairs.",
        low=0,
        high=100_000,
    )
    repair_wait: float = setting(
        -1.0,
        "D1 of SRM: a member that has the packet waits at least this many times its distance to the one that asked; -1"
        " means the logarithm (base 10) of the group's size.",
        low=-1,
        high=1000,
    )
    repair_spread: float = setting(
        -1.0,
        "D2 of SRM: it waits up to this many distances longer, drawn at random; -1 means the logarithm (base 10) of the"
        " group's size.",
        low=-1,
        high=100_000,
    )
    adaptive_timers: bool = setting(
        False, "Adapt these four numbers to the duplicates and delays that a member sees (SRM, adaptive version)."
    )
    request_tries: int = setting(
        5,
        "Requests of SRM, sent here or heard, after which a gap goes to the next repair if there is one; if there is"
        " none, it is lost after `peer_rounds` rounds or `loss_patience`.",
        low=1,
        high=1000,
    )
    session_period: float = setting(
        1.0,
        "How often session messages of SRM are sent: by each member not more often than this, and by all of them"
        " together not more rarely.",
        unit="s",
        above=0,
        high=3600,
    )
    session_share: float = setting(
        0.05,
        "Session messages of all members together take this part of the bandwidth that packets take, between these"
        " bounds.",
        above=0,
        high=1,
    )

    # Loggers and senders.
    loggers: int = setting(0, "Number of loggers; the last members of the list are the loggers.", low=0, high=1000)
    retry_period: float = setting(
        0.25,
        "How long to wait for an answer before repeating a send or a request.",
        unit="s",
        above=0,
        high=3600,
    )
    send_buffer: int = setting(
        100_000,
        "Packets a sender keeps until they are acknowledged; `when_unlogged` says what happens when it is full.",
        unit="packets",
        low=1,
    )
    send_buffer_bytes: int = setting(
        0,
        "Memory that these packets may take; 0 means that only `send_buffer` limits them.",
        unit="bytes",
        low=0,
    )
    when_unlogged: str = setting(
        "refuse",
        "What a sender does when no logger takes its packets and the send buffer is full: refuse to publish, or go on"
        " and let the oldest packets go, which are then delivered but never logged.",
        choices=("refuse", "go-on"),
    )
    durable: bool = setting(
        False, "Keep packets until a logger has them even while no logger is known; else only once there is one."
    )
    log_copies: int = setting(1, "Loggers that must have a packet before its sender lets it go.", low=1, high=100)
    rate_limit: float = setting(
        0.0,
        "Packets a sender may send per second (004 §5); the rest wait; 0 means no limit.",
        unit="1/s",
        low=0,
    )
    congestion: str = setting(
        "none",
        "How a sender's rate follows what the network carries: not at all, or by the delay in queues that receivers"
        " report. Turn it off where nothing can be congested, or set `rate_limit` to what you know.",
        choices=("none", "delay"),
    )
    admission: int = setting(
        0,
        "New packets wait while this many are buffered (004 §5); 0 means no limit.",
        unit="packets",
        low=0,
    )
    window: int = setting(
        0,
        "How far a sender may be ahead of the receivers that keep up; 0 means no limit.",
        unit="packets",
        low=0,
    )
    reach: int = setting(
        0,
        "How far a sender may be ahead of the first gap of such a receiver, since peers keep no more than this; 0 means"
        " no limit.",
        unit="packets",
        low=0,
    )
    patience: float = setting(
        0.1,
        "How long a slow receiver may keep the window shut before the sender stops waiting for it, until it has caught"
        " up.",
        unit="s",
        above=0,
    )
    unstable_packets: int = setting(
        0,
        "Packets of a sender that not all members have yet, at the most: beyond that it waits for the slowest; 0 means"
        " no limit. With more, a sender goes on over longer pauses of one member, and all need more memory.",
        unit="packets",
        low=0,
    )
    poll_period: float = setting(
        0.05,
        "How often a sender asks, with polled stability, what all members have of its packets; it also asks four times"
        " per `unstable_packets`.",
        unit="s",
        above=0,
        high=3600,
    )
    unlisten_after: float = setting(
        0.0,
        "How long a receiver that a sender does not wait for may fall further behind before it leaves the multicast,"
        " and is sent everything by repair until it has caught up; 0 means that it always listens. Without multicast"
        " there is nothing to leave, and with `srm` repairs come by multicast, so that a member always listens.",
        unit="s",
        low=0,
        high=3600,
    )
    hold_bytes: int = setting(
        0,
        "Memory that packets may take while they wait for an earlier one of their sender; beyond that, nothing more is"
        " taken in that would have to wait, and it is asked for when there is room. 0 means no limit.",
        unit="bytes",
        low=0,
    )
    queue_packets: int = setting(
        100_000,
        "Packets that may wait to be sent for the first time; when the queue is full, publishing is refused.",
        unit="packets",
        low=1,
    )
    request_packets: int = setting(
        0,
        "Packets that a member may have asked for at a time, at most: fewer if its path carries less; 0 means no limit,"
        " and bursts of answers.",
        unit="packets",
        low=0,
    )
    service_limit: int = setting(
        1000, "Repairs a member may send per second (000 §7.1); 0 means no limit.", unit="repairs/s", low=0
    )
    service_queue: int = setting(10_000, "Repairs that may wait to be sent.", unit="packets", low=1)
    log_timeout: float = setting(
        172_800.0,
        "Fail-safe: a logged packet older than this is deleted, acknowledged or not.",
        unit="s",
        above=0,
    )
    heartbeat_min: float = setting(0.25, "First interval of variable heartbeats.", unit="s", above=0)
    heartbeat_max: float = setting(32.0, "Longest interval of variable heartbeats.", unit="s", above=0)
    heartbeat_factor: float = setting(
        2.0, "Each interval is this many times as long as the one before.", low=1, high=100
    )
    sequence_block: int = setting(
        1000, "Sequence numbers a sender reserves at a time, durably (000 §6.2).", unit="packets", low=1
    )

    retention_age: float = setting(
        0.0,
        "How long a logger keeps a packet, even if every member has it.",
        unit="s",
        low=0,
    )
    retention_bytes: int = setting(
        0,
        "How much a logger keeps of what every member has, newest first; 0 means that only `retention_age` decides.",
        unit="bytes",
        low=0,
    )

    # Membership and crashes.
    suspect_after: float = setting(
        0.0,
        "A member that was silent for this long is asked, and taken for disconnected if it does not answer for as long"
        " again; 0 means never.",
        unit="s",
        low=0,
    )
    order_failures: str = setting(
        "atomic",
        "What is delivered while members of one order may fail (002 §5.2): only what most members keep, so that it"
        " stays; or everything at once, which takes half as long and fewer messages, but what a failed member delivered"
        " last may have to be undone when it is back.",
        choices=("atomic", "non-atomic"),
    )
    order_patience: float = setting(
        1.0,
        "How long the primary of an order may be silent before another member closes its graph and opens the next."
        " Shorter: a crash stops the others for less long, but a primary that is only slow is replaced more often.",
        unit="s",
        above=0,
        high=3600,
    )
    exclude_after: float = setting(
        5.0,
        "A member that is not heard for this long is excluded from an agreed view, and has to join anew. Shorter: a"
        " crash stops the others for less long, but a member that is only slow is excluded more often (004 §2).",
        unit="s",
        above=0,
        high=3600,
    )
    sponsors: int = setting(2, "Sponsors (k) that a join or leave needs; a logger alone is enough.", low=1, high=100)
    found_after: int = setting(
        0, "Unanswered announcements after which a process founds the group itself; 0 means never.", low=0, high=1000
    )
    recovery: str = setting(
        "at-most-once",
        "After a crash: join as a new member, or resume with what the logger has kept.",
        choices=("at-most-once", "at-least-once"),
    )
