"""Errors that are the user's to mend."""


class UserError(Exception):
    """Wrong usage or unreadable input: one line that says what is wrong and what to do; exit code 2."""
