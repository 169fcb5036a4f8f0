"""What the counters of a running group say about its network: what limits senders, and who cannot keep up."""

from collections.abc import Iterator
from typing import Any

from gossamer.live.diagnosis import Finding

_REPAIRED_MANY = 0.2
"""If a larger share of what a member gets is repaired, its path loses too much."""
_QUEUE_LONG_S = 0.05


def of_group(profiles: list[dict[str, Any]]) -> Iterator[Finding]:
    """The findings about a group, from what its members answered to a probe."""
    names = {profile["member"]: profile["name"] for profile in profiles}
    for profile in profiles:
        yield from _of_receiver(profile["name"], profile["stats"])
        if profile["stats"]["published"]:
            yield from _of_sender(profile["name"], profile["stats"], names)


def _of_receiver(name: str, stats: dict[str, Any]) -> Iterator[Finding]:
    listening, received = stats["listening"], stats["received"]
    if not listening["on"]:
        change = "its link is slower than those of most others: give it a faster one, or publish less"
        yield Finding(f"{name} receives", "warn", f"has left the multicast: {listening['why']}", change)
    elif received:
        share = (stats["peer"] + stats["logger"]) / received
        says = f"{received:,} events, {share:.1%} by repair, {sum(stats['lost'].values()):,} lost"
        change = "a logger keeps what peers do not" if stats["lost"] else ""
        if share > _REPAIRED_MANY:
            change = "look for a lossy link or small socket buffers on its way"
        yield Finding(f"{name} receives", "warn" if change else "ok", says, change)


def _of_sender(name: str, stats: dict[str, Any], names: dict[int, str]) -> Iterator[Finding]:
    pace = stats["pace"]
    rate = "no limit" if pace["rate"] is None else f"{pace['rate'] * 8 / 1e6:,.1f} Mbit/s"
    receiver = "" if pace["receiver"] is None else f" to {names.get(pace['receiver'], pace['receiver'])}"
    queueing = max((path["queueing"] for path in pace["paths"].values()), default=0.0)
    says = f"may send {rate}, held back by the {pace['held_by']}{receiver}, {queueing * 1e3:.1f} ms in queues"
    change = "something else keeps a queue on the way full" if queueing > _QUEUE_LONG_S else ""
    yield Finding(f"{name} sends", "warn" if change else "ok", says, change)
    if stats["lagging"]:
        slow = ", ".join(names.get(member, str(member)) for member in stats["lagging"])
        change = "they read from the logger or from peers; without a logger, they may lose events"
        yield Finding(f"{name} sends", "warn", f"does not wait for {slow}", change)
