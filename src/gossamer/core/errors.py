"""The base of every error that Gossamer raises on purpose."""


class Error(Exception):
    """Something that Gossamer refuses or could not do; the message says what, and what to do about it.

    Each error has the base that a Python programmer expects beside this one: a `SettingError` is a `ValueError`, a
    `Timeout` is a `TimeoutError`.
    """


class Misuse(Error, RuntimeError):
    """A call that makes no sense here; the message says what to do instead."""
