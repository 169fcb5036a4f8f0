"""`import gossamer` stays light: the heavy libraries load when a command needs them, not before."""

import subprocess
import sys

HEAVY = ("numpy", "scipy", "pyarrow", "pyspark", "pandas", "matplotlib", "rich", "typer")


def test_importing_gossamer_loads_no_heavy_library() -> None:
    script = f"import sys, gossamer; sys.stdout.write(' '.join(m for m in {HEAVY!r} if m in sys.modules))"

    fresh = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)

    assert fresh.returncode == 0, fresh.stderr
    assert fresh.stdout == "", f"`import gossamer` loads {fresh.stdout}: import it where it is needed"
