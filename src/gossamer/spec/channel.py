"""The unreliable channel (000 §2.3): it may drop, delay and duplicate, but it invents nothing.

What a member receives from a peer, the peer has sent before, to that member or to all. Data needs a send or
repair row of that packet; a request, gossip, ack or heartbeat needs a row of that kind. Membership messages
(join, leave, view, suspect) are not compared with rows: rows of those kinds say what a member became or knows,
not what it sent. Memory: about 40 bytes for each distinct (from, to, packet) sent; a multicast counts as one.
"""

from __future__ import annotations

import numpy as np

from gossamer.spec.arrays import integers
from gossamer.spec.ids import Ids
from gossamer.spec.promises import Metadata
from gossamer.spec.report import Findings, Violation
from gossamer.trace.rows import Ints, Mask, Rows
from gossamer.trace.schema import CODE, KINDS

_DATA = ("send", "repair")
_CONTROL = ("request", "gossip", "ack", "heartbeat", "parity", "order")
_MEMBERSHIP = ("join", "leave", "view", "suspect")
_ALL = 0


class Channel:
    name = "channel"
    reference = "000 §2.3"

    def __init__(self, metadata: Metadata) -> None:
        self._members = Ids()
        self._packets = Ids()
        self._sent = Ids()  # (link, message)
        self.found = Findings(self.name)

    def feed(self, rows: Rows) -> None:
        self._feed_sent(rows.of(*_DATA, *_CONTROL))
        self._check_received(rows.of("receive"))

    def finish(self) -> list[Violation]:
        return self.found.listed()

    def _feed_sent(self, rows: Rows) -> None:
        data = np.isin(rows.kind, [CODE[kind] for kind in _DATA])
        message = rows.kind.astype(np.int64)
        packets = self._packets.add(rows.sender[data], rows.seqno[data], rows.number[data])
        message[data] = len(KINDS) + packets
        source = self._members.add(rows.member, np.zeros_like(rows.member), rows.number)
        target = 1 + self._members.add(rows.peer, np.zeros_like(rows.peer), rows.number)
        target[rows.peer == -1] = _ALL
        self._sent.add(_link(source, target), message, rows.number)

    def _check_received(self, rows: Rows) -> None:
        message = self._message(rows)
        source = self._members.find(rows.peer, np.zeros_like(rows.peer))
        target = 1 + self._members.find(rows.member, np.zeros_like(rows.member))
        sent = self._was_sent(source, np.full_like(target, _ALL), message, rows.number)
        rest = np.flatnonzero(~sent)
        sent[rest] = self._was_sent(source[rest], target[rest], message[rest], rows.number[rest])
        control = _is_control(rows)
        text = "member {member} received packet ({sender}, {seqno}) from {peer}, which had not sent it"
        self.found.add_rows(rows, ~sent & ~control, text)
        text = "member {member} received a '{phase}' message from {peer}, which had not sent one"
        self.found.add_rows(rows, ~sent & control & ~_is_membership(rows), text)

    def _message(self, rows: Rows) -> Ints:
        """The number of each message: control messages by kind, packets after them; -1 for what was never sent."""
        packet = self._packets.find(rows.sender, rows.seqno)
        packet[packet >= 0] += len(KINDS)
        kinds = integers([CODE[phase] if phase in _CONTROL else -1 for phase in rows.phases])
        return np.where(_is_control(rows), kinds[rows.phase], packet)

    def _was_sent(self, source: Ints, target: Ints, message: Ints, numbers: Ints) -> Mask:
        return self._sent.find_before(_link(source, target), message, numbers)[1]


def _link(source: Ints, target: Ints) -> Ints:
    link: Ints = (source << 32) + target
    return link


def _is_control(rows: Rows) -> Mask:
    mask: Mask = (rows.sender == -1) & (rows.seqno == -1)
    return mask


def _is_membership(rows: Rows) -> Mask:
    mask: Mask = np.array([phase in _MEMBERSHIP for phase in rows.phases], np.bool_)[rows.phase]
    return mask
