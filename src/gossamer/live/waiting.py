"""Waiting for something that depends on other members: looked at after every step, while anybody waits."""

import asyncio
from collections.abc import Callable

from gossamer.live.member import Member


class Waiting:
    """The coroutines of one group that wait."""

    def __init__(self, member: Member) -> None:
        self._member = member
        self._waiters: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []
        self._error: BaseException | None = None

    async def until(self, condition: Callable[[], bool], timeout: float | None = None) -> None:
        """Wait until the condition holds; TimeoutError, without a message, after `timeout` seconds."""
        if self._error is not None:
            raise self._error
        if condition():
            return
        future = asyncio.get_running_loop().create_future()
        self._waiters.append((condition, future))
        self._member.progress = self._look
        async with asyncio.timeout(timeout):
            await future

    def fail(self, error: BaseException) -> None:
        """Nothing will come of it any more."""
        self._error = error
        for _, future in self._waiters:
            if not future.done():
                future.set_exception(error)

    def _look(self) -> None:
        for condition, future in self._waiters:
            if not future.done() and condition():
                future.set_result(None)
        self._waiters = [(c, f) for c, f in self._waiters if not f.done()]
        if not self._waiters:
            self._member.progress = None
