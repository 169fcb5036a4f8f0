"""The filter language: `price > 100 and symbol in ["IBM", "MSFT"]`, parsed once into closures, never evaluated as code.

    filter     = both { "or" both }
    both       = term { "and" term }
    term       = "not" term | "(" filter ")" | comparison
    comparison = operand ( "==" | "!=" | "<" | "<=" | ">" | ">=" ) operand
               | operand [ "not" ] "in" "[" [ literal { "," literal } ] "]"
               | operand "startswith" string
    operand    = attribute | literal
    literal    = number | string | "true" | "false" | "null"

An attribute is an identifier, dots allowed: `order.size`. A number is `3`, `-1.5`, `2e6`. A string is in single or
double quotes and may have the escapes \\\\ \\' \\" \\n \\r \\t and \\uXXXX. Words are in lower case; an attribute
that is named like one of them cannot be asked about. Whitespace separates and means nothing else.

`predicates` says what a comparison means, above all with a missing attribute. Every string either compiles or
raises `FilterError`, and never any other error, in time linear in its length.
"""

import re
from collections.abc import Iterator
from math import isinf
from typing import NamedTuple, NoReturn

from gossamer.core.errors import Error
from gossamer.pubsub.predicates import (
    COMPARISONS,
    Attribute,
    Filter,
    Literal,
    Operand,
    Scalar,
    absent_from,
    compare,
    conjunction,
    disjunction,
    member,
    negation,
    prefixed,
)

TEXT_CHARACTERS_MAX = 4_096
NESTING_MAX = 64
LIST_VALUES_MAX = 1_000
NUMBER_CHARACTERS_MAX = 100

CONSTANTS: dict[str, Scalar] = {"true": True, "false": False, "null": None}
WORDS = frozenset(("and", "or", "not", "in", "startswith", *CONSTANTS))

# Possessive (`++`, `*+`, `?+`): nothing is tried twice, so a filter that fails does so in linear time.
_TOKENS = re.compile(
    r"""
      \s++
    | (?P<name>   [^\W\d]\w*+ (?:\.[^\W\d]\w*+)*+ )
    | (?P<number> [+-]?+ (?: [0-9]++ (?:\.[0-9]*+)?+ | \.[0-9]++ ) (?:[eE][+-]?+[0-9]++)?+ (?![\w.]) )
    | (?P<string> "(?:[^"\\]|\\.)*+" | '(?:[^'\\]|\\.)*+' )
    | (?P<symbol> [=!<>]= | [<>()\[\],] )
    | (?P<wrong>  . )
    """,
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "r": "\r", "t": "\t"}
_MEANT = {"=": "==", "&": "and", "|": "or", "!": "not or !="}
_AROUND_CHARACTERS = 40

_LITERAL = "a number, a string, true, false or null"
_OPERAND = f"an attribute, {_LITERAL}"
_OPERATOR = f"{' '.join(COMPARISONS)} in, not in or startswith"


class FilterError(Error, ValueError):
    """A filter that cannot be parsed: the message says where, what was found and what was expected.

    It is one line and quotes the filter, with a caret before the place: `column 9: ...: price > ^and`.
    """

    column = 0  # from 1


def compile_where(text: str) -> Filter:
    """The filter that `text` describes, a function of an event's attributes; FilterError if it describes none."""
    if not isinstance(text, str):
        raise FilterError(f"a filter must be a string such as 'price > 100', not {type(text).__name__}")
    if len(text) > TEXT_CHARACTERS_MAX:
        problem = f"the filter has {len(text)} characters, at most {TEXT_CHARACTERS_MAX} are allowed"
        raise _error(text, TEXT_CHARACTERS_MAX, problem)
    return _Parser(text).filter()


class _Token(NamedTuple):
    """`kind` is name, number, string or end, and for words and symbols their own text."""

    kind: str
    text: str
    at: int


