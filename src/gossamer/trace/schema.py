"""The one trace schema and what its rows mean.

A row is `run, t_ns, member, kind, sender, seqno, peer, bytes, phase`. Rows are in time order (`t_ns` never
decreases) and, for equal `t_ns`, in causal order: the cause first. -1 and "" mean "not applicable".

| kind | meaning |
|---|---|
| publish | member published the packet (sender, seqno); sender is the stream: the member's number in channel 0, \
and that number plus channel * 2^55 in another |
| send | member transmits a first-pass copy of (sender, seqno) to peer, -1 = multicast; phase `first_pass` |
| repair | member retransmits (sender, seqno) to peer, -1 = multicast; phase `peer` or `logger` |
| receive | member got a message from peer. Data: (sender, seqno) is the packet and phase is \
`first_pass`, `peer` or `logger`. Control: sender = seqno = -1 and phase is the message's kind (`request`, \
`gossip`, `ack`, `heartbeat`, `parity`, `order`, `join`, `leave`, `view`, `suspect`) |
| deliver | (sender, seqno) was handed to the application; phase `first_pass`, `peer` or `logger` is the \
rung by which it came (own packets: `first_pass`) |
| lost | member gave up (sender, seqno); phase is the reason |
| undo | the application of member was told to undo (sender, seqno), which it got, or was told to be lost: that was \
not its place in the order |
| stable | member learned that every member has (sender, seqno) |
| request, gossip, ack, heartbeat, parity, order | member sent such a control message to peer, -1 = multicast |
| join | member became a member: one plain row with sender = seqno = -1, then for every other sender s it knows \
a row with sender = s, seqno = t_join[s]: of s it is owed only the packets with seqno > t_join[s] \
(000 §5.3). Members from the start have a plain row at t = 0, before any publish, and are owed everything |
| leave | member left |
| view | member's view now holds peer with the status in phase |
| suspect | member suspects peer |
| crash, recover | phase `kept` or `lost` says what happened to its memory. A crash with phase `lost` empties \
the member's buffer without collect rows; a log is durable and survives. A member that was excluded from an agreed \
view and joins anew has both rows, at the same time |
| side | member is now on the side of the network named in phase, and reaches those on the same side. On a side \
without a name it is alone: it is offline, or stands still. All begin on side `0` |
| flush | member was told that what it published in the stream sender up to seqno is durable; with phase \
`unlogged`, that what it published since the last such row will not be logged |
| coordinator | member now follows peer, or leads itself and perhaps others (peer = member); phase `elected` if it has \
taken over for itself, `attached` if sender answered its probe so, `told` if peer said it; with \
phase `leaving` (peer = -1), that it follows nobody any more |
| install | member has installed the agreed view with number seqno, whose members phase lists: from here on it \
delivers what was sent in this view |
| graph | member opened the propagation graph with number seqno and is its primary (peer = member), or changed its \
sites, which phase lists; with phase `follows`, it follows peer as the primary of that graph |
| block | member has stopped sending in view seqno, because it is flushed (phase `flush`) or because no majority of it \
is in reach (phase `no majority`). Where there is one order, member delivers nothing, because graph seqno has no \
primary in reach (`no primary`), most of its sites do not answer (`no majority`), or nobody tells where the order \
begins (`not begun`) |
| store, collect | (sender, seqno) entered or left a place of this member; phase `buffer`, `log`, or \
`long-term`: what hashes to the member and is kept after the short term (003) |
| channel | member listens to channel seqno from now on (phase `on`), or does no more (phase `off`). All hear \
channel 0 without a row. Then come `join` rows for streams of that channel: it is owed only what is after seqno |
| listen | member hears the group's multicast from now on (phase `on`), or has left it (phase `off`) |
| drop | the network or a full inbox discarded something meant for member; phase is the reason |
"""

from gossamer.core.errors import Error

KINDS: tuple[str, ...] = (
    *("publish", "send", "receive", "deliver", "lost", "stable", "request", "repair", "gossip", "ack"),
    *("heartbeat", "join", "leave", "view", "suspect", "crash", "recover", "store", "collect", "drop"),
    *("side", "flush", "listen", "parity", "coordinator", "install", "block", "order", "graph"),
    *("channel", "undo"),
)
"""Every kind of row; its place here is its code in `rows.Rows.kind`."""

CODE: dict[str, int] = {kind: code for code, kind in enumerate(KINDS)}

COLUMNS: dict[str, str] = {
    "run": "string",
    "t_ns": "int64",
    "member": "int64",
    "kind": "string",
    "sender": "int64",
    "seqno": "int64",
    "peer": "int64",
    "bytes": "int32",
    "phase": "string",
}
"""The columns of the Parquet file and their Arrow types, in order."""

METADATA_KEY = b"gossamer"
"""Parquet key-value metadata: a JSON object with protocol, promises, members, scenario, seed, bounds, ..."""

Row = tuple[int, int, str, int, int, int, int, str]
"""(t_ns, member, kind, sender, seqno, peer, bytes, phase): a row without its run."""


class TraceError(Error, ValueError):
    """A trace that cannot be read, written or checked; its message is one line that says what is wrong."""
