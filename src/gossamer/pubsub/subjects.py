"""Subjects, and the patterns that choose among them.

A subject is one or more tokens with dots between them: `quotes.nyse.ibm`. A token is any text but whitespace,
control characters, `.`, `*` and `>`. In a pattern the token `*` stands for exactly one token, and `>`, as the
last token, for one or more: `quotes.*.ibm`, `quotes.>`. A pattern without either matches one subject.

What `compile_pattern` returns expects subjects that passed `check_subject` when they were published or decoded.
"""

import re
from collections.abc import Callable

from gossamer.core.errors import Error

SUBJECT_BYTES_MAX = 255

# Controls are C0, DEL and C1; a surrogate has no UTF-8, so it could not travel.
_TOKEN = r"[^\s.*>\x00-\x1f\x7f-\x9f\ud800-\udfff]++"
_is_subject = re.compile(rf"{_TOKEN}(?:\.{_TOKEN})*+").fullmatch
_is_pattern = re.compile(rf"(?:(?:{_TOKEN}|\*)\.)*+(?:{_TOKEN}|\*|>)").fullmatch

_RULE = "write tokens with dots between them, without whitespace or control characters"
_SUBJECT_RULE = f"{_RULE}; * and > are for subscriptions"
_PATTERN_RULE = f"{_RULE}; * stands for one whole token, > as the last token for the rest"


class SubjectError(Error, ValueError):
    """An invalid subject or pattern: the message names it and says what is allowed."""


def check_subject(subject: str) -> str:
    """Return `subject` if an event may be published under it, else raise SubjectError."""
    if not isinstance(subject, str) or not _is_subject(subject):
        raise SubjectError(f"subject {_shown(subject)}: {_SUBJECT_RULE}")
    return _fitting("subject", subject)


def check_pattern(pattern: str) -> str:
    """Return `pattern` if one may subscribe to it, else raise SubjectError."""
    if not isinstance(pattern, str) or not _is_pattern(pattern):
        raise SubjectError(f"pattern {_shown(pattern)}: {_PATTERN_RULE}")
    return _fitting("pattern", pattern)


def compile_pattern(pattern: str) -> Callable[[str], bool]:
    """A test for subjects: an equality for a literal, a prefix for `prefix.>`, a regular expression for the rest."""
    check_pattern(pattern)
    tokens = pattern.split(".")
    if "*" in tokens:
        return _by_expression(tokens)
    if tokens[-1] != ">":
        return pattern.__eq__
    prefix = pattern[:-1]  # with its dot, so that something must follow
    return lambda subject: subject.startswith(prefix)


def _by_expression(tokens: list[str]) -> Callable[[str], bool]:
    parts = {"*": r"[^.]++", ">": r".++"}
    matches = re.compile(r"\.".join(parts.get(token) or re.escape(token) for token in tokens), re.DOTALL).fullmatch
    return lambda subject: matches(subject) is not None


def _fitting(what: str, text: str) -> str:
    # a character takes at most 4 bytes, so the usual short subject is not encoded to be measured
    if len(text) * 4 > SUBJECT_BYTES_MAX and len(text.encode()) > SUBJECT_BYTES_MAX:
        size = len(text.encode())
        raise SubjectError(f"{what} {_shown(text)}: {size} bytes in UTF-8, at most {SUBJECT_BYTES_MAX} are allowed")
    return text


def _shown(text: object) -> str:
    shown = repr(text)
    return shown if len(shown) <= 80 else f"{shown[:77]}..."
