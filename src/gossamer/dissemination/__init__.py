"""The first pass: how a new packet leaves its sender, once, unreliably."""
