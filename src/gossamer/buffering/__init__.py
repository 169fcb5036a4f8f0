"""Buffering: which packets a member keeps for others, and for how long."""
