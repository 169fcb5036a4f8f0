"""CRC-32, as quick as it is to be had: every byte that is sent, received or stored passes here at least once.

`isal` computes the very same three times as fast as `zlib`, with the processor's own instructions.
"""

try:
    from isal.isal_zlib import crc32
except ImportError:
    from zlib import crc32

__all__ = ["crc32"]
