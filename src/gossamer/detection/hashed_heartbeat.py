"""Hashed heartbeats (000 §5.1): one multicast when a sender falls idle, then a hash in the gossip.

Members that agree on the last numbers of all idle senders have the same signature and say no more. Where
signatures differ, the target answers with its list; the gossiper takes what is newer and sends back what the
target lacks. While nothing disagrees the signature is sent more and more rarely; but a member that was not told of the
latest one is told when it is gossiped to, or one that is rarely drawn might hear of nothing for very long.

A sender that fell silent without a heartbeat (it crashed, or its multicast was lost) is taken for idle by
members that have not heard of it for a few rounds, so that those that lack its last packet notice that, too.
"""

from collections.abc import Mapping

from gossamer.core.declares import LAST_PACKETS, Declares
from gossamer.core.effects import Multicast, Unicast
from gossamer.core.ids import Phase
from gossamer.core.ladder import Effects, Ladder, MessageHandler, Rung
from gossamer.core.messages import Gossip, Heartbeat, Heartbeats
from gossamer.core.packet_sets import Horizon
from gossamer.core.packets import Run
from gossamer.core.settings import ProtocolSettings
from gossamer.core.signature import Signature

_SILENT_ROUNDS = 4


class HashedHeartbeat(Rung):
    """What a member knows of idle senders, itself among them."""

    gossips = True
    from_strangers = (Heartbeat,)  # the last word of one that has left may come late

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._idle: Horizon = {}
        self._heard: dict[int, float] = {}  # when each active sender was last heard
        self._signature = Signature()  # of the idle ones
        self._rounds_between = 1
        self._rounds_since = 0
        self._told: set[int] = set()  # those that were told of this signature
        self._idle_after = ladder.settings.idle_after or ladder.settings.gossip_period
        self._timer = ladder.timer(self._fall_idle)

    @classmethod
    def declares(cls, settings: ProtocolSettings) -> Declares:
        """A last packet that was lost is missed at the heartbeat, or where signatures differ."""
        return Declares(provides=(LAST_PACKETS,))

    def messages(self) -> Mapping[type, MessageHandler]:
        """Heartbeats of others, the signature in a gossip, and the lists that follow a disagreement."""
        return {Heartbeat: self._heard_heartbeat, Gossip: self._gossiped, Heartbeats: self._listed}

    def published(self, now: float, run: Run, out: Effects) -> None:
        """Active again."""
        self._active(self.ladder.me, now)
        self._timer.set(now + self._idle_after)

    def accepted(self, now: float, source: int, run: Run, phase: Phase, out: Effects) -> None:
        """A sender is active while its packets come."""
        self._active(run[0].sender, now)

    def gossiping(self, now: float, to: int, gossip: Gossip) -> None:
        """Add the signature, if there is anything to agree on and it is time."""
        self._notice_silence(now)
        self._rounds_since += 1
        if not self._idle:
            return
        if to not in self._told:
            gossip.heartbeats = self._signature.value()
            self._told.add(to)
        if self._rounds_since >= self._rounds_between:
            gossip.heartbeats = self._signature.value()
            self._rounds_since = 0
            limit = self.ladder.settings.signature_rounds_max
            self._rounds_between = min(2 * self._rounds_between, limit)

    def reconnected(self, now: float, out: Effects) -> None:
        """Everything may have changed: compare soon."""
        self._rounds_between = 1

    def retired(self, now: float, sender: int) -> None:
        """Nobody has to agree on it any more."""
        self._heard.pop(sender, None)
        if sender in self._idle:
            self._signature.remove(sender, self._idle.pop(sender))

    def retracted(self, now: float, sender: int, last: int) -> None:
        """It rests at another number than we thought, if it does."""
        if self._idle.get(sender, -1) > last:
            self._rest(sender, last)

    def revived(self, now: float, sender: int) -> None:
        """As if it had been heard just now."""
        self._active(sender, now)

    def leaving(self, now: float, out: Effects) -> None:
        """The last word: members that missed our last packets learn of it while somebody can still repair them."""
        out.append(Multicast(Heartbeat(self.ladder.streams[self.ladder.me].next - 1)))

    def _fall_idle(self, now: float, out: Effects) -> None:
        last = self.ladder.streams[self.ladder.me].next - 1
        out.append(Multicast(Heartbeat(last)))
        self._rest(self.ladder.me, last)

    def _heard_heartbeat(self, now: float, source: int, message: Heartbeat, out: Effects) -> None:
        self._learn(now, source, {source: message.last}, out)

    def _gossiped(self, now: float, source: int, gossip: Gossip, out: Effects) -> None:
        if gossip.heartbeats and gossip.heartbeats != self._signature.value():
            self._rounds_between = 1
            out.append(Unicast(source, Heartbeats(dict(self._idle), answer=True)))

    def _listed(self, now: float, source: int, message: Heartbeats, out: Effects) -> None:
        """Merge; and if asked, send back what the other side lacks (pull and push in one exchange)."""
        if message.answer:
            self._rounds_between = 1
            me, known = self.ladder.me, self._known()
            lacking = {s: last for s, last in known.items() if message.lasts.get(s, -1) < last}
            if me in known and message.lasts.get(me, known[me]) > known[me]:  # somebody has lied about us
                lacking[me] = known[me]
            if lacking:
                out.append(Unicast(source, Heartbeats(lacking, answer=False)))
        self._learn(now, source, message.lasts, out)

    def _known(self) -> Horizon:
        """Idle senders, as far as this member has seen them."""
        streams = self.ladder.streams
        return {s: max(last, streams[s].next - 1) if s in streams else last for s, last in self._idle.items()}

    def _learn(self, now: float, source: int, lasts: Horizon, out: Effects) -> None:
        for sender, last in lasts.items():
            by_itself = sender == source
            (self.ladder.gaps.come_to if by_itself else self.ladder.gaps.learn)(now, sender, last, out)
            stream = self.ladder.streams.get(sender)
            if sender == self.ladder.me or stream is None:
                continue
            if stream.next - 1 == last or (by_itself and stream.is_ahead_of(last)):
                self._rest(sender, last)

    def _notice_silence(self, now: float) -> None:
        before = now - _SILENT_ROUNDS * self.ladder.settings.gossip_period
        silent = [sender for sender, at in self._heard.items() if at < before]
        for sender in silent:
            self._rest(sender, self.ladder.streams.of(sender).next - 1)

    def _active(self, sender: int, now: float) -> None:
        self._heard[sender] = now
        if sender in self._idle:
            self._signature.remove(sender, self._idle.pop(sender))
            self._told.clear()

    def _rest(self, sender: int, last: int) -> None:
        self._heard.pop(sender, None)
        if self._idle.get(sender) != last:
            if sender in self._idle:
                self._signature.remove(sender, self._idle[sender])
            self._idle[sender] = last
            self._signature.add(sender, last)
            self._rounds_between = 1
            self._told.clear()
