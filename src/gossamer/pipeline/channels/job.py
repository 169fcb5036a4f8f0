"""`gossamer pipeline channels`: from a log and interests to a channel map and a report, step by step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING, Any

from gossamer.analysis.channels import Demand, Grouping
from gossamer.pipeline.channels.change import cost_of
from gossamer.pipeline.channels.clusters import clustered
from gossamer.pipeline.channels.interests import Interests
from gossamer.pipeline.channels.mapping import Case, Outcome, find_map, hashed_map, numbered_like, one_channel
from gossamer.pipeline.channels.traffic import traffic
from gossamer.pubsub.channel_map import ChannelMap

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Say = Callable[[str], None]


@dataclass(frozen=True)
class Mapped:
    """A map, what was measured, and what the map is worth."""

    channel_map: ChannelMap
    case: Case
    outcome: Outcome
    facts: dict[str, Any]


def map_channels(
    spark: SparkSession,
    events: DataFrame,
    interests: Interests,
    channels: int,
    *,
    before: ChannelMap | None = None,
    weight: str = "events",
    say: Say = lambda text: None,
) -> Mapped:
    """Find the map for `channels` channels that wastes least, by `weight`: events or bytes.

    It is the next version of the one `before`, if there is one, and moves as little traffic as possible.
    """
    version = 1 if before is None else before.version + 1
    clock = _Clock(say)
    clock.begin("log", "counting the events of the log by subject")
    counted = traffic(events)
    case = Case.of(getattr(counted, weight), interests)
    say(f"{len(case.subjects):,} subjects, {len(case.members):,} members, {len(interests):,} patterns")

    def starts(kinds: Demand, count: int) -> dict[str, Grouping]:
        clock.begin("clusters", f"clustering {len(kinds.weights):,} kinds of subjects with Spark")
        found = clustered(spark, kinds, count)
        clock.begin("moves", "merging kinds pair by pair, and moving each to where it costs least")
        return found

    channel_map, found = find_map(case, channels, version, starts)
    if before is not None:
        channel_map = numbered_like(channel_map, before, getattr(counted, weight))
    clock.begin("report", "working out what each member would hear")
    outcome = case.with_channels(channel_map)
    facts = {
        "version": version,
        "channels": channel_map.channels,
        "rules": len(channel_map.rules),
        "map_bytes": len(channel_map.to_bytes()),
        "subjects": len(case.subjects),
        "members": len(case.members),
        "events": sum(counted.events.values()),
        "bytes": sum(counted.bytes.values()),
        "weight": weight,
        "wanted": float(outcome.wanted.sum()),
        "waste": {
            "one_channel": one_channel(case).waste,
            "hashed": hashed_map(case, channels).waste,
            "map": outcome.waste,
        },
        "methods": found,
        "by_channel": outcome.channels(),
        "by_member": outcome.by_member(),
    }
    if before is not None:
        facts["change"] = cost_of(case, before, channel_map)
    clock.end()
    return Mapped(channel_map, case, outcome, {**facts, "seconds": clock.seconds})


class _Clock:
    """Says what is being done, and keeps how long each part took."""

    def __init__(self, say: Say) -> None:
        self.seconds: dict[str, float] = {}
        self._say = say
        self._part = ""
        self._began = 0.0

    def begin(self, part: str, text: str) -> None:
        """Another part begins."""
        self.end()
        self._part, self._began = part, perf_counter()
        self._say(text)

    def end(self) -> None:
        """The part under way ends."""
        if self._part:
            self.seconds[self._part] = perf_counter() - self._began
