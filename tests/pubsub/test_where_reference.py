"""Filters drawn as trees: rendered to text and compiled, they decide as a naive walk over the tree does."""

import operator
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gossamer.pubsub.predicates import Filter
from gossamer.pubsub.where import FilterError, compile_where

Tree = tuple[Any, ...]

# Few names and many equal values, so that comparisons often hold.
names = st.sampled_from(["a", "b", "order.size", "größe"])
common = st.sampled_from([0, 1, -1, 1.0, 0.5, True, False, None, "", "a", "ab", "1", "é", '"', "'", "\\", "\n", 10**30])
literals = common | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6)
values = literals | st.floats()
events = st.dictionaries(names, values, max_size=4)

operands = st.tuples(st.just("attribute"), names) | st.tuples(st.just("literal"), literals)
leaves = (
    st.tuples(st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), operands, operands)
    | st.tuples(st.sampled_from(["in", "not in"]), operands, st.lists(literals, max_size=5))
    | st.tuples(st.just("startswith"), operands, st.sampled_from(["", "a", "ab"]) | st.text(max_size=3))
)
trees = st.recursive(
    leaves,
    lambda inner: (
        st.tuples(st.just("not"), inner)
        | st.tuples(st.sampled_from(["and", "or"]), st.lists(inner, min_size=2, max_size=4))
    ),
    max_leaves=12,
)


# The meaning, naively

MISSING = object()
ORDERS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def decide(tree: Tree, event: dict[str, Any]) -> bool:
    match tree:
        case ("not", inner):
            return not decide(inner, event)
        case ("and", parts):
            return all(decide(part, event) for part in parts)
        case ("or", parts):
            return any(decide(part, event) for part in parts)
    word, left, right = tree
    value = looked_up(left, event)
    if value is MISSING:
        return False
    if word == "startswith":
        return isinstance(value, str) and value[: len(right)] == right
    if word in ("in", "not in"):
        return any(same(value, item) for item in right) == (word == "in")
    other = looked_up(right, event)
    if other is MISSING:
        return False
    if word in ("==", "!="):
        return same(value, other) == (word == "==")
    return kind(value) == kind(other) and kind(value) in ("number", "string") and ORDERS[word](value, other)


def looked_up(operand: Tree, event: dict[str, Any]) -> Any:
    return operand[1] if operand[0] == "literal" else event.get(operand[1], MISSING)


def same(one: Any, other: Any) -> bool:
    return kind(one) == kind(other) and bool(one == other)


def kind(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return type(value).__name__
    return "string" if isinstance(value, str) else "number"


# The text, in one of its many spellings


class Spelling:
    """Renders a tree with whitespace, quotes, escapes and needless parentheses chosen by `rng`."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng

    def filter(self, tree: Tree, outer: str = "or") -> str:
        match tree:
            case ("not", inner):
                text = f"not{self.space()}{self.filter(inner, 'not')}"
            case ("and" | "or" as word, parts):
                text = f"{self.space()}{word}{self.space()}".join(self.filter(part, word) for part in parts)
                if outer == "not" or (word == "or" and outer != "or"):
                    return self.enclosed(text)
            case ("in" | "not in" as word, left, items):
                listed = f"{self.gap()},{self.gap()}".join(self.literal(item) for item in items)
                spaced = word.replace(" ", self.space())
                text = f"{self.operand(left)}{self.space()}{spaced}{self.gap()}[{self.gap()}{listed}{self.gap()}]"
            case ("startswith", left, prefix):
                text = f"{self.operand(left)}{self.space()}startswith{self.gap()}{self.string(prefix)}"
            case (symbol, left, right):
                text = f"{self.operand(left)}{self.gap()}{symbol}{self.gap()}{self.operand(right)}"
        return self.enclosed(text) if self.rng.random() < 0.1 else text

    def enclosed(self, text: str) -> str:
        return f"({self.gap()}{text}{self.gap()})"

    def operand(self, operand: Tree) -> str:
        return self.literal(operand[1]) if operand[0] == "literal" else operand[1]

    def literal(self, value: Any) -> str:
        if isinstance(value, str):
            return self.string(value)
        if value is None or isinstance(value, bool):
            return {True: "true", False: "false", None: "null"}[value]
        return self.rng.choice(["+", ""]) + repr(value) if str(value)[0] != "-" else repr(value)

    def string(self, value: str) -> str:
        quote = self.rng.choice("'\"")
        return quote + "".join(self.character(c, quote) for c in value) + quote

    def character(self, character: str, quote: str) -> str:
        if ord(character) < 0x10000 and self.rng.random() < 0.1:
            return f"\\u{ord(character):04x}"
        return "\\" + character if character in ("\\", quote) else character

    def space(self) -> str:
        return self.rng.choice([" ", "  ", "\n", "\t "])

    def gap(self) -> str:
        return self.rng.choice(["", self.space()])


@given(trees, st.lists(events, min_size=1, max_size=5), st.integers(0, 2**32))
def test_a_filter_decides_as_its_tree_does(tree: Tree, some: list[dict[str, Any]], seed: int) -> None:
    text = Spelling(Random(seed)).filter(tree)
    passes = compile_where(text)
    assert [passes(event) for event in some] == [decide(tree, event) for event in some], text


WORDS = "and or not in startswith true false null == != < <= > >= ( ) [ ] , = a b.c 1 -2.5 3e4 'x' \"y\" ' \\ . é"
pieces = st.lists(st.sampled_from([*WORDS.split(), " "]), max_size=30)
language = pieces.map(" ".join) | pieces.map("".join)


def compiled(text: str) -> Filter | FilterError:
    try:
        return compile_where(text)
    except FilterError as error:
        return error


@given(st.text() | st.text(alphabet=st.characters(codec=None)) | language, events)
def test_any_string_compiles_or_raises_a_filter_error(text: str, event: dict[str, Any]) -> None:
    outcome = compiled(text)
    if isinstance(outcome, FilterError):
        assert 1 <= outcome.column <= len(text) + 1
        assert str(outcome).isprintable()
    else:
        assert outcome(event) in (True, False)


@given(trees, st.integers(0, 2**32), st.data())
def test_a_truncated_filter_is_a_filter_or_a_filter_error_within_it(tree: Tree, seed: int, data: st.DataObject) -> None:
    text = Spelling(Random(seed)).filter(tree)
    cut = data.draw(st.integers(0, len(text)))
    outcome = compiled(text[:cut])
    assert not isinstance(outcome, FilterError) or outcome.column <= cut + 1
