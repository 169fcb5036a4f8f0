"""A web service that publishes what it is sent, and streams events to browsers.

Start as many as you like, on one host or on several: what one is sent, all stream.

    pip install 'gossamer[examples]'
    uvicorn --app-dir examples web:app --port 8000
    curl -N http://127.0.0.1:8000/events/quotes.nyse.* &
    curl -d 101.5 http://127.0.0.1:8000/publish/quotes.nyse.ibm
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import StreamingResponse

import gossamer


@asynccontextmanager
async def joined(app: FastAPI) -> AsyncIterator[None]:
    """A member for as long as the service runs."""
    async with gossamer.join("web") as group:
        app.state.group = group
        yield


app = FastAPI(lifespan=joined)


@app.post("/publish/{subject}")
async def publish(subject: str, request: Request) -> dict[str, Any]:
    """Publish the body of the request."""
    group: gossamer.Group = app.state.group
    try:
        packet = await group.publish_wait(subject, await request.body())
    except gossamer.SubjectError as error:
        raise HTTPException(422, str(error)) from None
    return {"sender": str(packet.sender), "seqno": packet.seqno}


@app.get("/events/{pattern}")
async def events(pattern: str, where: str | None = None) -> StreamingResponse:
    """Stream the events that match, as server-sent events."""
    group: gossamer.Group = app.state.group
    try:
        subscription = group.subscribe(pattern, where=where, losses="skip")
    except (gossamer.SubjectError, gossamer.FilterError) as error:
        raise HTTPException(422, str(error)) from None
    return StreamingResponse(_stream(subscription), media_type="text/event-stream")


async def _stream(subscription: gossamer.Subscription) -> AsyncIterator[str]:
    async with subscription:
        async for event in subscription:
            assert not isinstance(event, gossamer.Lost)
            yield f"event: {event.subject}\ndata: {event.payload.decode('utf-8', 'replace')}\n\n"


@app.get("/stats")
async def stats() -> dict[str, Any]:
    """The ledger of this member."""
    counters: dict[str, Any] = app.state.group.stats()
    return counters
