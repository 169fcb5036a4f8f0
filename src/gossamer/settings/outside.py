"""Settings from outside the program: the environment (`GOSSAMER_<FIELD>`) and the file `gossamer.toml`.

The file is the one that `GOSSAMER_CONFIG` names, else the nearest `gossamer.toml` in the working directory or above it.
Its keys are the fields, at the top level or in a table `[gossamer]`. The environment overrides the file; an empty
variable counts as not given, but an empty `GOSSAMER_CONFIG` means that no file is read.
"""

import json
import os
import tomllib
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gossamer.core.schema import SettingError, unknown_key

PREFIX = "GOSSAMER_"
CONFIG = PREFIX + "CONFIG"
TUNING = PREFIX + "TUNING_"
FILE = "gossamer.toml"

_WORDS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}

Given = dict[str, tuple[str, Any]]
"""By field: what an error should call it, and its value."""


def given_outside(hints: Mapping[str, Any]) -> Given:
    """Every field given by the environment or the file; SettingError for a file with unknown keys."""
    found = _from_file(hints)
    for field, hint in hints.items():
        variable = PREFIX + field.upper()
        text = os.environ.get(variable, "")
        if text and field != "tuning":
            found[field] = (variable, from_text(variable, text, hint))
    tuned = {
        name.removeprefix(TUNING).lower(): _number_or_text(text)
        for name, text in os.environ.items()
        if name.startswith(TUNING) and text
    }
    if tuned:
        source, before = found.get("tuning", (f"{TUNING}*", {}))
        found["tuning"] = (source, {**before, **tuned} if isinstance(before, Mapping) else before)
    return found


def config_file() -> Path | None:
    """The file to read, or None."""
    named = os.environ.get(CONFIG)
    if named is not None:
        return Path(named) if named else None
    here = Path.cwd()
    return next((place / FILE for place in (here, *here.parents) if (place / FILE).is_file()), None)


def from_text(name: str, text: str, hint: Any) -> Any:
    """Parse the string of a variable as a value of type `hint`; lists are separated by commas."""
    text = text.strip()
    if hint is bool:
        if text.lower() not in _WORDS:
            raise SettingError(f"{name} = {text!r}: must be true or false")
        return _WORDS[text.lower()]
    if hint is int or hint is float:
        try:
            return hint(text.replace("_", ""))
        except ValueError:
            wanted = "a whole number" if hint is int else "a number"
            raise SettingError(f"{name} = {text!r}: must be {wanted}") from None
    if typing.get_origin(hint) is tuple:
        return tuple(part.strip() for part in text.split(",") if part.strip())
    return text


def _from_file(hints: Mapping[str, Any]) -> Given:
    path = config_file()
    if path is None:
        return {}
    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise SettingError(f"{path}: {error.strerror}; set {CONFIG} to a readable file, or to nothing") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingError(f"{path}: not valid TOML: {error}") from None
    inner = table.pop("gossamer", None)
    if isinstance(inner, dict):
        if table:
            raise SettingError(f"{path}: {next(iter(table))} is outside of [gossamer]; move it inside")
        table = inner
    elif inner is not None:
        raise SettingError(f"{path}: gossamer = {inner!r}: must be a table")
    for key in table:
        if key not in hints:
            raise SettingError(f"{path}: {unknown_key(key, key, hints)}")
    return {key: (f"{path}: {key}", value) for key, value in table.items()}


def _number_or_text(text: str) -> Any:
    """Parse what a setting of the protocol may be: a number, true or false, or a word."""
    try:
        value = json.loads(text.strip().lower())
    except ValueError:
        return text.strip()
    return value if isinstance(value, bool | int | float) else text.strip()
