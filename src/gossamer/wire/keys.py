"""Group keys: 32 random bytes, their form as text, and the ring of keys that a member knows.

Every member may hold several keys: all of them open, one of them seals. A key is changed without losing a packet in
three rounds, each finished everywhere before the next begins: `install` the new key, `use` it, `remove` the old one.
Between the rounds members seal with either key and all of them open both. What a logger keeps is sealed with the key
of its time: remove a key only when nothing sealed with it needs to be opened again.

The ring keeps not the key itself but what HKDF-SHA256 extracts from it (RFC 5869), and expands that to traffic keys.
"""

import binascii
import hmac
from base64 import b64decode, b64encode
from collections.abc import Iterable
from hashlib import sha256
from typing import Final

KEY_BYTES: Final = 32
KEYS_MAX: Final = 16
"""Keys in one ring: rotation needs two."""

_URL_SAFE: Final = str.maketrans("-_", "+/")
_SALT: Final = b"gossamer sealing 1"
_ID_LABEL: Final = b"gossamer key id 1"
_TRAFFIC_LABEL: Final = b"gossamer traffic key 1"


def new_key(random_bytes: bytes) -> str:
    """The text of a new key, from 32 bytes of the system's random generator (`secrets.token_bytes(32)`)."""
    return b64encode(_checked(bytes(random_bytes))).decode()


def parse_key(text: str) -> bytes:
    """A key from its text: 32 bytes in base64 (as `new_key` writes them) or in hexadecimal.

    ValueError says what is wrong, and never shows any part of the key.
    """
    text = "".join(text.split())
    if not text:
        raise ValueError("the key is empty: make one with `gossamer key new`")
    try:
        if len(text) == 2 * KEY_BYTES:
            key = bytes.fromhex(text)
        else:
            key = b64decode(text.translate(_URL_SAFE) + "=" * (-len(text) % 4), validate=True)
    except (ValueError, binascii.Error):
        raise ValueError(f"the key is neither base64 nor hexadecimal ({len(text)} characters)") from None
    return _checked(key)


def key_id(key: bytes) -> int:
    """The number by which datagrams name a key: 32 bits of a hash, which say nothing about the key."""
    return int.from_bytes(sha256(_ID_LABEL + _checked(key)).digest()[:4], "big")


class KeyRing:
    """The keys that a member knows; the first one is used to seal until `use` says otherwise."""

    def __init__(self, keys: Iterable[bytes] = ()) -> None:
        self._secrets: dict[int, bytes] = {}
        self._using: int | None = None
        self.generation = 0
        """Changes whenever the ring does."""
        for key in keys:
            self.install(key)

    def __repr__(self) -> str:
        return f"KeyRing({', '.join(f'{number:08x}' for number in self._secrets)})"

    @property
    def ids(self) -> list[int]:
        """The ids of the keys that open."""
        return list(self._secrets)

    @property
    def using(self) -> int:
        """The id of the key that seals; ValueError if there is none."""
        if self._using is None:
            raise ValueError("the ring is empty: install a key first")
        return self._using

    def install(self, key: bytes) -> int:
        """Open what this key sealed; returns its id. Installing a key twice changes nothing."""
        number = key_id(key)
        secret = hmac.digest(_SALT, key, "sha256")
        if self._secrets.get(number, secret) != secret:
            raise ValueError(f"another key has the id {number:08x}: make a new one")
        if number not in self._secrets:
            if len(self._secrets) == KEYS_MAX:
                raise ValueError(f"the ring holds {KEYS_MAX} keys: remove one first")
            self._secrets[number] = secret
            self.generation += 1
        if self._using is None:
            self._using = number
        return number

    def use(self, number: int) -> None:
        """Seal with this key from now on."""
        self._require(number)
        self._using = number
        self.generation += 1

    def remove(self, number: int) -> None:
        """Open nothing more that this key sealed."""
        self._require(number)
        if number == self._using:
            raise ValueError(f"key {number:08x} is in use: use another one first")
        del self._secrets[number]
        self.generation += 1

    def traffic_key(self, number: int, name: bytes) -> bytes | None:
        """The key for the traffic with this name, or None if the ring has no such group key.

        HKDF-Expand to one block: T(1) = HMAC-SHA256(PRK, info | 0x01).
        """
        secret = self._secrets.get(number)
        return None if secret is None else hmac.digest(secret, _TRAFFIC_LABEL + name + b"\x01", "sha256")

    def _require(self, number: int) -> None:
        if number not in self._secrets:
            known = ", ".join(f"{n:08x}" for n in self._secrets) or "none"
            raise ValueError(f"key {number:08x} is not installed; installed: {known}")


def _checked(key: bytes) -> bytes:
    if len(key) != KEY_BYTES:
        raise ValueError(f"a key has {KEY_BYTES} bytes, this one has {len(key)}: make one with `gossamer key new`")
    if len(set(key)) < 8:
        raise ValueError("the key is not random: make one with `gossamer key new`")
    return key
