"""Repair: how what the first pass lost is found again. One module per way; none imports another."""
