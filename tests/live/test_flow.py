"""The credit window by hand, and whole groups with a window in the simulator."""

from __future__ import annotations

