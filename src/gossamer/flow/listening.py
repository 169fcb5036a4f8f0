"""A receiver that cannot keep up leaves the multicast, and reads at its own pace until it has caught up.

A sender never follows the slowest (`window`): it lets go of a receiver that is slower than most, and tells it so in
every round. If the sender multicasts more than the receiver's path carries, it fills that path with packets of which
many are lost, and leaves no room for their repair. So a receiver that was let go and falls further behind for
`unlisten_after` leaves the multicast. While it does not listen it asks in each round how far
senders have come; what it did not hear is a gap like any other, and the chain of repairs fills it, oldest first, as
fast as the path allows (`core.request_window`). It listens again when it has nearly caught up.

Each return may slow the others for a moment, so one that soon has to leave again stays away for twice as long. A
receiver that nobody answers listens, too: it may be cut off, and the news of that is multicast.
"""

from collections import deque
from collections.abc import Mapping
from itertools import islice

from gossamer.core.effects import Listen, Unicast
from gossamer.core.ids import channel_of, owner_of
from gossamer.core.ladder import Effects, Ladder, MessageHandler, Rung
from gossamer.core.messages import HowFar, LetGo, Progress, SeenReport
from gossamer.core.packet_sets import Horizon
from gossamer.core.streams import streams_of

_GROWS, _DROWNS = 0.1, 0.5
"""A receiver falls behind if it misses the first share of what a sender sends, for as long as we look; one that misses
the second drowns, and half of the time is enough to know."""
_LOOKS = 4
"""It is looked at this often in that time, and must fall behind each time: one that was cut off learns all at once
what it has missed, and then keeps up."""
_CAUGHT_UP_S = 0.5
"""One that misses no more than comes in this time has caught up."""
_PAUSE_MAX_S = 60.0
_STEADY = 10
"""One that listened for this many times its last pause may leave for a short time again."""
_UNANSWERED = 4
"""One that has not been answered for this many times `unlisten_after` listens."""
_FORGETS = 3
"""What a sender said counts for this many times `unlisten_after`."""
_SENDERS_MAX = 200
"""Senders after which one message asks; if there are more, they take turns."""

Backlog = tuple[int, int]
"""How many packets of some senders were seen to exist, and how many of these were not received."""


