"""Where a group lives: one event loop, in one thread of one process. Other threads have their calls made there.

A forked child has a copy of the group, but neither its loop's thread nor sockets of its own: what it reads would be
missing in its parent. So a group in a child refuses everything.
"""

import asyncio
import os
from _thread import get_ident
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, Concatenate, ParamSpec, TypeVar, cast
from weakref import WeakSet

from gossamer.live.errors import NotAMember, WrongThread

P = ParamSpec("P")
T = TypeVar("T")

_LOOK_S = 0.2
"""A thread that waits for the loop looks this often whether the loop still runs."""
NOBODY = 0
"""The number of no thread."""


class _NotJoined:
    """Stands for the parts of a group that has not been joined."""

    def __getattr__(self, name: str) -> Any:
        raise NotAMember("not in the group yet: use `async with gossamer.join(...)` or `with gossamer.join_sync(...)`")


NOT_JOINED: Any = _NotJoined()


class Home:
    """The loop that runs now, and its thread."""

    __slots__ = ("__weakref__", "is_copy", "loop", "publisher", "thread")

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.thread = get_ident()
        """Compared in every call, so it is also what tells a forked child that it is not at home."""
        self.publisher = NOBODY
        """The thread that may publish without asking anybody: the loop's, or nobody while other threads do."""
        self.is_copy = False
        """Whether this process is a child of the one that joined."""
        _homes.add(self)

    def check(self) -> None:
        """NotAMember if calls from here cannot reach the loop."""
        if self.is_copy:
            raise NotAMember("this process was forked from the member's: join again in the child")
        if not self.loop.is_running():
            raise NotAMember("this member's event loop has stopped: join again")

    def check_here(self, instead: str) -> None:
        """WrongThread if this is not the loop's thread; `instead` says what to do."""
        if get_ident() != self.thread:
            self.check()
            raise WrongThread(f"this is not the thread of the group's event loop: {instead}")

    def call(self, work: Callable[[], T]) -> T:
        """Call `work` in the loop, and wait for its result; for other threads."""
        self.check()
        outcome: Future[T] = Future()

        def do() -> None:
            if outcome.set_running_or_notify_cancel():
                try:
                    outcome.set_result(work())
                except BaseException as error:
                    outcome.set_exception(error)

        self.loop.call_soon_threadsafe(do)
        return self._wait(outcome)

    def do(self, work: Callable[[], T]) -> T:
        """Call `work` in the loop, from whatever thread."""
        return work() if get_ident() == self.thread else self.call(work)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop, and wait for its result; for other threads."""
        return self._wait(self._begin(work))

    async def bring(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop, and wait for its result; for the event loops of other threads."""
        return await asyncio.wrap_future(self._begin(work))

    def _begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        try:
            self.check()
            return asyncio.run_coroutine_threadsafe(work, self.loop)
        except RuntimeError:
            work.close()
            raise

    def _wait(self, outcome: Future[T]) -> T:
        while True:
            try:
                return outcome.result(_LOOK_S)
            except TimeoutError:
                if outcome.done():
                    return outcome.result()  # it may be the work that took too long
                if not self.loop.is_running() and outcome.cancel():
                    self.check()


def at_home(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """A method of a group that may be called from any thread: it runs in the group's loop."""
    if iscoroutinefunction(method):

        @wraps(method)
        async def coroutine(self: Any, *args: P.args, **kwargs: P.kwargs) -> Any:
            is_here = get_ident() == self._home.thread  # before there is a coroutine: perhaps nobody has joined
            work = method(self, *args, **kwargs)
            return await (work if is_here else self._home.bring(work))

        return cast(Callable[Concatenate[Any, P], T], coroutine)

    @wraps(method)
    def function(self: Any, *args: P.args, **kwargs: P.kwargs) -> T:
        if get_ident() == self._home.thread:
            return method(self, *args, **kwargs)
        home: Home = self._home
        return home.call(lambda: method(self, *args, **kwargs))

    return cast(Callable[Concatenate[Any, P], T], function)


_homes: WeakSet[Home] = WeakSet()


def _forked() -> None:
    for home in _homes:
        home.thread, home.publisher, home.is_copy = NOBODY, NOBODY, True


os.register_at_fork(after_in_child=_forked)
