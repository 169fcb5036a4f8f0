"""Gossamer: reliable multicast for Python. Every subscriber hears every event, without a broker."""

__version__ = "0.1.0"
