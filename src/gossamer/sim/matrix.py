"""The matrix of choices: every rung and every main switch, in any combination that is not refused.

A *row* chooses one value for each factor. `draw` gives a random row that works; `covering` gives rows in which every
pair of choices that can work together occurs at least once. What is refused, and why, is decided by `rungs.check`
alone.
"""

from collections.abc import Mapping
from functools import lru_cache
from itertools import combinations, product
from random import Random
from typing import Any, Final

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


@lru_cache(maxsize=1)
def _working() -> list[Row]:
    """Every combination of the bound factors that is not refused.

    What a choice needs, provides and excludes depends on no other, so it is looked up once, not for a million rows.
    """
    rows: list[tuple[Row, set[str], set[str], set[str]]] = [({}, set(), set(), set())]
    for at, (factor, choices) in enumerate(_BOUND.items()):
        later = {word for f in list(_BOUND)[at + 1 :] for choice in _BOUND[f] for word in _words(f, choice)[1]}
        grown = []
        for row, needs, provides, excludes in rows:
            for choice in choices:
                more = _words(factor, choice)
                n, p, e = needs | more[0], provides | more[1], excludes | more[2]
                if n <= p | later and not e & p:
                    grown.append(({**row, factor: choice}, n, p, e))
        rows = grown
    return [row for row, *_ in rows]


@lru_cache(maxsize=1000)
def _words(factor: str, choice: str) -> tuple[frozenset[str], frozenset[str], frozenset[str]]:
    """What a choice needs, provides and excludes."""
    table = settings_of({factor: choice})
    settings = ProtocolSettings(**{**table, "repair": tuple(table.get("repair", ()))})
    found = [declares for name, _, declares in declared(settings) if name in FACTORS[factor][choice]]
    needs, provides, excludes = ([w for d in found for w in getattr(d, of)] for of in ("needs", "provides", "excludes"))
    return frozenset(needs), frozenset(provides), frozenset(excludes)


def pairs_of(row: Row) -> set[Pair]:
    """All pairs of choices in a row."""
    return set(combinations(sorted(row.items()), 2))


def possible_pairs() -> set[Pair]:
    """All pairs of choices that occur in some row that works."""
    found: set[Pair] = set()
    for row in _working():
        found |= pairs_of(row)
    free = {(factor, choice) for factor, choices in _FREE.items() for choice in choices}
    for needs in {_words(*item)[0] for item in free}:
        bound = {item for row in _working() if not needs or needs <= _provided(row) for item in row.items()}
        found |= {_pair(one, other) for one, other in product(bound, free) if _words(*other)[0] == needs}
    found |= {_pair(one, other) for one, other in combinations(sorted(free), 2) if one[0] != other[0]}
    return found


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
    bound = {factor: choice for factor, choice in wanted.items() if factor in _BOUND}
    needs = frozenset[str]().union(*(_words(*item)[0] for item in pair if item[0] in _FREE))
    row = rng.choice(_working_with(tuple(sorted(bound.items())), needs))
    free = {f: rng.choice([c for c in of if _words(f, c)[0] <= _provided(row)]) for f, of in _FREE.items()}
    return {**row, **free, **wanted}


def _provided(row: Row) -> frozenset[str]:
    """What the bound choices of a row provide."""
    return frozenset[str]().union(*(_words(factor, choice)[1] for factor, choice in row.items()))


@lru_cache(maxsize=1000)
def _working_with(items: tuple[tuple[str, str], ...], needs: frozenset[str]) -> list[Row]:
    if needs:
        return [row for row in _working_with(items, frozenset()) if needs <= _provided(row)]
    if not items:
        return _working()
    (factor, choice), *others = items
    rows = _working_with(items[:1], needs) if others else _working()
    return [row for row in rows if row[factor] == choice and all(row[f] == c for f, c in others)]


def _pair(one: tuple[str, str], other: tuple[str, str]) -> Pair:
    return (one, other) if one < other else (other, one)
