"""What an application publishes <-> the bytes of a payload, as `Settings.codec` says.

An empty payload is the same with every codec: its value is None, or what is empty in that codec.
"""

import json
import reprlib
from collections.abc import Callable
from typing import Any, NamedTuple

from gossamer.core.schema import SettingError
from gossamer.live.errors import NotAnEvent, WrongType


class Codec(NamedTuple):
    """How a value becomes a payload, and what the value of a payload is."""

    name: str
    encode: Callable[[Any], bytes]
    decode: Callable[[bytes], Any]

    def payload(self, value: Any) -> bytes:
        """The payload for a value; WrongType if it has none."""
        if isinstance(value, bytes) and not value:
            return b""
        try:
            return self.encode(value)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise WrongType(
                f"codec = {self.name!r}: cannot write {type(value).__name__} {reprlib.repr(value)} ({error}); pass a "
                "value that it can, or choose another Settings(codec=...)"
            ) from None

    def value(self, payload: bytes) -> Any:
        """The value of a payload; NotAnEvent if it was not written by this codec."""
        try:
            return self.decode(payload)
        except (ValueError, RecursionError) as error:
            raise NotAnEvent(f"a payload of {len(payload)} bytes is not {self.name}: {error}") from None


def codec_of(name: str) -> Codec | None:
    """The codec of this name; None for bytes, which are passed as they are. SettingError if it is not installed."""
    if name == "bytes":
        return None
    if name == "str":
        return Codec(name, _text, bytes.decode)
    if name == "json":
        return Codec(name, _json, lambda payload: json.loads(payload) if payload else None)
    try:
        import msgpack  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        raise SettingError(
            "codec = 'msgpack': it is not installed; install it with: pip install 'gossamer[msgpack]'"
        ) from None
    return Codec(name, msgpack.packb, lambda payload: msgpack.unpackb(payload) if payload else None)


def _text(value: Any) -> bytes:
    if not isinstance(value, str):
        raise TypeError("not a str")
    return value.encode()


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
