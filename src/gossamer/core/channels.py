"""To begin to listen to channels, and to stop: what that does to the streams of a member."""

from gossamer.core.effects import BecomeListener
from gossamer.core.ids import PEER, channel_of, owner_of
from gossamer.core.ladder import Effects, Ladder
from gossamer.core.packet_sets import Horizon
from gossamer.core.packets import split_into_runs
from gossamer.core.ranges import RangeSet


def listen(ladder: Ladder, now: float, channels: int, horizon: Horizon, out: Effects) -> None:
    """Hear `channels`, too, from now on: the member is owed what comes there after `horizon`, or as its order says."""
    streams = ladder.streams
    new = channels & ~streams.channels
    streams.channels |= channels
    after = ladder.order.begins_after({s: last for s, last in horizon.items() if new >> channel_of(s) & 1}, new)
    owed = {s: last for s, last in after.items() if owner_of(s) != ladder.me}
    heard = {stream: streams.prefix_of(stream) for stream in owed}
    for stream, last in owed.items():
        streams.begin(stream, last + 1)
    out.append(BecomeListener(streams.channels, owed))
    for stream, last in heard.items():
        _take_again(ladder, now, stream, last, out)


def _take_again(ladder: Ladder, now: float, sender: int, heard: int, out: Effects) -> None:
    """What is owed again up to `heard`, and still in our own buffer, need not come again."""
    stream = ladder.streams[sender]
    again = RangeSet.span(stream.start, heard) if stream.start <= heard else RangeSet()
    kept = [ladder.buffer.get(sender, number) for number in ladder.buffer.kept_of(sender, again)]
    for run in split_into_runs([packet for packet in kept if packet is not None]):
        gap = stream.accept(run)[1]
        if gap is not None:
            ladder.gaps.found(now, sender, *gap, out)
        ladder.order.arrived(now, [run], PEER, stream, out)


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
