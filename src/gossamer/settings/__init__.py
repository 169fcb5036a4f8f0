"""The settings of a group: what an application can set, where the values come from, and what the planner chooses."""

from gossamer.settings.group import Settings
from gossamer.settings.planned import plan, wire_sizes

__all__ = ["Settings", "plan", "wire_sizes"]
