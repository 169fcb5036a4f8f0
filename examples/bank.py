"""A bank with two main computers that have every balance, and four offices that send them transactions (002 §1).

    python examples/bank.py

A withdrawal that overdraws an account costs a fee, and the developers change the fee, so that the balances depend on
the order of everything. Transactions go to one channel and software releases to another; both main computers hear both,
and with `order="total"` they hear all of it in one order. One of them is killed, comes back without its memory, and
asks the other one for its state: since the request has its place in that order, too, the answer is what the balances
were there.
"""

import asyncio
import json
import signal
import subprocess
import sys
import time
from random import Random

import gossamer
from gossamer.pubsub.channel_map import Rule

SETTINGS = gossamer.Settings(order="total", codec="json", tuning={"order_patience": 0.5})
CHANNELS = gossamer.ChannelMap(1, 3, (Rule("accounts.>", 1), Rule("releases.>", 2)))
OFFICES = ("north", "east", "south", "west")
EVERYBODY = len(OFFICES) + 3  # two main computers and one of the developers
TRANSACTIONS = 300


class Ledger:
    """What a main computer knows."""

    def __init__(self, balances: dict[str, int], fee: int, closed: int) -> None:
        self.balances, self.fee, self.closed = balances, fee, closed

    def apply(self, event: gossamer.Event) -> None:
        """A transaction, a release, or the last word of an office."""
        if event.subject == "accounts.closed":
            self.closed += 1
        elif event.subject == "releases.fee":
            self.fee = event.value
        else:
            balance = self.balances.get(event.subject, 0) + event.value
            self.balances[event.subject] = balance if balance >= 0 else balance - self.fee


async def main_computer(name: str, comes_back: bool) -> None:
    """Keep the ledger, and tell it to one that comes back."""
    async with gossamer.join("bank", SETTINGS) as group:
        if group.channels() is None:
            group.install_channels(CHANNELS)
        events = group.subscribe("accounts.>", "releases.>", "state")
        ledger = None if comes_back else Ledger({}, 10, 0)
        answer = asyncio.create_task(ask_for_state(group, name)) if comes_back else None
        print("ready", flush=True)
        async for item in events:
            if not isinstance(item, gossamer.Event):
                print(f"main computer {name}: {item}", file=sys.stderr)
            elif item.subject == "state" and item.value == name and answer is not None:
                ledger = Ledger(**(await answer).value)
            elif ledger is not None and item.subject == "state":
                item.reply(vars(ledger))
            elif ledger is not None:
                ledger.apply(item)
            if ledger is not None and ledger.closed == len(OFFICES):
                print(json.dumps(vars(ledger), sort_keys=True), flush=True)
                ledger.closed = -1  # once is enough


async def ask_for_state(group: gossamer.Group, name: str) -> gossamer.Event:
    """When both channels are heard: what comes after the request is not in the answer."""
    while group.stats()["channels"]["listening"] != [1, 2]:
        await asyncio.sleep(0.05)
    return await group.request("state", name, timeout=30)


async def office(name: str) -> None:
    """Send transactions to the main computers."""
    rng = Random(name)
    async with gossamer.join("bank", SETTINGS) as group:
        while len(group.members()) < EVERYBODY or not await group.channels_used(timeout=1):
            await asyncio.sleep(0.05)
        for _ in range(TRANSACTIONS):
            await group.publish_wait(f"accounts.{rng.choice('abcde')}", rng.randint(-50, 50))
            await asyncio.sleep(0.03)
        await group.publish_wait("accounts.closed", 1)
        print("closed", flush=True)
        await asyncio.Event().wait()  # an office stays


async def develop() -> None:
    """Release another fee now and then, and listen to what others release."""
    async with gossamer.join("bank", SETTINGS) as group:
        group.subscribe("releases.>", callback=lambda _: None)
        print("ready", flush=True)
        for fee in range(11, 1000):
            await asyncio.sleep(0.2)
            await group.publish_wait("releases.fee", fee)


def start(*words: str) -> subprocess.Popen[str]:
    """Another process of the bank."""
    return subprocess.Popen([sys.executable, __file__, *words], stdout=subprocess.PIPE, text=True)


def bank() -> None:
    """Run all of it on this machine, and compare the balances."""
    started = [start("main", "1")]
    try:
        next_line(started[0])
        started += [start("main", "2"), start("developer")]
        offices = [start("office", name) for name in OFFICES]
        started += offices
        for process in started[1:3]:
            next_line(process)
        time.sleep(4.0)
        started[0].send_signal(signal.SIGKILL)
        print("main computer 1 is killed", flush=True)
        time.sleep(1.0)
        back = start("main", "1", "back")
        started.append(back)
        next_line(back)
        print("main computer 1 is back", flush=True)
        for process in offices:
            next_line(process)
        for name, process in (("1", back), ("2", started[1])):
            print(f"main computer {name}: {next_line(process)}", flush=True)
    finally:
        for process in started:
            process.kill()
            process.wait()


def next_line(process: subprocess.Popen[str]) -> str:
    """What a process says next."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


if __name__ == "__main__":
    if len(sys.argv) == 1:
        bank()
    elif sys.argv[1] == "main":
        asyncio.run(main_computer(sys.argv[2], comes_back=len(sys.argv) > 3))
    else:
        asyncio.run(office(sys.argv[2]) if sys.argv[1] == "office" else develop())
