"""The matrix of choices: every rung and every main switch, in any combination that is not refused.

A *row* chooses one value for each factor. `draw` gives a random row that works; `covering` gives rows in which every
pair of choices that can work together occurs at least once. What is refused, and why, is decided by `rungs.check`
alone.
"""

from collections.abc import Mapping
from functools import lru_cache, reduce
from itertools import combinations, product
from operator import or_
from random import Random
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gossamer.core.schema import SettingError
from gossamer.core.settings import ProtocolSettings
from gossamer.rungs import check, declared

Row = dict[str, str]
"""One choice for each factor."""
Pair = tuple[tuple[str, str], tuple[str, str]]
"""Two factors with a choice for each."""

_CHAINS: Final = (
    "",
    "acknowledged",
    "negative",
    "digest",
    "logger",
    "acknowledged logger",
    "negative logger",
    "digest logger",
    "negative digest",
    "digest negative logger",
    "acknowledged negative",
    "acknowledged digest logger",
    "coordinator",
    "coordinator logger",
    "negative coordinator",
    "negative coordinator logger",
    "acknowledged coordinator",
    "negative exclusion",
    "digest exclusion",
    "acknowledged exclusion",
    "srm exclusion",
    "srm",
    "srm logger",
    "negative srm",
    "srm digest logger",
    "acknowledged srm",
)

_BOUND: Final[Mapping[str, Mapping[str, Mapping[str, Any]]]] = {  # factors that need, provide or exclude something
    "repair": {chain or "none": {"repair": chain.split()} for chain in _CHAINS},
    "buffering": {
        "none": {"buffering": "none"},
        "age": {"buffering": "age", "gc_rounds": 5},
        "size": {"buffering": "size", "buffer_packets": 60},
        "unstable": {"buffering": "unstable"},
        "hashed": {"buffering": "hashed", "gc_rounds": 5, "bufferers": 3},
    },
    "heartbeat": {word: {"heartbeat": word} for word in ("none", "variable", "hashed")},
    "membership": {
        **{word: {"membership": word} for word in ("static", "sponsored")},
        "synchronous": {"membership": "synchronous", "exclude_after": 0.5},
    },
    "loggers": {str(count): {"loggers": count} for count in (0, 1, 2)},
    "suspicion": {"off": {}, "on": {"suspect_after": 1.0}},
    "flow": {
        "none": {},
        "rate": {"rate_limit": 200.0},
        "admission": {"admission": 50},
        "window": {"window": 16, "patience": 0.1},
        "reach": {"window": 16, "patience": 0.1, "reach": 64},
        "slowest": {"unstable_packets": 16},
    },
    "adaptive": {"no": {}, "yes": {"adaptive": True}},
    "stability": {word: {"stability": word} for word in ("none", "aged", "acknowledged", "polled")},
    "ordering": {word: {"ordering": word} for word in ("none", "fifo", "total", "central", "two-phase")},
    "recovery": {word: {"recovery": word} for word in ("at-most-once", "at-least-once")},
    "channels": {"one": {}, "several": {"channels": 4}},
}
_FREE: Final[Mapping[str, Mapping[str, Mapping[str, Any]]]] = {  # factors that go with anything, or need a bound one
    "first pass": {word: {"dissemination": word} for word in ("multicast", "trees", "copies", "graph")},
    "view": {"full": {}, "partial": {"view_size": 4}},
    "repairs": {"unicast": {}, "multicast": {"multicast_after": 2}, "regional": {"region_rtt": 0.02}},
    "requests": {"all": {}, "limited": {"request_packets": 16}},
    "retries": {"off": {}, "on": {"ask_again": 0.02, "round_trips": True}},
    "listening": {"always": {}, "while it keeps up": {"unlisten_after": 0.5}},
    "parity": {"none": {}, "as needed": {"parity": -1}},
    "selection": {word: {"selection": word} for word in ("uniform", "linear", "quadratic")},
    "rounds": {
        "apart": {},
        "in step": {"unsynchronized": False},
        "stretched": {"gossip_period_max": 0.5},
        "two targets": {"fanout": 2},
    },
    "service": {"unlimited": {"service_limit": 0}, "limited": {"service_limit": 200}},
}
FACTORS: Final = {**_BOUND, **_FREE}


def settings_of(row: Row) -> dict[str, Any]:
    """The `[protocol]` table of a row."""
    table: dict[str, Any] = {"name": "unreliable", "gossip_period": 0.1, "retry_period": 0.1, "heartbeat_max": 2.0}
    for factor, choice in row.items():
        table |= FACTORS[factor][choice]
    return table


def refusal(row: Row) -> str:
    """Why this row, or part of a row, is refused; empty if it is not."""
    table = settings_of(row)
    try:
        check(ProtocolSettings(**{**table, "repair": tuple(table.get("repair", ()))}))
    except SettingError as error:
        return str(error)
    return ""


def draw(rng: Random) -> Row:
    """A random row that works: one in five rows does."""
    while True:
        row = {factor: rng.choice(list(choices)) for factor, choices in FACTORS.items()}
        if not refusal(row):
            return row


class _Working(NamedTuple):
    """Every combination of the bound factors that is not refused: a row of `choices` has their numbers."""

    choices: NDArray[np.int8]
    provides: NDArray[np.int64]
    """What the choices of each row provide, as bits."""

    def row(self, at: int) -> Row:
        """The choices of one row by name."""
        return {factor: list(of)[number] for (factor, of), number in zip(_BOUND.items(), self.choices[at], strict=True)}


