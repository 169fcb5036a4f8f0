"""Numbers of members in JSON: a number of 63 bits is rounded by jq and by JavaScript, so a string stands beside it."""

from typing import Any

_ONE = frozenset({"member", "sender", "receiver"})
_SOME = frozenset({"members", "loggers", "lagging"})


def with_ids(value: Any) -> Any:
    """The same, with `member_id` beside `member`, `members_ids` beside `members`, and so on, as strings."""
    if isinstance(value, list):
        return [with_ids(part) for part in value]
    if not isinstance(value, dict):
        return value
    told: dict[str, Any] = {}
    for name, part in value.items():
        told[name] = with_ids(part)
        if name in _ONE and type(part) is int:
            told[f"{name}_id"] = str(part)
        elif name in _SOME and isinstance(part, list) and all(type(number) is int for number in part):
            told[f"{name}_ids"] = list(map(str, part))
    return told
