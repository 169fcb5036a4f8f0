"""Damage to a store that is in use, where it hurts most: in the pages that lead to others."""

from __future__ import annotations

from pathlib import Path
from random import Random
from struct import Struct

_PAGE_BYTES = 4096
_BRANCH = 0x01
_PAGE = Struct("<QHHHH")
_OFFSET = Struct("<H")


def branch_pages(store: Path) -> list[int]:
    """Where the inner pages of the trees of a store are in its file."""
    data = (store / "data.mdb").read_bytes()
    starts = range(2 * _PAGE_BYTES, len(data), _PAGE_BYTES)
    return [at for at in starts if _PAGE.unpack_from(data, at)[::2][:2] == (at // _PAGE_BYTES, _BRANCH)]


def lead_astray(store: Path, share: float = 1.0) -> None:
    """Make this share of the pointers in inner pages point behind the end of the file."""
    with (store / "data.mdb").open("r+b") as file:
        for at in branch_pages(store):
            file.seek(at)
            page = bytearray(file.read(_PAGE_BYTES))
            nodes = (_PAGE.unpack_from(page)[3] - _PAGE.size) // _OFFSET.size
            for node in range(nodes - int(share * nodes), nodes):
                (offset,) = _OFFSET.unpack_from(page, _PAGE.size + node * _OFFSET.size)
                page[offset + 3] |= 0x40
            file.seek(at)
            file.write(page)


def flip_in_branch(store: Path, rng: Random) -> None:
    """Flip one bit of one inner page."""
    with (store / "data.mdb").open("r+b") as file:
        at = rng.choice(branch_pages(store)) + rng.randrange(_PAGE.size, _PAGE_BYTES)
        file.seek(at)
        (byte,) = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ 1 << rng.randrange(8)]))


def flip_near(store: Path, near: bytes) -> None:
    """Flip one bit wherever the file reads `near`, while the store is in use."""
    with (store / "data.mdb").open("r+b") as file:
        data = file.read()
        at = data.find(near)
        assert at >= 0
        while at >= 0:  # a page that is not in use any more may have it, too
            file.seek(at)
            file.write(bytes([data[at] ^ 1]))
            at = data.find(near, at + 1)
