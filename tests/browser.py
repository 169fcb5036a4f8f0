"""A real browser without a window: it opens a page that lies on the disk and says what it sees."""

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import pytest

_ALONE = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync", "--disable-quic", "--host-resolver-rules=MAP * ~NOTFOUND"),
)
_PATIENCE_S = 60.0
_DARK, _LIGHT = 0, 1


def chromium() -> str:
    """Where the browser is; without one the test is skipped."""
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("no Chromium: make setup installs it where it may (apt-get install chromium)")
    return found


def ask(page: Path, questions: dict[str, str], work: Path, *, dark: bool = False, width: int = 1200) -> dict[str, Any]:
    """Each question is a JavaScript expression, answered in `page` once it is loaded."""
    answers = ", ".join(f"{json.dumps(name)}: {expression}" for name, expression in questions.items())
    script = f"""<script>addEventListener("load", () => {{
        document.documentElement.setAttribute("data-answers", JSON.stringify({{{answers}}})) }})</script>"""
    asked = work / "asked.html"
    asked.write_text(page.read_text("utf-8").replace("</body>", f"{script}</body>"), "utf-8")
    scheme = f"--blink-settings=preferredColorScheme={_DARK if dark else _LIGHT}"
    out = _run(work, scheme, f"--window-size={width},900", "--dump-dom", asked.absolute().as_uri())
    found = re.search(r'data-answers="([^"]*)"', out)
    assert found is not None, "the page did not finish loading"
    return dict(json.loads(unescape(found[1])))


def pdf_of(page: Path, work: Path) -> bytes:
    """The page as it is printed."""
    out = work / "page.pdf"
    _run(work, f"--print-to-pdf={out}", page.absolute().as_uri())
    return out.read_bytes()


def _run(work: Path, *words: str) -> str:
    command = [chromium(), *_ALONE, f"--user-data-dir={work / 'profile'}", *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=_PATIENCE_S).stdout