@lru_cache(maxsize=1)
def working() -> _Working:
    """Every combination of the bound factors that is not refused.

    What a choice needs, provides and excludes depends on no other, so it is looked up once, not for a million rows.
    """
    choices = np.zeros((1, 0), np.int8)
    needs = provides = excludes = np.zeros(1, np.int64)
    for at, (factor, of) in enumerate(_BOUND.items()):
        later = reduce(or_, (_words(f, choice).provides for f in list(_BOUND)[at + 1 :] for choice in _BOUND[f]), 0)
        more = np.array([_words(factor, choice) for choice in of])
        needs, provides, excludes = (
            (known[:, None] | more[:, n]).ravel() for n, known in enumerate((needs, provides, excludes))
        )
        grown = np.repeat(choices, len(of), axis=0), np.tile(np.arange(len(of), dtype=np.int8), len(choices))
        works = (needs & ~(provides | later) == 0) & (excludes & provides == 0)
        choices = np.column_stack(grown)[works]
        needs, provides, excludes = needs[works], provides[works], excludes[works]
    return _Working(choices, provides)


class _Words(NamedTuple):
    """What a choice needs, provides and excludes, as bits."""

    needs: int
    provides: int
    excludes: int


_BITS: Final[dict[str, int]] = {}
"""The bit of each word."""


@lru_cache(maxsize=1000)
def _words(factor: str, choice: str) -> _Words:
    table = settings_of({factor: choice})
    settings = ProtocolSettings(**{**table, "repair": tuple(table.get("repair", ()))})
    found = [declares for name, _, declares in declared(settings) if name in FACTORS[factor][choice]]
    of = ("needs", "provides", "excludes")
    return _Words(*(reduce(or_, (_bit(w) for d in found for w in getattr(d, what)), 0) for what in of))


def _bit(word: str) -> int:
    return 1 << _BITS.setdefault(word, len(_BITS))


def pairs_of(row: Row) -> set[Pair]:
    """All pairs of choices in a row."""
    return set(combinations(sorted(row.items()), 2))


def possible_pairs() -> set[Pair]:
    """All pairs of choices that occur in some row that works."""
    found = {
        _pair(one, other)
        for f, g in combinations(range(len(_BOUND)), 2)
        for one, other in _together(working().choices[:, f], working().choices[:, g], f, g)
    }
    free = {(factor, choice) for factor, choices in _FREE.items() for choice in choices}
    for needs in {_words(*item).needs for item in free}:
        rows = working().choices[working().provides & needs == needs]
        bound = {_item(factor, number) for factor, of in enumerate(rows.T) for number in np.unique(of)}
        found |= {_pair(one, other) for one, other in product(bound, free) if _words(*other).needs == needs}
    found |= {_pair(one, other) for one, other in combinations(sorted(free), 2) if one[0] != other[0]}
    return found


def _together(ones: NDArray[np.int8], others: NDArray[np.int8], one: int, other: int) -> list[Pair]:
    """Which choices of two bound factors, by the factors' numbers, stand in one row."""
    numbers = np.unique(64 * ones.astype(np.int64) + others)
    return [(_item(one, number // 64), _item(other, number % 64)) for number in numbers]


def _item(factor: int, number: int) -> tuple[str, str]:
    name, choices = list(_BOUND.items())[factor]
    return name, list(choices)[number]


def impossible_pairs() -> set[Pair]:
    """All pairs of choices that are refused whatever else is chosen."""
    every = [(factor, choice) for factor, choices in FACTORS.items() for choice in choices]
    return {_pair(one, other) for one, other in combinations(every, 2) if one[0] != other[0]} - possible_pairs()


@lru_cache(maxsize=1)
def covering() -> list[Row]:
    """Rows that cover every possible pair, chosen greedily: each is the best of some candidates for a missing pair."""
    rng, left, rows = Random("covering"), possible_pairs(), []
    while left:
        wanted = min(left)
        candidates = [_with(wanted, rng) for _ in range(30)]
        best = max(candidates, key=lambda row: len(pairs_of(row) & left))
        rows.append(best)
        left -= pairs_of(best)
    return rows


def _with(pair: Pair, rng: Random) -> Row:
    """A random row that works and has this pair."""
    wanted = dict(pair)
    needs = reduce(or_, (_words(*item).needs for item in pair if item[0] in _FREE), 0)
    rows = _working_with(tuple(item for item in pair if item[0] in _BOUND), needs)
    at = rows[rng.randrange(len(rows))]
    has = int(working().provides[at])
    free = {f: rng.choice([c for c in of if _words(f, c).needs & ~has == 0]) for f, of in _FREE.items()}
    return {**working().row(at), **free, **wanted}


@lru_cache(maxsize=100)
def _working_with(items: tuple[tuple[str, str], ...], needs: int) -> NDArray[np.intp]:
    """The numbers of the rows that have these choices, and provide what is needed."""
    choices, provides = working()
    fits = provides & needs == needs
    for factor, choice in items:
        fits &= choices[:, list(_BOUND).index(factor)] == list(_BOUND[factor]).index(choice)
    return np.flatnonzero(fits)


def _pair(one: tuple[str, str], other: tuple[str, str]) -> Pair:
    return (one, other) if one < other else (other, one)
