"""Messages <-> bytes. `decode` raises `WireError` and never any other error.

The simulator asks this package how large a message is, so that simulated traffic is as large as real traffic.
"""

from gossamer.wire.codec import HEADER_BYTES, Header, WireError, decode, encode, size

__all__ = ["HEADER_BYTES", "Header", "WireError", "decode", "encode", "size"]
