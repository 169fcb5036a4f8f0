"""Addresses as people write them: `239.192.77.7:7700`, `[ff15::7777]:7700`, `host:port`."""

from ipaddress import IPv4Address, IPv6Address, ip_address

PORT_MAX = 65_535


def split_address(text: str) -> tuple[str, int]:
    """Split into host and port; an IPv6 address must be in brackets. ValueError says what is allowed."""
    host, colon, digits = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError("must have its IPv6 address in brackets, like [fe80::1]:7700")
    if not host or not colon or not (digits.isascii() and digits.isdigit()) or not 0 < int(digits) <= PORT_MAX:
        raise ValueError(f"must be a host and a port from 1 to {PORT_MAX}, like 192.0.2.7:7700 or [fe80::1]:7700")
    return host, int(digits)


def multicast_address(text: str) -> tuple[IPv4Address | IPv6Address, int]:
    """Split into multicast address and port; ValueError says what is allowed."""
    try:
        host, port = split_address(text)
        group = ip_address(host)
    except ValueError:
        raise ValueError("must look like 239.192.77.7:7700 or [ff15::7777]:7700") from None
    if not group.is_multicast:
        raise ValueError("must be a multicast address, 224.0.0.0 to 239.255.255.255 or ff00::/8, and a port")
    return group, port


def literal(interface: str) -> IPv4Address | IPv6Address | None:
    """The address of an interface that is given by address, or None if it is given by name (`eth0`)."""
    try:
        return ip_address(interface)
    except ValueError:
        return None