class Listening(Rung):
    """Whether this member listens; and the word to those that its own sender does not wait for."""

    def __init__(self, ladder: Ladder) -> None:
        super().__init__(ladder)
        self._patience = ladder.settings.unlisten_after
        self._telling: dict[
            int, float
        ] = {}  # the receivers that our own sender has let go, and until when to tell them
        self._before: tuple[float, list[int], Backlog] | None = None  # since when they do not, who, and what it was
        self._grown = 0  # how many times in a row it had got more
        self._carried = 0.0  # the most that came in the meantime, in packets per second
        self._pause = self._patience
        self._changed_at = 0.0
        self._answered_at = 0.0
        self._heads: deque[tuple[float, int]] = deque()  # how far senders had come, in the last second
        self._next = 0

    def messages(self) -> Mapping[type, MessageHandler]:
        """What senders and those that do not listen say to each other."""
        return {LetGo: self._was_let_go, HowFar: self._asked_how_far, Progress: self._told}

    def reconnected(self, now: float, out: Effects) -> None:
        """Everything may have changed."""
        if not self.ladder.hearing.on:
            self._listen(now, out)

    def round_over(self, now: float, number: int, out: Effects) -> None:
        """Tell the receivers that were let go; look whether this member can keep up, or has caught up."""
        self._tell(now, out)
        if self.ladder.hearing.on:
            if self.ladder.hearing.let_go:
                self._look_behind(now, out)
        elif self._has_caught_up(now) or now - self._answered_at > _UNANSWERED * self._patience:
            self._listen(now, out)
        else:
            self._ask(out)

    # Letting go.

    def _tell(self, now: float, out: Effects) -> None:
        lagging = dict.fromkeys(self.ladder.pace.lagging(), now + _FORGETS * self._patience)
        self._telling = {member: until for member, until in self._telling.items() if now < until} | lagging
        out.extend(Unicast(member, LetGo(over=member not in lagging)) for member in self._telling)

    def _was_let_go(self, now: float, source: int, message: LetGo, out: Effects) -> None:
        hearing, streams = self.ladder.hearing, self.ladder.streams
        if message.over:
            hearing.let_go.pop(source, None)
            return
        hearing.let_go[source] = now
        for sender in streams_of(source, streams) if hearing.on else ():
            if not streams[sender].missing:  # it may send nothing more that we could report
                out.append(Unicast(source, SeenReport(streams[sender].next, channel=channel_of(sender))))

    # Leaving.

    def _look_behind(self, now: float, out: Effects) -> None:
        hearing = self.ladder.hearing
        hearing.let_go = {s: at for s, at in hearing.let_go.items() if now - at < _FORGETS * self._patience}
        senders = [sender for owner in hearing.let_go for sender in streams_of(owner, self.ladder.streams)]
        backlog = self._backlog(senders)
        if self._before is None or self._before[1] != senders or not senders:
            self._before, self._grown, self._carried = (now, senders, backlog), 0, 0.0
        elif now - self._before[0] >= self._patience / _LOOKS:
            self._judge(now, senders, backlog)
            if self._grown >= _LOOKS:
                who = ", ".join(map(str, hearing.let_go))
                self._unlisten(now, f"let go by {who}; {backlog[1]} packets behind", out)

    def _judge(self, now: float, senders: list[int], backlog: Backlog) -> None:
        """Compare with the last look; what comes although more is sent is what the path carries."""
        assert self._before is not None
        seen, behind = (after - before for after, before in zip(backlog, self._before[2], strict=True))
        if behind > _GROWS * seen > 0 or self.ladder.gaps.is_full():
            self._grown += _LOOKS // 2 if behind > _DROWNS * seen else 1
            self._carried = max(self._carried, (seen - behind) / (now - self._before[0]))
        else:
            self._grown, self._carried = 0, 0.0
        self._before = now, senders, backlog

    def _backlog(self, senders: list[int]) -> Backlog:
        """What was given up counts as behind: it was too late for it."""
        streams = [self.ladder.streams[sender] for sender in senders]
        return sum(s.next for s in streams), sum(len(s.missing) + len(s.abandoned) for s in streams)

    def _unlisten(self, now: float, why: str, out: Effects) -> None:
        hearing = self.ladder.hearing
        relapsed = hearing.times and now - self._changed_at < _STEADY * self._pause
        self._pause = min(2 * self._pause, _PAUSE_MAX_S) if relapsed else self._patience
        self._changed_at = self._answered_at = now
        self._heads.clear()
        hearing.on, hearing.why, hearing.times, hearing.carried = False, why, hearing.times + 1, self._carried
        out.append(Listen(on=False))
        self._ask(out)

    # Reading, and coming back.

    def _ask(self, out: Effects) -> None:
        """Ask somebody how far senders have come, since we hear none of them."""
        target = self.ladder.peers.target()
        if target is not None:
            out.append(Unicast(target, HowFar(self._seen())))

    def _seen(self) -> Horizon:
        """How far we know of senders: one that we never heard may have begun meanwhile."""
        known = dict.fromkeys(self.ladder.roster.members, -1)
        known |= {sender: stream.next - 1 for sender, stream in self.ladder.streams.items()}
        first = self._next if self._next < len(known) else 0
        self._next = first + _SENDERS_MAX
        return dict(islice(known.items(), first, self._next))

    def _asked_how_far(self, now: float, source: int, message: HowFar, out: Effects) -> None:
        streams = self.ladder.streams
        known = {sender: streams[sender].next - 1 for sender in self._meant(source, message.seen)}
        news = {s: last for s, last in known.items() if last > message.seen.get(s, -1)}
        for mine in self.ladder.own:
            if known.get(mine, -1) < message.seen.get(mine, -1):  # somebody has lied about us
                news[mine] = known[mine]
        out.append(Unicast(source, Progress(news)))

    def _meant(self, source: int, seen: Horizon) -> list[int]:
        """The streams that `source` asks for: also those of channels of which it may not have heard."""
        streams, channels = self.ladder.streams, self.ladder.roster.channels_of(source)
        meant = [sender for sender in seen if sender in streams]
        if channels > 1 and len(seen) < _SENDERS_MAX:
            more = (s for s in streams if s not in seen and channel_of(s) and channels >> channel_of(s) & 1)
            meant += islice(more, _SENDERS_MAX)
        return meant

    def _told(self, now: float, source: int, message: Progress, out: Effects) -> None:
        if not self.ladder.hearing.on:
            self._answered_at = now
            gaps = self.ladder.gaps
            for sender, last in message.lasts.items():
                (gaps.come_to if owner_of(sender) == source else gaps.learn)(now, sender, last, out)

    def _has_caught_up(self, now: float) -> bool:
        """Whether hardly anything is missing, measured by what comes."""
        senders = [sender for sender in self.ladder.streams if sender not in self.ladder.own]
        heads = self._heads
        heads.append((now, sum(self.ladder.streams[sender].next for sender in senders)))
        while now - heads[0][0] > self._patience:
            heads.popleft()
        if now - self._changed_at < self._pause or len(heads) < 2:
            return False
        rate = (heads[-1][1] - heads[0][1]) / (now - heads[0][0])
        missing = sum(len(self.ladder.streams[sender].missing) for sender in senders)
        return missing <= max(self.ladder.settings.window // 4, _CAUGHT_UP_S * rate)

    def _listen(self, now: float, out: Effects) -> None:
        self._changed_at = now
        self._before = None
        hearing = self.ladder.hearing
        hearing.on, hearing.why, hearing.carried = True, "", 0.0
        out.append(Listen(on=True))
