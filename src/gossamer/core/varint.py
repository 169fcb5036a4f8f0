"""Unsigned integers in as few bytes as they need: seven bits a byte, least significant first (LEB128)."""

MAX_BYTES = 10
"""Enough for 64 bits and a bit more; a longer run of continuation bytes is an attack, not a number."""


def put(out: bytearray, value: int) -> None:
    """Append `value` (>= 0) to `out`."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def size(value: int) -> int:
    """How many bytes `put` appends for `value`."""
    return 1 if value < 0x80 else 2 if value < 0x4000 else (value.bit_length() + 6) // 7


def get(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """The number at offset `at` and the offset after it; ValueError if it is cut short, too long or not minimal."""
    if at < len(data) and data[at] < 0x80:  # most are small
        return data[at], at + 1
    value = shift = 0
    for offset in range(at, min(at + MAX_BYTES, len(data))):
        byte = data[offset]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if byte == 0 and shift:
                raise ValueError("varint is not minimal")
            return value, offset + 1
        shift += 7
    raise ValueError("varint is cut short or too long")


def get_many(data: bytes | memoryview, at: int, count: int) -> tuple[list[int], int]:
    """As many numbers as that, one after the other, and the offset after them: quicker than one by one."""
    found: list[int] = []
    value = shift = 0
    for byte in data[at : at + MAX_BYTES * count]:
        if byte > 0x7F:
            value |= (byte & 0x7F) << shift
            shift += 7
            continue
        if shift:
            if not byte or shift >= 7 * MAX_BYTES:
                raise ValueError("varint is not minimal, or too long")
            at += shift // 7
            byte = value | byte << shift
            value = shift = 0
        at += 1
        found.append(byte)
        if len(found) == count:
            return found, at
    raise ValueError("varint is cut short or too long")
