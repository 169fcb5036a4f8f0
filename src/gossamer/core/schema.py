"""Settings: each has a name, a unit, a default, a checked range, and a sentence that says when to change it.

A group of settings is a frozen dataclass whose fields are made with `setting`. `build` makes one from a plain table
(TOML, JSON, the environment) and refuses unknown keys and invalid values, naming the key and what is allowed.
"""

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import wraps
from math import isfinite
from typing import Any, TypeVar, cast

from gossamer.core.errors import Error

T = TypeVar("T")


class SettingError(Error, ValueError):
    """An invalid setting; the message names the key, the value and what is allowed."""


def setting(
    default: Any,
    help_text: str,
    *,
    unit: str = "",
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    below: float | None = None,
    choices: Sequence[str] = (),
) -> Any:
    """Declare one setting: `low`/`high` are inclusive bounds, `above`/`below` exclusive ones."""
    bounds = {"low": low, "high": high, "above": above, "below": below}
    metadata = {"help": help_text, "unit": unit, "choices": tuple(choices), **bounds}
    return dataclasses.field(default=default, metadata=metadata)


def build(cls: type[T], table: Mapping[str, Any], path: str = "") -> T:
    """Build an instance of the settings class `cls` from `table`; SettingError for unknown keys and invalid values."""
    # a field ends in "_" where the key itself (`for`) is a keyword of Python
    fields = {f.name.rstrip("_"): f for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    hints = typing.get_type_hints(cls)
    values = {}
    for key, value in table.items():
        name = f"{path}.{key}" if path else key
        if key not in fields:
            raise SettingError(unknown_key(name, key, fields))
        field = fields[key]
        values[field.name] = as_type(name, value, hints[field.name])
        check_value(name, values[field.name], field.metadata)
    return cls(**values)


def check_value(name: str, value: Any, bounds: Mapping[str, Any]) -> None:
    """Raise SettingError unless every number in `value` is within the declared bounds."""
    if isinstance(value, tuple | list):
        for part in value:
            check_value(name, part, bounds)
    elif isinstance(value, str):
        if bounds.get("choices") and value not in bounds["choices"]:
            raise SettingError(f"{name} = {value!r}: must be one of {', '.join(bounds['choices'])}")
    elif isinstance(value, int | float) and not isinstance(value, bool) and not _within(value, bounds):
        raise SettingError(f"{name} = {value!r}: must be {allowed(bounds)}")


def _within(value: float, bounds: Mapping[str, Any]) -> bool:
    low, high, above, below = (bounds.get(key) for key in ("low", "high", "above", "below"))
    return (
        isfinite(value)
        and (low is None or value >= low)
        and (high is None or value <= high)
        and (above is None or value > above)
        and (below is None or value < below)
    )


def allowed(bounds: Mapping[str, Any]) -> str:
    """Describe the declared bounds in words."""
    words = {"low": "at least", "above": "above", "high": "at most", "below": "below"}
    parts = [f"{word} {bounds[key]:g}" for key, word in words.items() if bounds.get(key) is not None]
    return " and ".join(parts) or "a finite number"


def unknown_key(name: str, key: str, fields: Mapping[str, Any]) -> str:
    """The message for a key that is not in `fields`: it suggests the closest field, or lists them all."""
    close = get_close_matches(key, fields, n=1)
    hint = f"; did you mean {close[0]}?" if close else f"; known keys: {', '.join(sorted(fields))}"
    return f"unknown key {name}{hint}"


def knows_its_keys(kind: type[T]) -> type[T]:
    """A dataclass that answers to a misspelt argument like to any other invalid setting: with SettingError, and a hint.

    Python's own TypeError is looked into only when there is one, so that making it costs no more than a call.
    """
    make = kind.__init__

    @wraps(make)
    def init(self: T, *values: Any, **given: Any) -> None:
        try:
            make(self, *values, **given)
        except TypeError:
            known = {one.name: one for one in dataclasses.fields(cast(Any, kind)) if one.init}
            for key in given.keys() - known.keys():
                raise SettingError(unknown_key(key, key, known)) from None
            raise

    setattr(kind, "__init__", init)  # noqa: B010  (mypy would have it that a method is never replaced)
    return kind


def as_type(name: str, value: Any, hint: Any) -> Any:
    """Convert `value` to the type of its field: an integer may stand for a float, a list for a tuple."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _one_of(name, value, arguments)
    if origin is tuple:
        return _tuple(name, value, arguments)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if hint is Any or (isinstance(value, origin or hint) and not (isinstance(value, bool) and hint is not bool)):
        return value
    raise SettingError(f"{name} = {value!r}: must be {_type_name(hint)}")


def _one_of(name: str, value: Any, arguments: tuple[Any, ...]) -> Any:
    for argument in arguments:
        try:
            return as_type(name, value, argument)
        except SettingError:
            continue
    raise SettingError(f"{name} = {value!r}: must be {' or '.join(_type_name(a) for a in arguments)}")


def _tuple(name: str, value: Any, arguments: tuple[Any, ...]) -> Any:
    if not isinstance(value, list | tuple):
        raise SettingError(f"{name} = {value!r}: must be a list")
    if arguments[-1] is Ellipsis:
        return tuple(as_type(name, part, arguments[0]) for part in value)
    if len(value) != len(arguments):
        raise SettingError(f"{name} = {value!r}: must be a list of {len(arguments)} values")
    return tuple(as_type(name, part, hint) for part, hint in zip(value, arguments, strict=True))


def _type_name(hint: Any) -> str:
    names = {
        float: "a number",
        int: "a whole number",
        str: "a string",
        bool: "true or false",
        types.NoneType: "left out",
    }
    if typing.get_origin(hint) is Callable:
        return "a function"
    return names.get(hint, "a list" if typing.get_origin(hint) in (tuple, list) else "a table")
