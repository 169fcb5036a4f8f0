"""What an application says of its group, where that comes from, and what the planner would choose."""

from gossamer.settings.group import Settings
from gossamer.settings.planned import plan, wire_sizes

__all__ = ["Settings", "plan", "wire_sizes"]
