"""To begin to listen to channels, and to stop: what that does to the streams of a member."""

from gossamer.core.effects import BecomeListener
from gossamer.core.ids import channel_of, owner_of
from gossamer.core.ladder import Effects, Ladder
from gossamer.core.packet_sets import Horizon


def listen(ladder: Ladder, channels: int, horizon: Horizon, out: Effects) -> None:
    """Hear `channels`, too, from now on: the member is owed what comes there after `horizon`, or as its order says."""
    streams = ladder.streams
    new = channels & ~streams.channels
    streams.channels |= channels
    after = ladder.order.begins_after({s: last for s, last in horizon.items() if new >> channel_of(s) & 1}, new)
    owed = {s: last for s, last in after.items() if owner_of(s) != ladder.me}
    for stream, last in owed.items():
        streams.begin(stream, last + 1)
    out.append(BecomeListener(streams.channels, owed))


def unlisten(ladder: Ladder, now: float, channels: int, out: Effects) -> None:
    """Hear `channels` no more, but for channel 0: nothing that is missing there is awaited."""
    streams = ladder.streams
    ended = channels & streams.channels & ~1
    for stream in [s for s in streams if ended >> channel_of(s) & 1 and owner_of(s) != ladder.me]:
        ladder.gaps.drop(now, stream, out)
        ladder.retire(now, stream)
    if ended:
        streams.channels &= ~ended
        out.append(BecomeListener(streams.channels, {}))
