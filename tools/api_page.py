"""Write `docs/api.md` from the docstrings of what `import gossamer` has: `python tools/api_page.py docs/api.md`."""

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gossamer

JOINING = ("join", "open", "join_sync", "open_sync")
HEADINGS = {
    "Joining": JOINING,
    "A group": ("Group", "Subscription", "NoticeStream"),
    "A group without asyncio": ("SyncGroup", "SyncSubscription", "SyncNotices"),
    "What comes": ("Event", "Lost", "Notice", "Gap"),
}
FOR_ITS_GROUP = {
    *(
        "has_given_all",
        "is_closed",
        "is_half_full",
        "next_or_none",
        "offer",
        "offer_blocked",
        "offer_loss",
        "offer_undo",
        "offer_own",
    ),
    *("past_is", "refuse", "past_known", "past_unknown", "rest", "wait_for_past", "waits_for_past", "went_on"),
}
"""Methods of streams by which their group fills them."""
BEGINNING = """# API reference

Made from the docstrings by `tools/api_page.py`; change those, not this page. Settings have [a page of their
own](settings.md), and so has the language of [`where`](where.md). Names that begin with an underscore are not for
applications.
"""


def page() -> str:
    """The whole page, as Markdown."""
    parts = [BEGINNING]
    for heading, names in HEADINGS.items():
        parts.append(f"## {heading}\n")
        for name in names:
            parts += _described(name, getattr(gossamer, name))
    shown = {name for names in HEADINGS.values() for name in names}
    others = [name for name in sorted(gossamer._WHERE) if name not in shown]
    errors = [name for name in others if _is_error(getattr(gossamer, name))]
    rest = [name for name in others if name not in errors and name != "Settings"]
    if rest:
        parts.append("## Also there\n")
        for name in rest:
            parts += _described(name, getattr(gossamer, name))
    parts += ["## Errors\n", *_table(errors)]
    return "\n".join(parts).rstrip() + "\n"


def _is_error(thing: Any) -> bool:
    return isinstance(thing, type) and issubclass(thing, BaseException)


def _table(errors: list[str]) -> Iterator[str]:
    yield "| | is also a | |"
    yield "|---|---|---|"
    for name in errors:
        kind = getattr(gossamer, name)
        also = next(base for base in kind.__mro__ if base.__module__ == "builtins")
        shown = f"`{also.__name__}`" if also is not Exception else ""
        yield f"| `gossamer.{name}` | {shown} | {_text(kind).splitlines()[0]} |"


def _described(name: str, thing: Any) -> Iterator[str]:
    """A function, or a class with its public methods and properties."""
    if not isinstance(thing, type):
        yield f"### `gossamer.{name}{_signature(thing)}`\n"
        yield _text(thing) + "\n"
        return
    yield f"### `gossamer.{name}`\n"
    yield _text(thing) + "\n"
    for field in getattr(thing, "_fields", ()):
        yield f"- `{field}`: `{_annotation(thing.__annotations__[field])!r}`"
    if hasattr(thing, "_fields"):
        yield ""
    for method, value in _members(thing):
        yield from _method(method, value)


def _members(thing: type) -> Iterator[tuple[str, Any]]:
    """In the order in which they are written, those of the class first."""
    inherited = set(dir(tuple)) | {"_asdict", "_make", "_replace"}
    seen = set()
    for base in thing.__mro__:
        if base.__module__.startswith("gossamer"):
            for name, value in vars(base).items():
                if (
                    name.startswith("_")
                    or name in FOR_ITS_GROUP
                    or name in inherited
                    or name in seen
                    or name in getattr(thing, "_fields", ())
                ):
                    continue
                seen.add(name)
                if isinstance(value, property) or inspect.isfunction(value):
                    yield name, value


def _method(name: str, value: Any) -> Iterator[str]:
    if isinstance(value, property):
        yield f"**`{name}`**  \n{_text(value)}\n"
        return
    word = "await " if inspect.iscoroutinefunction(value) else ""
    word = "async for ... in " if inspect.isasyncgenfunction(value) else word
    yield f"**`{word}{name}{_signature(value)}`**  \n{_text(value)}\n"


def _signature(function: Any) -> str:
    found = inspect.signature(function)
    listed = [p.replace(annotation=_annotation(p.annotation)) for n, p in found.parameters.items() if n != "self"]
    shown = str(found.replace(parameters=listed, return_annotation=_annotation(found.return_annotation)))
    return _plain(shown)


class _Shown:
    """An annotation as it is written in the source."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _annotation(annotation: Any) -> Any:
    if annotation is inspect.Parameter.empty or annotation is None:
        return annotation
    return _Shown(_plain(annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)))


def _plain(text: str) -> str:
    """Without the modules in which names are defined."""
    return re.sub(r"\b(?:[a-z_]+\.)+(?=[A-Za-z~])", "", text).replace("~", "")


def _text(thing: Any) -> str:
    """A docstring, without its indentation."""
    return inspect.cleandoc(thing.__doc__ or "")


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), "utf-8")
