"""Standard output for a command that is a member: a pipe that nobody reads must not stop its loop.

What is written blocks a thread, not the member, which goes on saying that it lives. The thread writes past
`sys.stdout`: Python, when it ends, would wait for whoever writes there.
"""

import asyncio
import os
import sys
from queue import SimpleQueue
from threading import Thread


class Output:
    """Writes texts in their order."""

    def __init__(self) -> None:
        self._texts: SimpleQueue[tuple[bytes, asyncio.Future[None]]] = SimpleQueue()
        self._thread: Thread | None = None

    async def write(self, text: str) -> None:
        """Return when all of it is written; OSError if it cannot be."""
        if self._thread is None:
            sys.stdout.flush()
            self._loop = asyncio.get_running_loop()
            self._thread = Thread(target=self._write_all, daemon=True)
            self._thread.start()
        done = self._loop.create_future()
        self._texts.put((text.encode(sys.stdout.encoding, sys.stdout.errors or "strict"), done))
        await done

    def _write_all(self) -> None:
        while True:
            text, done = self._texts.get()
            try:
                while text:
                    text = text[os.write(1, text) :]
            except OSError as error:
                self._loop.call_soon_threadsafe(_end, done, error)
            else:
                self._loop.call_soon_threadsafe(_end, done, None)


def _end(done: asyncio.Future[None], error: OSError | None) -> None:
    if done.cancelled():
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
