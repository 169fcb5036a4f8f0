"""Hashed heartbeats (000 §5.1): one multicast when a sender falls idle, then a hash in the gossip.

Members that agree on the last numbers of all idle senders have the same signature and say no more. Where
signatures differ, the target answers with its list; the gossiper takes what is newer and sends back what the
target lacks. While nothing disagrees the signature is sent more and more rarely; but a member that was not told of the
latest one is told when it is gossiped to, or one that is rarely drawn might hear of nothing for very long.

Two members compare what they know of the channels that both hear. In a channel other than 0 a member also compares
with its listeners, so that what is missed there does not wait until one of them is drawn among all members; a sender
that does not listen to a channel itself tells one of the listeners its last number in place of that.

A sender that waits for its window is not idle: it hears from its receivers what they have, and sends more. A heartbeat
in between might overtake its packets, where these travel by way of others, and they would be asked for in vain. Only
if it has heard nothing for a whole round does it speak: what is missing may be what it waits for.

A sender that fell silent without a heartbeat (it crashed, or its multicast was lost) is taken for idle by
members that have not heard of it for a few rounds, so that those that lack its last packet notice that, too.
"""

from collections.abc import Mapping
from math import inf

from gossamer.core.declares import LAST_PACKETS, Declares
from gossamer.core.effects import Multicast, Unicast
from gossamer.core.ids import Phase, channel_of, owner_of, stream_of
from gossamer.core.ladder import Effects, Ladder, MessageHandler, Rung
from gossamer.core.messages import Gossip, Heartbeat, Heartbeats
from gossamer.core.packet_sets import Horizon
from gossamer.core.packets import Run
from gossamer.core.ranges import RangeSet
from gossamer.core.settings import ProtocolSettings
from gossamer.core.signature import Signature, combined

_SILENT_ROUNDS = 4
_USUAL_PAUSES = 2
_PATIENCE = 4
"""A sender that publishes at short intervals is not idle before this many of them have passed: its next packet says as
much as a heartbeat would. But it takes no more than this many times as long as for others."""


class _Turn:
    """When to compare what is known of a channel: more and more rarely while nothing disagrees."""

    __slots__ = ("between", "since")

    def __init__(self) -> None:
        self.between = 1
        self.since = 0

    def comes(self) -> bool:
        """A round has passed: whether it is time to compare. If there is anything, `taken` is called."""
        self.since += 1
        return self.since >= self.between

    def taken(self, longest: int) -> None:
        """What is known was told."""
        self.since = 0
        self.between = min(2 * self.between, longest)


