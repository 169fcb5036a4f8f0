"""Argument checks: a bad value raises a `ValueError` that gives the argument, the value and what is allowed."""

from collections.abc import Collection


def between(name: str, value: float, low: float, high: float) -> None:
    """`value` must lie in [low, high]. NaN never does."""
    if not low <= value <= high:
        raise ValueError(f"{name} is {value!r}; allowed: [{low}, {high}]")


def at_least(name: str, value: float, low: float) -> None:
    """`value` must be finite and not below `low`."""
    if not low <= value < float("inf"):
        raise ValueError(f"{name} is {value!r}; allowed: {low} or more")


def positive(name: str, value: float) -> None:
    if not 0.0 < value < float("inf"):
        raise ValueError(f"{name} is {value!r}; allowed: more than 0")


def whole(name: str, value: int, low: int, high: int | None = None) -> None:
    """`value` must be an integer in [low, high]."""
    if not hasattr(value, "__index__") or value < low or (high is not None and value > high):
        allowed = f"{low} or more" if high is None else f"[{low}, {high}]"
        raise ValueError(f"{name} is {value!r}; allowed: a whole number, {allowed}")


def probability(name: str, value: float) -> None:
    between(name, value, 0.0, 1.0)


def target(name: str, value: float) -> None:
    """`value` must be a probability of failure that can be met: chance never gets it down to zero."""
    if not 0.0 < value <= 1.0:
        raise ValueError(f"{name} is {value!r}; allowed: (0, 1]")


def below_one(name: str, value: float) -> None:
    """`value` must be a probability of loss or crash that leaves some chance of success."""
    if not 0.0 <= value < 1.0:
        raise ValueError(f"{name} is {value!r}; allowed: [0, 1)")


def group(n: int, reached: int) -> None:
    """The group must have at least two members, of which at least one has the packet."""
    whole("n", n, 2)
    whole("reached", reached, 1, n)


def choice(name: str, value: str, allowed: Collection[str]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} is {value!r}; allowed: {', '.join(allowed)}")
