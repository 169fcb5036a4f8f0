"""Which maps a group is between, while it changes from one to the next: what a member that comes then has to know.

Members publish by the old map until all know the new one. Whoever comes meanwhile, or was away, must listen by every
map that anybody may publish by, also by those that it never knew.
"""

from typing import Final, NamedTuple

from gossamer.core import varint
from gossamer.pubsub.channel_map import MAP_BYTES_MAX, ChannelMap, ChannelMapError

EARLIER_MAX: Final = 8
"""How many earlier maps are told."""


class MapsInUse(NamedTuple):
    """What a member tells of maps before the latest one."""

    version: int
    """Of the map that it publishes by itself; 0 if it publishes by none."""
    earlier: tuple[ChannelMap, ...]
    """Others may still publish by these."""
    complete: bool = True
    """Whether these are all: then they were not too many, or too large."""

    def to_bytes(self) -> bytes:
        """For the wire: the latest of the earlier maps, as many as there is room for."""
        told: list[bytes] = []
        for earlier in reversed(self.earlier[-EARLIER_MAX:]):
            content = earlier.to_bytes()
            if sum(map(len, told)) + len(content) > MAP_BYTES_MAX:
                break
            told.insert(0, content)
        out = bytearray()
        for number in (self.version, int(self.complete and len(told) == len(self.earlier)), len(told)):
            varint.put(out, number)
        for content in told:
            varint.put(out, len(content))
            out += content
        return bytes(out)

    @classmethod
    def from_bytes(cls, data: bytes) -> "MapsInUse":
        """What `to_bytes` wrote; ChannelMapError, and never any other error, for all other bytes."""
        try:
            return cls._decoded(data)
        except ChannelMapError:
            raise
        except ValueError as error:
            raise ChannelMapError(f"malformed maps in use: {error}") from None

    @classmethod
    def _decoded(cls, data: bytes) -> "MapsInUse":
        version, at = varint.get(data, 0)
        complete, at = varint.get(data, at)
        count, at = varint.get(data, at)
        if count > EARLIER_MAX or complete > 1:
            raise ValueError(f"{count} maps")
        earlier = []
        for _ in range(count):
            length, at = varint.get(data, at)
            earlier.append(ChannelMap.from_bytes(data[at : at + length]))
            at += length
        if at != len(data):
            raise ValueError("bytes after the last map, or too few")
        return cls(version, tuple(earlier), bool(complete))


NONE_IN_USE: Final = MapsInUse(0, ())
"""Nobody publishes by an earlier map."""
