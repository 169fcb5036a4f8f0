"""Arguments that cannot be meant: what was passed, and what to pass instead."""

import asyncio
from collections.abc import Sequence
from math import isnan
from numbers import Real
from typing import Any

from gossamer.core.errors import Error
from gossamer.core.schema import SettingError
from gossamer.live.errors import NotAnEvent, WrongType, WrongValue
from gossamer.settings import Settings

_BYTES = bytes | bytearray | memoryview


def check_group(name: Any, settings: Any) -> None:
    """Raise WrongType unless a group can have this name and these settings."""
    if not isinstance(name, str):
        raise WrongType(f"a group's name must be a str, like 'quotes', not {_described(name)}")
    if not name:
        raise SettingError("a group's name must not be empty: pass one, like 'quotes'")
    if not isinstance(settings, Settings):
        raise WrongType(f"settings must be gossamer.Settings(...), not {_described(settings)}")


def check_subscription(patterns: tuple[Any, ...], callback: Any) -> None:
    """Raise WrongType unless these are patterns and a callback, or none."""
    for pattern in patterns:
        if not isinstance(pattern, str):
            raise WrongType(
                f"a pattern must be a str, not {_described(pattern)}; pass several as subscribe('a.*', 'b.>')"
            )
    if callback is not None and not callable(callback):
        raise WrongType(f"a callback must be a function that takes an event, not {_described(callback)}")


def check_ttl(ttl: Any) -> None:
    """Raise unless an event can have this time to live."""
    if isinstance(ttl, bool) or not isinstance(ttl, int | float):
        raise WrongType(f"ttl must be a number of seconds, not {_described(ttl)}")
    if not 0 < ttl < 1e12:
        raise NotAnEvent(f"ttl = {ttl}: must be more than 0 seconds")


def check_timeout(timeout: Any) -> None:
    """Raise unless one can wait for so long."""
    if timeout is None:
        return
    if isinstance(timeout, bool) or not isinstance(timeout, Real):
        raise WrongType(f"a timeout must be a number of seconds, or None for no limit, not {_described(timeout)}")
    if isnan(timeout):
        raise WrongValue("a timeout must be a number of seconds, or None for no limit, not nan")


def within(timeout: float | None) -> asyncio.Timeout:
    """The limit to a wait; raises unless it can be one."""
    check_timeout(timeout)
    return asyncio.timeout(timeout)


def check_count(name: str, count: Any) -> None:
    """Raise unless this can be how many there are of something."""
    if isinstance(count, bool) or not isinstance(count, int):
        raise WrongType(f"{name} must be a whole number, not {_described(count)}")
    if count < 1:
        raise WrongValue(f"{name} = {count}: must be at least 1")


def check_is(value: Any, kind: type, what: str) -> None:
    """Raise WrongType unless the value is of this kind; `what` says what to pass."""
    if not isinstance(value, kind) or isinstance(value, bool):
        raise WrongType(f"{what}, not {_described(value)}")


def check_payloads(payloads: Any) -> None:
    """Raise WrongType unless these can be the payloads of several events."""
    if isinstance(payloads, str | _BYTES) or not isinstance(payloads, Sequence):
        raise WrongType(f"publish_many takes a list of payloads, not {_described(payloads)}")


def not_an_event(error: Exception, payloads: Sequence[Any], subject: Any = "") -> Exception:
    """The error to raise where publishing met with `error`: it names the payload that is none, if there is one."""
    if isinstance(error, Error):
        return error
    if isinstance(error, ValueError):
        return NotAnEvent(str(error))
    if not isinstance(subject, str):
        return WrongType(f"a subject must be a str, like 'quotes.nyse.ibm', not {_described(subject)}")
    for payload in payloads:
        if not isinstance(payload, _BYTES):
            return WrongType(f"a payload must be bytes, not {_described(payload)}: {_instead(payload)}")
    return WrongType(str(error))


def _described(value: object) -> str:
    shown = repr(value)
    return f"{type(value).__name__} {shown if len(shown) <= 40 else shown[:37] + '...'}"


def _instead(payload: object) -> str:
    if isinstance(payload, str):
        return "encode it, as in text.encode()"
    if isinstance(payload, bool | int | float) or payload is None:
        return f"encode it, as in b'{payload}', or send it as an attribute, as in publish(subject, value={payload})"
    return "encode it, as in json.dumps(value).encode()"
