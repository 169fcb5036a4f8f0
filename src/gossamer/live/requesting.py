"""The group as an application asks others through it: requests, and replies."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from gossamer.core.ids import PacketId
from gossamer.live.errors import WrongValue
from gossamer.live.home import Home, at_home
from gossamer.live.misuse import check_count, check_is, check_timeout
from gossamer.live.outboxes import Outboxes
from gossamer.live.requests import Requests
from gossamer.wire.events import Event


class Requesting:
    """What a `Group` can ask."""

    name: str
    _home: Home
    _outboxes: Outboxes
    _requests: Requests

    async def publish_wait(self, subject: str, payload: Any = b"", /, **attributes: Any) -> PacketId:
        """Publish an event, and wait for room."""
        raise NotImplementedError

    @at_home
    async def request(
        self, subject: str, payload: Any = b"", /, *, timeout: float | None = 1.0, **attributes: Any
    ) -> Event:
        """Publish an event and wait for the first reply to it: subscribers call `event.reply(payload)`.

        Timeout if none comes for `timeout` seconds; NobodyListens, at once, if no member subscribes to the subject.
        """
        check_timeout(timeout)
        return await self._requests.one(subject, self._asking(subject, payload, attributes), timeout)

    async def request_many(
        self,
        subject: str,
        payload: Any = b"",
        /,
        *,
        timeout: float | None = 1.0,
        limit: int | None = None,
        **attributes: Any,
    ) -> AsyncGenerator[Event]:
        """Publish an event and yield the replies to it as they come, at most `limit`, for `timeout` seconds in all.

        NobodyListens, at once, if no member subscribes to the subject.
        """
        self._home.check_here("request in that thread, or use gossamer.join_sync")
        check_timeout(timeout)
        if limit is not None:
            check_count("limit", limit)
        async for reply in self._requests.many(subject, self._asking(subject, payload, attributes), timeout, limit):
            yield reply

    def _asking(self, subject: str, payload: Any, attributes: dict[str, Any]) -> Callable[[int], Awaitable[None]]:
        """What publishes a request under its number, at once."""
        if "reply" in attributes:
            raise WrongValue("a request has its own attribute `reply`: call yours something else")

        async def publish(number: int) -> None:
            await self.publish_wait(subject, payload, **attributes, reply=number)
            self._outboxes.send()

        return publish

    def reply(self, event: Event, payload: Any = b"", /, **attributes: Any) -> None:
        """Answer a request, as `event.reply(payload)` does."""
        check_is(event, Event, "reply takes the event of a request")
        event.reply(payload, **attributes)
