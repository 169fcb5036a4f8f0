"""The channel map of a group: which channel carries the events of which subject.

A map is an ordered list of rules, each a subject pattern and a channel. The first pattern that matches a subject
decides; what none matches goes to channel 0. A map cannot be changed, only replaced by one with a higher version,
and it is valid by construction: each rule decides for some subject, and the map fits the bytes that a group carries.

    version = 3
    channels = 16

    [[rule]]
    pattern = "quotes.nyse.*"
    channel = 1
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from gossamer.core import varint
from gossamer.core.errors import Error
from gossamer.pubsub.first_match import NONE, FirstMatch, has_wildcard, intersection
from gossamer.pubsub.subjects import SUBJECT_BYTES_MAX, SubjectError, check_pattern

CHANNELS_MAX: Final = 128
DEFAULT_CHANNEL: Final = 0
"""Where the events go whose subject no rule matches, and all events of a group without a map."""

VERSION_MAX: Final = (1 << 63) - 1
RULES_MAX: Final = 1 << 15
WILDCARDS_MAX: Final = 1 << 10
"""How many rules may have wildcards: a subject that is new to a member is compared with at most these."""

_VISITS_MAX: Final = 1 << 21
"""How much work the check of a map may be: about a second, several times what a map of only useful rules needs."""

MAP_BYTES_MAX: Final = 1 << 20
_REMEMBERED_MAX: Final = 10_000
_TABLE_KEYS: Final = ("version", "channels", "rule")


class ChannelMapError(Error, ValueError):
    """An invalid channel map; the message names the rule and says what to do."""


class Rule(NamedTuple):
    """The events whose subject matches `pattern`, and no pattern before it, go to `channel`."""

    pattern: str
    channel: int


class MapDiff(NamedTuple):
    """How one map differs from another: its rules by pattern, and whether the order of those in both changed."""

    added: tuple[Rule, ...]
    removed: tuple[Rule, ...]
    moved: tuple[tuple[str, int, int], ...]
    """Patterns in both with different channels: the pattern, the old channel and the new one."""
    reordered: bool

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.moved or self.reordered)


@dataclass(frozen=True)
class ChannelMap:
    """Rules from subjects to `channels` channels; ChannelMapError for a map that could not mean what it says."""

    version: int
    channels: int
    rules: tuple[Rule, ...]
    _first: FirstMatch = field(init=False, repr=False, compare=False)
    _remembered: dict[str, int] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rules", _rules_of(self.rules))
        _check_numbers(self.version, self.channels)
        _check_rules(self.rules, self.channels)
        object.__setattr__(self, "_first", FirstMatch([rule.pattern for rule in self.rules]))
        _check_reachable(self.rules, self._first)
        if (size := len(self.to_bytes())) > MAP_BYTES_MAX:
            raise ChannelMapError(f"the map takes {size} bytes, at most {MAP_BYTES_MAX}: replace subjects by patterns")

    def __hash__(self) -> int:
        return hash((self.version, self.channels, self.rules))

    def channel_of(self, subject: str) -> int:
        """The channel that carries `subject` (which passed `check_subject`)."""
        channel = self._remembered.get(subject)
        return self._find(subject) if channel is None else channel

    def _find(self, subject: str) -> int:
        if len(self._remembered) >= _REMEMBERED_MAX:
            self._remembered.clear()
        channel = self._channel(self._first.find(subject))
        self._remembered[subject] = channel
        return channel

    def channels_for(self, pattern: str) -> tuple[int, ...]:
        """The channels, ascending, that can carry a subject of `pattern`; SubjectError if it is no pattern."""
        tokens = tuple(check_pattern(pattern).split("."))
        if not has_wildcard(tokens):
            return (self.channel_of(pattern),)
        found = {self._channel(index) for index in self._first.first_of(tokens)}
        for index, rule in enumerate(self.rules):
            if rule.channel not in found:
                met = intersection(tokens, tuple(rule.pattern.split(".")))
                if met and index in self._first.first_of(met):
                    found.add(rule.channel)
        return tuple(sorted(found))

    def _channel(self, index: int) -> int:
        return DEFAULT_CHANNEL if index == NONE else self.rules[index].channel

    def diff(self, other: "ChannelMap") -> MapDiff:
        """What changes if this map is replaced by `other`."""
        old, new = dict(self.rules), dict(other.rules)
        moved = tuple((p, c, new[p]) for p, c in self.rules if p in new and new[p] != c)
        both = [p for p in old if p in new], [p for p in new if p in old]
        added = tuple(rule for rule in other.rules if rule.pattern not in old)
        removed = tuple(rule for rule in self.rules if rule.pattern not in new)
        return MapDiff(added, removed, moved, both[0] != both[1])

    def to_toml(self) -> str:
        """The map as a file that people can edit."""
        rules = (f"\n[[rule]]\npattern = {_quoted(rule.pattern)}\nchannel = {rule.channel}\n" for rule in self.rules)
        return f"version = {self.version}\nchannels = {self.channels}\n" + "".join(rules)

    @classmethod
    def from_toml(cls, text: str) -> "ChannelMap":
        """The map in `text`; ChannelMapError if it is none."""
        try:
            table = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ChannelMapError(f"not valid TOML: {error}") from None
        _check_keys("the map", table, _TABLE_KEYS)
        rules = table.get("rule", [])
        if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
            raise ChannelMapError("rule: write each rule as [[rule]] with pattern and channel")
        for number, rule in enumerate(rules, 1):
            _check_keys(f"rule {number}", rule, Rule._fields)
        return cls(table.get("version", 0), table.get("channels", 0), tuple(Rule(**rule) for rule in rules))

    def to_bytes(self) -> bytes:
        """The map for the wire: equal maps give equal bytes, and a pattern only what its predecessor does not share."""
        out = bytearray()
        for number in (self.version, self.channels, len(self.rules)):
            varint.put(out, number)
        before = b""
        for rule in self.rules:
            pattern = rule.pattern.encode()
            shared = _shared(before, pattern)
            varint.put(out, shared)
            varint.put(out, len(pattern) - shared)
            out += pattern[shared:]
            out.append(rule.channel)
            before = pattern
        return bytes(out)

    @classmethod
    def from_bytes(cls, data: bytes | memoryview) -> "ChannelMap":
        """The map that `to_bytes` wrote; ChannelMapError, and never any other error, for all other bytes."""
        data = bytes(data[: MAP_BYTES_MAX + 1])
        if len(data) > MAP_BYTES_MAX:
            raise ChannelMapError(f"a map of more than {MAP_BYTES_MAX} bytes")
        try:
            found = cls(*_decoded(data))
        except ChannelMapError:
            raise
        except ValueError as error:  # a varint or UTF-8 that is none
            raise ChannelMapError(f"malformed map: {error}") from None
        if found.to_bytes() != data:
            raise ChannelMapError("malformed map: not written as short as possible")
        return found


def _rules_of(rules: Any) -> tuple[Rule, ...]:
    try:
        return tuple(Rule(*rule) for rule in rules)
    except TypeError:
        raise ChannelMapError("rules must be a list of Rule(pattern, channel), like Rule('quotes.>', 1)") from None


def _check_numbers(version: Any, channels: Any) -> None:
    if not _is_number(version, 1, VERSION_MAX):
        raise ChannelMapError(
            f"version = {version!r}: must be a whole number from 1 on, higher than that of the last map"
        )
    if not _is_number(channels, 1, CHANNELS_MAX):
        raise ChannelMapError(f"channels = {channels!r}: must be a whole number from 1 to {CHANNELS_MAX}")


def _check_rules(rules: tuple[Rule, ...], channels: int) -> None:
    if not rules:
        raise ChannelMapError('the map has no rules: for one channel write pattern = ">", channel = 0')
    if len(rules) > RULES_MAX:
        raise ChannelMapError(f"{len(rules)} rules, at most {RULES_MAX}: replace subjects by patterns")
    wildcards = sum(1 for number, rule in enumerate(rules, 1) if _check_rule(number, rule, channels))
    if wildcards > WILDCARDS_MAX:
        raise ChannelMapError(f"{wildcards} rules with wildcards, at most {WILDCARDS_MAX}: merge some of them")


def _check_rule(number: int, rule: Rule, channels: int) -> bool:
    """Check a rule by itself; returns whether it has wildcards."""
    try:
        tokens = check_pattern(rule.pattern).split(".")
    except SubjectError as error:
        raise ChannelMapError(f"rule {number}: {error}") from None
    if not _is_number(rule.channel, 0, channels - 1):
        raise ChannelMapError(f"{_named(number, rule)}: channel = {rule.channel!r}: must be from 0 to {channels - 1}")
    return has_wildcard(tokens)


def _check_reachable(rules: tuple[Rule, ...], first: FirstMatch) -> None:
    seen: dict[str, int] = {}
    for index, rule in enumerate(rules):
        name = _named(index + 1, rule)
        if rule.pattern in seen:
            raise ChannelMapError(f"{name}: rule {seen[rule.pattern]} has the same pattern; remove one of them")
        seen[rule.pattern] = index + 1
        deciding = first.first_of(tuple(rule.pattern.split(".")))
        if first.visits > _VISITS_MAX:
            raise ChannelMapError(
                f"{name}: too many rules before it overlap; use fewer rules that begin with wildcards"
            )
        if index not in deciding:
            raise ChannelMapError(f"{name}: unreachable, {_earlier(rules, deciding)}; move it up, or remove it")


def _earlier(rules: tuple[Rule, ...], deciding: set[int]) -> str:
    names = [_named(index + 1, rules[index]) for index in sorted(deciding)[:3]]
    return f"all its subjects are taken by {' and '.join(names)}"


def _check_keys(where: str, table: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for key in table:
        if key not in known:
            raise ChannelMapError(f"{where}: unknown key {key!r}; there are {', '.join(known)}")
    for key in known:
        if key not in table and key != "rule":
            raise ChannelMapError(f"{where}: {key} is missing")


def _decoded(data: bytes) -> tuple[int, int, tuple[Rule, ...]]:
    version, at = varint.get(data, 0)
    channels, at = varint.get(data, at)
    count, at = varint.get(data, at)
    if count > RULES_MAX:
        raise ValueError(f"{count} rules")
    rules, before = [], b""
    for _ in range(count):
        before, at = _pattern(data, at, before)
        if at >= len(data):
            raise ValueError("a rule is cut short")
        rules.append(Rule(before.decode(), data[at]))
        at += 1
    if at != len(data):
        raise ValueError("bytes after the last rule")
    return version, channels, tuple(rules)


def _pattern(data: bytes, at: int, before: bytes) -> tuple[bytes, int]:
    shared, at = varint.get(data, at)
    length, at = varint.get(data, at)
    if shared > len(before) or shared + length > SUBJECT_BYTES_MAX or length > len(data) - at:
        raise ValueError("a pattern is too long")
    return before[:shared] + data[at : at + length], at + length


def _shared(one: bytes, other: bytes) -> int:
    for place, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return place
    return min(len(one), len(other))


def _is_number(value: Any, low: int, high: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def _named(number: int, rule: Rule) -> str:
    return f"rule {number} ({rule.pattern})"


def _quoted(pattern: str) -> str:
    """A TOML string; a token has no control characters, so only these two need a backslash."""
    return '"' + pattern.replace("\\", "\\\\").replace('"', '\\"') + '"'
