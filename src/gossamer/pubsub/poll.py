"""Does anybody listen? Asked of the members that are likely to, and then of all others, until one says yes.

Only when every member that is still there has said no does nobody listen; one that said yes may leave, too.
"""

from collections.abc import Collection, Iterable


class Poll:
    """One question to some members, `likely` ones first."""

    def __init__(self, members: Iterable[int], likely: Collection[int] = (), *, here: bool = False) -> None:
        every = dict.fromkeys(members)
        first = [member for member in every if member in likely]
        self._unasked = [member for member in every if member not in first]
        self._asked = dict.fromkeys(first)
        self._begun = False
        self._listening: dict[int, None] = {}
        self._here = here  # this member itself listens

    @property
    def somebody(self) -> bool:
        """Whether one that has said yes is there."""
        return self._here or bool(self._listening)

    @property
    def nobody(self) -> bool:
        """Whether all have said no, or left."""
        return not self.somebody and not self._asked and not self._unasked

    def to_ask(self) -> list[int]:
        """The members to ask now: at first the likely ones; when none of them is left, everybody else."""
        if not self._begun and self._asked:
            self._begun = True
            return list(self._asked)
        if self.somebody or self._asked:
            return []
        self._asked, self._unasked = dict.fromkeys(self._unasked), []
        return list(self._asked)

    def answered(self, member: int, yes: bool) -> None:
        """One has said whether it listens."""
        self._asked.pop(member, None)
        if yes:
            self._listening[member] = None

    def follow(self, members: Collection[int]) -> None:
        """These are still there."""
        self._listening = {member: None for member in self._listening if member in members}
        self._asked = {member: None for member in self._asked if member in members}
        self._unasked = [member for member in self._unasked if member in members]