class HashedHeartbeat(Rung):
    """What a member knows of idle senders, itself among them."""

    gossips = True
    from_strangers = (Heartbeat,)  # the last word of one that has left may come late

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._idle: Horizon = {}
        self._heard: dict[int, float] = {}  # when each active sender was last heard
        self._signatures: dict[int, Signature] = {0: Signature()}  # of the idle ones, by channel
        self._turns: dict[int, _Turn] = {0: _Turn()}  # by channel
        self._falls_idle: dict[int, float] = {}  # by stream of ours: when
        self._told: set[int] = set()  # those that were told of this signature
        self._published: dict[int, float] = {}  # by stream of ours: when
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
        self._active(run[0].sender, now)
        self._falls_idle[run[0].sender] = now + self._patience(now, run[0].sender)
        self._timer.set(min(self._falls_idle.values()))

    def _patience(self, now: float, sender: int) -> float:
        """How long after a packet of ours the stream is idle, if no other follows."""
        shortest, longest = self._idle_after, _PATIENCE * self.ladder.settings.idle_after
        pauses = _USUAL_PAUSES * (now - self._published.get(sender, -inf))
        self._published[sender] = now
        return max(shortest, pauses) if pauses <= longest else shortest

    def accepted(self, now: float, source: int, run: Run, phase: Phase, out: Effects) -> None:
        """A sender is active while its packets come."""
        sender = run[0].sender
        self._heard[sender] = now
        if sender in self._idle:
            self._active(sender, now)

    def gossiping(self, now: float, to: int, gossip: Gossip) -> None:
        """Add the signature, if there is anything to agree on and it is time."""
        self._notice_silence(now)
        turn = self._turns[0]
        due = turn.comes()
        if not self._idle:
            return
        if due or to not in self._told:
            gossip.heartbeats = self._signature_for(to)
            self._told.add(to)
        if due:
            turn.taken(self.ladder.settings.signature_rounds_max)

    def round_over(self, now: float, number: int, out: Effects) -> None:
        """Compare with a listener of each channel to which not all listen, if it is time."""
        for channel in [channel for channel in self._signatures if channel and self._turns[channel].comes()]:
            target = self.ladder.peers.target(channel)
            if target is None or not self.ladder.is_member:
                continue
            mine = stream_of(self.ladder.me, channel)
            if self.ladder.streams.hears(mine):
                out.append(Unicast(target, Gossip(heartbeats=self._signature_for(target))))
            elif mine in self._idle:
                out.append(Unicast(target, Heartbeats({mine: self._idle[mine]}, answer=False)))
            self._turns[channel].taken(self.ladder.settings.signature_rounds_max)

    def _signature_for(self, member: int) -> int:
        """Of what is known in the channels that both hear."""
        if len(self._signatures) == 1:
            return self._signatures[0].value()
        common = self.ladder.roster.channels_of(member) & self.ladder.streams.channels
        return combined(signature for channel, signature in self._signatures.items() if common >> channel & 1)

    def reconnected(self, now: float, out: Effects) -> None:
        """Everything may have changed: compare soon."""
        for turn in self._turns.values():
            turn.between = 1

    def retired(self, now: float, sender: int) -> None:
        """Nobody has to agree on it any more."""
        self._heard.pop(sender, None)
        self._stir(sender)

    def retracted(self, now: float, sender: int, last: int, own: RangeSet) -> None:
        """It rests at another number than we thought, if it does."""
        if self._idle.get(sender, -1) > last:
            self._rest(sender, max([last, *own.lasts[-1:]]))

    def revived(self, now: float, sender: int) -> None:
        """As if it had been heard just now."""
        self._active(sender, now)

    def leaving(self, now: float, out: Effects) -> None:
        """The last word: members that missed our last packets learn of it while somebody can still repair them."""
        for sender in self.ladder.own:
            self._tell(sender, out)

    def _fall_idle(self, now: float, out: Effects) -> None:
        for sender in [sender for sender, at in self._falls_idle.items() if at <= now]:
            waits_until = self._published[sender] + self.ladder.settings.gossip_period
            if now < waits_until and self.ladder.pace.awaits_receivers(sender):
                self._falls_idle[sender] = waits_until
                continue
            del self._falls_idle[sender]
            if sender in self.ladder.own:
                self._tell(sender, out)
                self._rest(sender, self.ladder.own[sender].next - 1)
        if self._falls_idle:
            self._timer.set(min(self._falls_idle.values()))

    def _tell(self, sender: int, out: Effects) -> None:
        channel = channel_of(sender)
        out.append(Multicast(Heartbeat(self.ladder.own[sender].next - 1, channel), channel=channel))

    def _heard_heartbeat(self, now: float, source: int, message: Heartbeat, out: Effects) -> None:
        self._learn(now, source, {stream_of(source, message.channel): message.last}, out)

    def _gossiped(self, now: float, source: int, gossip: Gossip, out: Effects) -> None:
        if gossip.heartbeats and gossip.heartbeats != self._signature_for(source):
            self._compare_soon(source)
            out.append(Unicast(source, Heartbeats(self._heard_by(source, self._idle), answer=True)))

    def _compare_soon(self, member: int) -> None:
        """We disagree with `member` on one of the channels that both hear."""
        for channel, turn in self._turns.items():
            if self.ladder.roster.hears(member, channel):
                turn.between = 1

    def _heard_by(self, member: int, lasts: Horizon) -> Horizon:
        hears = self.ladder.roster.hears
        return {sender: last for sender, last in lasts.items() if hears(member, channel_of(sender))}

    def _listed(self, now: float, source: int, message: Heartbeats, out: Effects) -> None:
        """Merge; and if asked, send back what the other side lacks (pull and push in one exchange)."""
        if message.answer:
            self._compare_soon(source)
            known = self._heard_by(source, self._known())
            lacking = {s: last for s, last in known.items() if message.lasts.get(s, -1) < last}
            for mine in self.ladder.own:  # if somebody has lied about us
                if mine in known and message.lasts.get(mine, known[mine]) > known[mine]:
                    lacking[mine] = known[mine]
            if lacking:
                out.append(Unicast(source, Heartbeats(lacking, answer=False)))
        self._learn(now, source, message.lasts, out)

    def _known(self) -> Horizon:
        """Idle senders, as far as this member has seen them."""
        streams = self.ladder.streams
        return {s: max(last, streams[s].next - 1) if s in streams else last for s, last in self._idle.items()}

    def _learn(self, now: float, source: int, lasts: Horizon, out: Effects) -> None:
        for sender, last in lasts.items():
            by_itself = owner_of(sender) == source
            (self.ladder.gaps.come_to if by_itself else self.ladder.gaps.learn)(now, sender, last, out)
            stream = self.ladder.streams.get(sender)
            if sender in self.ladder.own or stream is None:
                continue
            if stream.next - 1 == last or (by_itself and stream.is_ahead_of(now, last)):
                self._rest(sender, last)

    def _notice_silence(self, now: float) -> None:
        before = now - _SILENT_ROUNDS * self.ladder.settings.gossip_period
        silent = [sender for sender, at in self._heard.items() if at < before]
        for sender in silent:
            self._rest(sender, self.ladder.streams.of(sender).next - 1)

    def _active(self, sender: int, now: float) -> None:
        self._heard[sender] = now
        if sender in self._idle:
            self._stir(sender)
            self._told.clear()

    def _stir(self, sender: int) -> None:
        if sender in self._idle:
            self._signatures[channel_of(sender)].remove(sender, self._idle.pop(sender))

    def _rest(self, sender: int, last: int) -> None:
        self._heard.pop(sender, None)
        if self._idle.get(sender) != last:
            self._stir(sender)
            channel = channel_of(sender)
            if channel not in self._signatures:
                self._signatures[channel], self._turns[channel] = Signature(), _Turn()
            self._idle[sender] = last
            self._signatures[channel].add(sender, last)
            self._turns[channel].between = 1
            self._told.clear()
