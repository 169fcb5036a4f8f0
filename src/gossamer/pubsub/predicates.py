"""What a filter means: one closure for each comparison, so that an event costs a few calls and no interpretation.

A value is of one of four kinds: number (int and float compare with each other), string, boolean, null. `true` is
not 1. Numbers and strings (by code point) have an order, booleans and null have none.

- A comparison with a missing attribute is false, whatever the operator: also `!=` and `not in`. So a filter never
  passes an event because it lacks what was asked about. To pass those events too, write `not price == 100`.
- Between two kinds `==` and every order are false, and `!=` is true: both are there, and they differ. So
  `price != null` means "there is a price". A missing attribute is not null.
- Not-a-number is as in Python: unequal to everything, itself included.
- A value of any other type (bytes, a list) has no kind: it equals nothing and has no order.

`compare`, `member` and `prefixed` take operands and return filters. `holds` defines the meaning in one place; the
closures are shortcuts for comparing an attribute with a literal, as nearly every comparison does.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

Filter = Callable[[Mapping[str, object]], bool]
Scalar = int | float | str | bool | None


class Attribute(NamedTuple):
    """An operand that is looked up in the event."""

    name: str


class Literal(NamedTuple):
    """An operand that is written in the filter."""

    value: Scalar


Operand = Attribute | Literal

COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_MIRRORED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

_MISSING = object()
_NULL = type(None)
# By the exact class, which keeps bool apart from int and runs no foreign __eq__ or __lt__.
_KINDS: dict[type, str] = {int: "number", float: "number", str: "string", bool: "boolean", _NULL: "null"}
_CLASSES = {
    kind: frozenset(cls for cls, its_kind in _KINDS.items() if its_kind == kind)
    for kind in ("number", "string", "boolean", "null")
}
_ORDERED = ("number", "string")


def holds(symbol: str, left: object, right: object) -> bool:
    """Whether `left symbol right` holds by the rules above; either value may be missing."""
    if left is _MISSING or right is _MISSING:
        return False
    kind = _KINDS.get(left.__class__)
    if kind is None or kind != _KINDS.get(right.__class__):
        return symbol == "!="
    return (symbol in ("==", "!=") or kind in _ORDERED) and COMPARISONS[symbol](left, right)


def compare(symbol: str, left: Operand, right: Operand) -> Filter:
    """The filter `left symbol right`."""
    if isinstance(left, Literal):
        if isinstance(right, Literal):
            return _constant(holds(symbol, left.value, right.value))
        return _with_literal(_MIRRORED[symbol], right.name, left.value)
    if isinstance(right, Literal):
        return _with_literal(symbol, left.name, right.value)
    return _of_two(symbol, left.name, right.name)


def member(operand: Operand, values: Sequence[Scalar]) -> Filter:
    """The filter `operand in [values]`: whether it equals one of them."""
    if isinstance(operand, Literal):
        return _constant(any(holds("==", operand.value, value) for value in values))
    name = operand.name
    # kept apart, because True and 1 are the same key
    booleans = frozenset(value for value in values if isinstance(value, bool))
    others = frozenset(value for value in values if not isinstance(value, bool))
    classes = frozenset(cls for value in values for cls in _CLASSES[_KINDS[value.__class__]])

    def test(attributes: Mapping[str, object]) -> bool:
        value = attributes.get(name, _MISSING)
        cls = value.__class__
        return cls in classes and value in (booleans if cls is bool else others)

    return test


def prefixed(operand: Operand, prefix: str) -> Filter:
    """The filter `operand startswith "prefix"`: false for anything but a string."""
    if isinstance(operand, Literal):
        return _constant(isinstance(operand.value, str) and operand.value.startswith(prefix))
    name = operand.name

    def test(attributes: Mapping[str, object]) -> bool:
        value = attributes.get(name)
        return value.__class__ is str and value.startswith(prefix)

    return test


def absent_from(operand: Operand, values: Sequence[Scalar]) -> Filter:
    """The filter `operand not in [values]`: whether it is there and equals none of them."""
    return _present(operand, member(operand, values))


def negation(term: Filter) -> Filter:
    return lambda attributes: not term(attributes)


def conjunction(terms: Sequence[Filter]) -> Filter:
    """All of `terms`, in order and no further than needed; flat, so that a long chain is not a deep one."""
    if len(terms) == 1:
        return terms[0]
    if len(terms) == 2:
        left, right = terms
        return lambda attributes: left(attributes) and right(attributes)

    def test(attributes: Mapping[str, object]) -> bool:
        for term in terms:  # noqa: SIM110 -- all() would make a generator for each event
            if not term(attributes):
                return False
        return True

    return test


def disjunction(terms: Sequence[Filter]) -> Filter:
    """Any of `terms`, in order and no further than needed."""
    if len(terms) == 1:
        return terms[0]
    if len(terms) == 2:
        left, right = terms
        return lambda attributes: left(attributes) or right(attributes)

    def test(attributes: Mapping[str, object]) -> bool:
        for term in terms:  # noqa: SIM110 -- as above
            if term(attributes):
                return True
        return False

    return test


def _constant(value: bool) -> Filter:
    return lambda attributes: value


def _present(operand: Operand, opposite: Filter) -> Filter:
    """Not `opposite`, but false for a missing attribute."""
    if isinstance(operand, Literal):
        return negation(opposite)
    name = operand.name
    return lambda attributes: name in attributes and not opposite(attributes)


def _with_literal(symbol: str, name: str, literal: Scalar) -> Filter:
    if symbol == "!=":
        return _present(Attribute(name), _with_literal("==", name, literal))
    kind = _KINDS[literal.__class__]
    if kind not in _ORDERED and symbol != "==":
        return _constant(False)
    classes, related = _CLASSES[kind], COMPARISONS[symbol]

    def test(attributes: Mapping[str, object]) -> bool:
        value = attributes.get(name, _MISSING)
        return value.__class__ in classes and related(value, literal)

    return test


def _of_two(symbol: str, left: str, right: str) -> Filter:
    def test(attributes: Mapping[str, object]) -> bool:
        return holds(symbol, attributes.get(left, _MISSING), attributes.get(right, _MISSING))

    return test
