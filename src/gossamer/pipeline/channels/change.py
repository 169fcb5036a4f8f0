"""What a change of the channel map costs: what moves, and what members hear in vain while they listen by both maps."""

import numpy as np

from gossamer.pipeline.channels.mapping import Case
from gossamer.pubsub.channel_map import ChannelMap


def cost_of(case: Case, old: ChannelMap, new: ChannelMap) -> dict[str, float]:
    """For the demand of `case`: what is heard in vain by the `old` map, by the `new` one, and by both at a time.

    Then the part of the traffic that moves to another channel, and how many channels a member joins on average.
    """
    kept, renewed = case.with_channels(old), case.with_channels(new)
    count = max(old.channels, new.channels)
    before, after = (_padded(outcome.listens, count) for outcome in (kept, renewed))
    heard = (before | after)[: old.channels] * kept.weight[:, None]  # until publishers change over, by the old map
    moved = np.array([old.channel_of(subject) != new.channel_of(subject) for subject in case.subjects])
    return {
        "kept": kept.waste,
        "renewed": renewed.waste,
        "both": float(heard.sum() - kept.wanted.sum()),
        "moved": float(case.weights[moved].sum() / case.weights.sum()),
        "joined": float((after & ~before).sum() / len(case.members)),
    }


def _padded(listens: np.typing.NDArray[np.bool_], count: int) -> np.typing.NDArray[np.bool_]:
    return np.pad(listens, ((0, count - len(listens)), (0, 0)))
