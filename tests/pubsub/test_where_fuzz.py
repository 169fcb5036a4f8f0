"""Valid filters, mutated: each still compiles, or raises FilterError and nothing else. Seeded, so it repeats.

`tests/fuzz/fuzz_where.py` does the same for longer, guided by coverage.
"""

from collections.abc import Callable
from random import Random

from gossamer.pubsub.where import FilterError, compile_where

CASES = 20_000
VALID = [
    'price > 100 and symbol in ["IBM", "MSFT"]',
    "not (price <= -1.5e3 or order.size != 20) and venue startswith 'NY'",
    "bid < ask or note == null or open == true",
    r"""text == "say \"hi\"\n" and text not in ['it\'s', "\u00e9\\", '']""",
    "a in [1, 2.5, 'x', true, null, .5, 3e-7] or not not b >= a",
    "((a == 1) or ((b == 2) and not (c == 3)))",
]
WORDS = "and or not in startswith true false null == != < <= > >= ( ) [ ] , a b.c 1 -2.5 3e4 1e999 'x'"
PIECES = [*WORDS.split(), '"']
STRANGE = ["\\", "\\u", "\\ud800", "\x00", "\ud800", "\u2028", "é", "²", "٣", ".", "=", "\n", "'", '"', "9" * 200]
EVENTS: list[dict[str, object]] = [
    {},
    {"price": 101, "symbol": "IBM", "a": 1, "b": 2.5, "c": None, "open": True, "text": "it's", "bid": 1, "ask": 2},
    {"price": "101", "symbol": None, "a": "x", "b": float("nan"), "c": True, "b.c": 10**40, "text": [], "bid": b""},
]


def drop(rng: Random, text: str) -> str:
    at = rng.randrange(len(text) + 1)
    return text[:at] + text[at + rng.randrange(1, 6) :]


def double(rng: Random, text: str) -> str:
    at, end = sorted(rng.randrange(len(text) + 1) for _ in range(2))
    return text[:end] + text[at:end] * rng.choice([1, 1, 2, 80]) + text[end:]


def put(rng: Random, text: str) -> str:
    at = rng.randrange(len(text) + 1)
    return text[:at] + rng.choice(["", " "]) + rng.choice(rng.choice([PIECES, STRANGE])) + text[at:]


def swap_words(rng: Random, text: str) -> str:
    words = text.split(" ")
    words[rng.randrange(len(words))] = rng.choice(PIECES)
    return " ".join(words)


def join(rng: Random, text: str) -> str:
    return f"{text} {rng.choice(['and', 'or', 'and not', ''])} ({rng.choice(VALID)})"


MUTATIONS: list[Callable[[Random, str], str]] = [drop, double, put, put, swap_words, join]


def test_mutated_filters_compile_or_raise_a_filter_error() -> None:
    rng = Random(4)
    compiled = 0
    for case in range(CASES):
        text = rng.choice(VALID)
        for _ in range(rng.choice([1, 1, 2, 3])):
            text = rng.choice(MUTATIONS)(rng, text)
        try:
            passes = compile_where(text)
            fine = {passes(event) for event in EVENTS} <= {True, False}
            compiled += 1
        except FilterError as error:
            fine = 1 <= error.column <= len(text) + 1 and str(error).isprintable()
        except Exception as error:
            raise AssertionError(f"case {case}: {text!r}") from error
        assert fine, f"case {case}: {text!r}"
    assert CASES // 10 < compiled < CASES * 9 // 10, "the mutations must reach both sides"
