"""What a group tells its application by raising: little to import for those who only want to catch it."""


class Overrun(RuntimeError):
    """A subscription with `when_full="raise"` was full, and ended."""
