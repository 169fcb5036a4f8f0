"""The attributes of events <-> bytes: names and types once, then one row of values for each event.

Consecutive events mostly carry the same names with the same types; together these are a *shape*. Written:

    n, 1 byte (at most 64); n times (tag 1 byte, length of the name 1 byte); the names
    for each event one row: each value in its column, most significant byte first
    the strings of the first event, of the second, ..., one after the other

     tag  type    in the row
     0    None    1 byte, 0        (a byte, so that a value is never free: work grows with the length of the input)
     1    bool    1 byte
     2    int     8 bytes, signed: an int beyond 64 bits is refused when it is published
     3    float   8 bytes
     4    str     2 bytes: its length in UTF-8

The order of the names is the publisher's; the same attributes in the same order give the same bytes.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, chain, pairwise, repeat
from struct import Struct, error
from typing import Any, Final, Never

Attribute = int | float | str | bool | None
Attributes = Mapping[str, Attribute]

ATTRIBUTES_MAX: Final = 64
"""Attributes of one event."""
NAME_BYTES_MAX: Final = 255
TEXT_BYTES_MAX: Final = 65_535

_NONE, _BOOL, _INT, _FLOAT, _TEXT = range(5)
_CODES: Final = "B?qdH"


class _NoAttributes(dict[str, Attribute]):
    """No attributes: one object for all events without any, so it cannot be changed. Otherwise a plain empty dict."""

    def _refuse(self, *_: Any, **__: Any) -> Never:
        raise TypeError("the attributes of an event cannot be changed: copy them with dict(event.attributes)")

    __setitem__ = __ior__ = setdefault = update = _refuse

    def __reduce__(self) -> str:
        return "NO_ATTRIBUTES"


NO_ATTRIBUTES: Final[Attributes] = _NoAttributes()


class Shape:
    """Names and types that events share: how their rows are written and read."""

    __slots__ = ("head", "key", "names", "none_at", "plain", "row", "tags", "text_at")

    def __init__(self, names: tuple[str, ...], tags: tuple[int, ...], key: tuple[Any, ...] = ()) -> None:
        encoded = [name.encode() for name in names]
        if not 1 <= len(names) <= ATTRIBUTES_MAX:
            raise ValueError(f"{len(names)} attributes: an event has at most {ATTRIBUTES_MAX}")
        if len(set(names)) != len(names):
            raise ValueError("an attribute is named twice")
        for name in encoded:
            if not 1 <= len(name) <= NAME_BYTES_MAX:
                raise ValueError(f"the name of an attribute has {len(name)} bytes, must be 1 to {NAME_BYTES_MAX}")
        self.names: Final = names
        self.tags: Final = tags
        self.key: Final = key
        self.text_at: Final = [i for i, tag in enumerate(tags) if tag == _TEXT]
        self.none_at: Final = [i for i, tag in enumerate(tags) if tag == _NONE]
        self.plain: Final = not self.text_at and not self.none_at
        self.row: Final = Struct("!" + "".join(_CODES[tag] for tag in tags))
        pairs = (byte for tag, name in zip(tags, encoded, strict=True) for byte in (tag, len(name)))
        self.head: Final = bytes([len(names), *pairs]) + b"".join(encoded)

    def pack(self, values: Iterable[Any]) -> tuple[bytes, bytes]:
        """The row of one event, and its strings; ValueError for a value that is too large."""
        texts = []
        if not self.plain:
            values = list(values)
            for i in self.text_at:
                texts.append(values[i].encode())
                values[i] = len(texts[-1])
            for i in self.none_at:
                values[i] = 0
        try:
            return self.row.pack(*values), b"".join(texts)
        except error:
            raise ValueError(self._too_large(values)) from None

    def _too_large(self, values: Iterable[Any]) -> str:
        for name, tag, value in zip(self.names, self.tags, values, strict=True):
            if tag == _TEXT and value > TEXT_BYTES_MAX:
                return f"attribute {name!r} has {value} bytes of text, at most {TEXT_BYTES_MAX}: use the payload"
            if tag == _INT and not -(1 << 63) <= value < 1 << 63:
                return f"attribute {name!r} is beyond 64 bits: use a float or a str"
        return "an attribute cannot be written"


@lru_cache(maxsize=256)
def _shape_of(key: tuple[Any, ...]) -> Shape:
    """The shape of attributes with these names, followed by these types."""
    names, types = key[: len(key) // 2], key[len(key) // 2 :]
    return Shape(names, tuple(map(_tag, names, types)), key)


def pack(attributes: Attributes, shape: Shape | None = None) -> tuple[Shape, bytes, bytes]:
    """The shape, the row and the strings of one event's attributes; ValueError or TypeError if they cannot be sent.

    `shape` is a guess, usually right, that saves looking it up.
    """
    values = attributes.values()
    key = (*attributes, *map(type, values))
    if shape is None or key != shape.key:
        shape = _shape_of(key)
    row, texts = shape.pack(values)
    return shape, row, texts


def unpack(data: bytes, at: int, count: int) -> tuple[list[Attributes], int]:
    """The attributes of `count` events at offset `at` and the offset after them; ValueError if malformed."""
    shape, at = _unpack_shape(data, at)
    end = at + count * shape.row.size
    if end > len(data):
        raise ValueError(f"{count} rows of attributes cannot fit in {len(data) - at} bytes")
    names = shape.names
    rows = shape.row.iter_unpack(data[at:end])
    if shape.plain:
        return _dicts(names, rows), end
    columns: list[Sequence[Attribute]] = list(zip(*rows, strict=True))
    for i in shape.none_at:
        columns[i] = [None] * count
    if shape.text_at:
        texts, end = _unpack_texts(data, end, [columns[i] for i in shape.text_at])
        for n, i in enumerate(shape.text_at):
            columns[i] = texts[n :: len(shape.text_at)]
    return _dicts(names, zip(*columns, strict=True)), end


def _dicts(names: tuple[str, ...], rows: Iterable[Iterable[Attribute]]) -> list[Attributes]:
    return list(map(dict, map(zip, repeat(names), rows)))


def _tag(name: str, value_type: type) -> int:
    if not isinstance(name, str):
        raise TypeError(f"the name of an attribute must be a str, not {name!r}")
    if value_type is type(None):
        return _NONE
    for tag, known in ((_BOOL, bool), (_INT, int), (_FLOAT, float), (_TEXT, str)):
        if issubclass(value_type, known):
            return tag
    raise TypeError(f"attribute {name!r} is of type {value_type.__name__}: use int, float, str, bool or None")


def _unpack_shape(data: bytes, at: int) -> tuple[Shape, int]:
    n = data[at] if at < len(data) else 0
    end = at + 1 + 2 * n
    end += sum(data[at + 2 : end : 2])
    if not n or end > len(data):
        raise ValueError("the names of the attributes are cut short")
    return _shape_from(data[at:end]), end


@lru_cache(maxsize=128)
def _shape_from(head: bytes) -> Shape:
    n = head[0]
    tags = tuple(head[1 : 1 + 2 * n : 2])
    if max(tags) > _TEXT:
        raise ValueError(f"attribute with unknown tag {max(tags)}")
    edges = accumulate(head[2 : 1 + 2 * n : 2], initial=1 + 2 * n)
    return Shape(tuple(head[a:b].decode() for a, b in pairwise(edges)), tags)


def _unpack_texts(data: bytes, at: int, lengths: Sequence[Sequence[Any]]) -> tuple[list[str], int]:
    edges = list(accumulate(chain.from_iterable(zip(*lengths, strict=True)), initial=at))
    if edges[-1] > len(data):
        raise ValueError("a string of an attribute is cut short")
    return [data[a:b].decode() for a, b in pairwise(edges)], edges[-1]
