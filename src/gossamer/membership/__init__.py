"""Membership: which members belong to the group. `static` needs no code: an oracle says it (`ViewChanged`)."""
