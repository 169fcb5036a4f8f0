"""Membership: who belongs to the group. `static` needs no code here: an oracle says it (`ViewChanged`)."""
