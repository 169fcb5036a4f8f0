"""The pages of docs: what is generated is up to date, what is shown works, what is linked exists."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from runpy import run_path

import pytest

from gossamer.pubsub import compile_where
from gossamer.pubsub.where import FilterError

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").rglob("*.md"))]
WHERE = (ROOT / "docs" / "where.md").read_text("utf-8")
EVENT = {"price": 101.5, "symbol": "IBM", "size": 300, "venue.name": "NYSE", "halted": False, "note": None}


def test_the_api_reference_is_up_to_date():
    page = run_path(str(ROOT / "tools" / "api_page.py"))["page"]()
    assert (ROOT / "docs" / "api.md").read_text("utf-8") == page, "run: python tools/api_page.py docs/api.md"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text("utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def rows(heading: str) -> list[tuple[str, str]]:
    """The first two cells of the rows of the table after a heading."""
    section = WHERE.split(f"## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `([^`]+)` \| ([^|]+?) \|", section, re.MULTILINE)


def test_the_filters_of_the_page_match_as_it_says():
    shown = rows("What matches")
    assert len(shown) >= 12
    for text, matches in shown:
        assert compile_where(text)(EVENT) is (matches == "yes"), text


def test_what_the_page_says_is_refused_is_refused():
    shown = rows("What is refused")
    assert len(shown) >= 3
    for text, _ in shown:
        with pytest.raises(FilterError):
            compile_where(text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_example_has_the_name_of_a_module_that_it_would_hide(page):
    named = re.findall(r"```python\n# (\w+)\.py\n", page.read_text("utf-8"))
    assert not {*named} & {*sys.stdlib_module_names, "requests", "gossamer"}