class _Parser:
    """Recursive descent, one method for each rule of the grammar; `token` is the next one to be read."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokenized(text)
        self._token = next(self._tokens)

    def filter(self) -> Filter:
        parsed = self._either(0)
        if self._token.kind != "end":
            self._refuse("and, or, or the end")
        return parsed

    def _either(self, depth: int) -> Filter:
        terms = [self._both(depth)]
        while self._skipped("or"):
            terms.append(self._both(depth))
        return disjunction(terms)

    def _both(self, depth: int) -> Filter:
        terms = [self._term(depth)]
        while self._skipped("and"):
            terms.append(self._term(depth))
        return conjunction(terms)

    def _term(self, depth: int) -> Filter:
        if self._token.kind not in ("not", "("):
            return self._comparison()
        if depth == NESTING_MAX:
            raise self._error_here(f"nested too deeply, at most {NESTING_MAX} levels of not and ( are allowed")
        if self._skipped("not"):
            return negation(self._term(depth + 1))
        self._take("(")
        inner = self._either(depth + 1)
        if not self._skipped(")"):
            self._refuse("and, or, or )")
        return inner

    def _comparison(self) -> Filter:
        left = self._operand()
        kind = self._token.kind
        if kind in COMPARISONS:
            self._take(kind)
            return compare(kind, left, self._operand())
        if self._skipped("startswith"):
            return prefixed(left, self._string())
        if self._skipped("in"):
            return member(left, self._list())
        if self._skipped("not"):
            self._take("in")
            return absent_from(left, self._list())
        return self._refuse(_OPERATOR)

    def _operand(self) -> Operand:
        if self._token.kind == "name":
            return Attribute(self._next().text)
        return Literal(self._literal(_OPERAND))

    def _list(self) -> list[Scalar]:
        self._take("[")
        values: list[Scalar] = []
        if self._skipped("]"):
            return values
        while True:
            if len(values) == LIST_VALUES_MAX:
                raise self._error_here(f"the list is too long, at most {LIST_VALUES_MAX} values are allowed")
            values.append(self._literal(_LITERAL))
            if self._skipped("]"):
                return values
            if not self._skipped(","):
                self._refuse(", or ]")

    def _literal(self, expected: str) -> Scalar:
        kind = self._token.kind
        if kind in CONSTANTS:
            return CONSTANTS[self._next().kind]
        if kind == "number":
            return _number(self._text, self._next())
        if kind == "string":
            return _unescaped(self._text, self._next())
        return self._refuse(expected)

    def _string(self) -> str:
        if self._token.kind != "string":
            self._refuse("a string in quotes")
        return _unescaped(self._text, self._next())

    # Reading tokens

    def _next(self) -> _Token:
        token, self._token = self._token, next(self._tokens)
        return token

    def _skipped(self, kind: str) -> bool:
        if self._token.kind != kind:
            return False
        self._token = next(self._tokens)
        return True

    def _take(self, kind: str) -> None:
        if not self._skipped(kind):
            self._refuse(kind)

    def _refuse(self, expected: str) -> NoReturn:
        token = self._token
        found = "the end" if token.kind == "end" else _shortened(token.text)
        hint = f" (write {token.text.lower()})" if token.kind == "name" and token.text.lower() in WORDS else ""
        raise self._error_here(f"expected {expected}, found {found}{hint}")

    def _error_here(self, problem: str) -> FilterError:
        return _error(self._text, self._token.at, problem)


def _tokenized(text: str) -> Iterator[_Token]:
    """The tokens of `text` and then one `end`; lazily, so that the leftmost error is the one reported."""
    for match in _TOKENS.finditer(text):
        group = match.lastgroup
        if group == "wrong":
            raise _wrong(text, match.start())
        if group is not None:
            lexeme = match[0]
            kind = lexeme if group == "symbol" or lexeme in WORDS else group
            yield _Token(kind, lexeme, match.start())
    yield _Token("end", "", len(text))


def _wrong(text: str, at: int) -> FilterError:
    """What to say about a character at which no token begins."""
    character = text[at]
    if character in "'\"":
        return _error(text, at, f"the string that begins here has no closing {character}")
    if character in "+-0123456789":
        return _error(text, at, "expected a number such as 3, -1.5 or 2e6")
    if character in _MEANT:
        return _error(text, at, f"{character} is not an operator, write {_MEANT[character]}")
    return _error(text, at, f"unexpected character {character!a}")


def _number(text: str, token: _Token) -> int | float:
    if len(token.text) > NUMBER_CHARACTERS_MAX:
        problem = f"the number has {len(token.text)} characters, at most {NUMBER_CHARACTERS_MAX} are allowed"
        raise _error(text, token.at, problem)
    if token.text.lstrip("+-").isdigit():
        return int(token.text)
    value = float(token.text)
    if isinf(value):
        raise _error(text, token.at, f"{token.text} is too large, a number is at most about 1.8e308")
    return value


def _unescaped(text: str, token: _Token) -> str:
    def character(escape: re.Match[str]) -> str:
        digits, letter = escape.groups()
        if letter in _ESCAPED:
            return _ESCAPED[letter]
        if digits is None:
            problem = r"unknown escape, expected \\ \' \" \n \r \t or \uXXXX with four hexadecimal digits"
        elif 0xD800 <= int(digits, 16) <= 0xDFFF:
            problem = "half of a surrogate pair, write the character itself"
        else:
            return chr(int(digits, 16))
        raise _error(text, token.at + 1 + escape.start(), problem)

    return _ESCAPE.sub(character, token.text[1:-1])


def _error(text: str, at: int, problem: str) -> FilterError:
    """`problem` at the character `at`, in one line: with the column, and the filter with a caret before the place."""
    first, last = max(0, at - _AROUND_CHARACTERS), at + _AROUND_CHARACTERS
    before = ("..." if first else "") + _printable(text[first:at])
    after = _printable(text[at:last]) + ("..." if last < len(text) else "")
    error = FilterError(f"column {at + 1}: {problem}: {before}^{after}")
    error.column = at + 1
    return error


def _shortened(lexeme: str) -> str:
    shown = _printable(lexeme)
    return shown if len(shown) <= _AROUND_CHARACTERS else f"{shown[:_AROUND_CHARACTERS]}..."


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else " " if c.isspace() else "?" for c in text)
