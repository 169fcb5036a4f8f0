"""Generate the tables in `docs/settings.md` from the settings: `python tools/settings_page.py docs/settings.md`."""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

from gossamer.core.schema import allowed
from gossamer.core.settings import ProtocolSettings
from gossamer.settings.group import Settings

PAGE_MARKS = ("<!-- tables: begin -->", "<!-- tables: end -->")


def tables() -> str:
    """Both tables, as Markdown."""
    tuning = (one for one in fields(ProtocolSettings) if one.name != "name")
    return "\n".join(
        [
            "## Settings of a group",
            "",
            *_table(fields(Settings)),
            "",
            "## Tuning: settings of the protocol",
            "",
            "The defaults are those of the preset `unreliable`; other presets set their own.",
            "",
            *_table(tuning),
        ]
    )


def _table(listed: "Iterable[Field[Any]]") -> list[str]:
    rows = [_row(one) for one in listed]
    return ["| setting | default | unit | allowed | what it does |", "|---|---|---|---|---|", *rows]


def _row(one: "Field[Any]") -> str:
    default = one.metadata.get("default", one.default)
    assert default is not MISSING, "every setting has a default"
    cells = (f"`{one.name}`", _shown(default), one.metadata["unit"], _range(one.metadata), one.metadata["help"])
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _shown(default: Any) -> str:
    if callable(default):
        return "host-pid"
    if isinstance(default, bool):
        return "yes" if default else "no"
    if isinstance(default, int) and default >= 1 << 20 and not default % (1 << 20):
        return f"{default >> 20} MiB"
    if isinstance(default, int | float):
        return f"{default:,}"
    return f"`{default}`" if default else "none"


def _range(metadata: Mapping[str, Any]) -> str:
    if metadata["choices"]:
        return ", ".join(f"`{choice}`" for choice in metadata["choices"])
    bounded = any(metadata[name] is not None for name in ("low", "high", "above", "below"))
    return allowed(metadata) if bounded else ""


def write(path: Path) -> None:
    """Replace what is between the marks of the page with the tables."""
    begin, end = PAGE_MARKS
    before, _, rest = path.read_text("utf-8").partition(begin)
    path.write_text(f"{before}{begin}\n{tables()}\n{end}{rest.partition(end)[2]}", "utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
