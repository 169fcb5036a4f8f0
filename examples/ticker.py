"""Prices from one task, and two that listen: one to a pattern, one with a filter.

python examples/ticker.py
"""

import asyncio
import random

import gossamer

SYMBOLS = {"nyse": ["ibm", "ge"], "nasdaq": ["msft", "nvda"]}


async def publish(group: gossamer.Group, quotes: int) -> None:
    """Publish random prices, ten milliseconds apart."""
    for _ in range(quotes):
        market = random.choice(list(SYMBOLS))
        price = round(random.uniform(50, 150), 2)
        group.publish(f"quotes.{market}.{random.choice(SYMBOLS[market])}", str(price).encode(), price=price)
        await asyncio.sleep(0.01)


async def listen(title: str, subscription: gossamer.Subscription) -> None:
    """Print what comes."""
    async for event in subscription:
        if isinstance(event, gossamer.Lost):
            print(f"{title}: lost {event.last - event.first + 1} packets of {event.source}: {event.reason}")
        else:
            print(f"{title}: {event.subject} {event.payload.decode()}")


async def main() -> None:
    """Publish and listen in one process; other processes would hear the same."""
    async with gossamer.join("ticker") as group:
        listeners = [
            asyncio.create_task(listen("nyse", group.subscribe("quotes.nyse.*"))),
            asyncio.create_task(listen("expensive", group.subscribe("quotes.>", where="price > 120"))),
        ]
        await publish(group, quotes=50)
        await group.flush()
    await asyncio.gather(*listeners)  # they end when the group is left


asyncio.run(main())
