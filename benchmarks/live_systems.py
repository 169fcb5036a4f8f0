"""The systems side by side: how each opens its ends, sends and receives.

Each is used as by somebody who must not lose anything and knows its manual. A publisher has `send_many`, `send` and
`sent` (everything handed over); a subscriber has `receive(at_most)`, which returns at least one payload; both have
`stats`. Modules are imported where they are used, so that a worker loads only its own system.
"""

import asyncio
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

import bare_sockets
from live_worker import Plan

SUBJECT = "bench"
UNBOUNDED = 1 << 30


class End(Protocol):
    """One side of a system."""

    def stats(self) -> dict[str, Any]:
        """Its counters; empty if it has none."""


class Uncounted:
    """A system without counters of its own."""

    def stats(self) -> dict[str, Any]:
        """Nothing."""
        return {}


class PublisherEnd(End, Protocol):
    """Where events go in."""

    async def send_many(self, payloads: Sequence[bytes]) -> None:
        """Hand over a burst; waits for room if the system has a limit."""

    async def send(self, payload: bytes) -> None:
        """Hand over one event, to be sent at once; waits for room if the system has a limit."""

    async def sent(self) -> None:
        """Wait until this process has sent everything."""


class SubscriberEnd(End, Protocol):
    """Where events come out."""

    async def receive(self, at_most: int) -> list[bytes]:
        """Return at least one payload, in order of arrival."""


@dataclass(frozen=True, slots=True)
class System:
    """One way to get events from one process to others."""

    key: str
    name: str
    publisher: Callable[[Plan], AbstractAsyncContextManager[PublisherEnd]]
    subscriber: Callable[[Plan], AbstractAsyncContextManager[SubscriberEnd]]
    needs: tuple[str, ...] = ()
    """Python modules."""
    server: str = ""
    """A program that must run."""
    asynchronous: bool = False
    """Whether it runs in an event loop, so that it can use uvloop."""
    sealed: bool = False
    ours: bool = False
    logger: Callable[[Plan], AbstractAsyncContextManager[End]] | None = None
    """Something that keeps events for subscribers that fall behind."""
    tuning: Mapping[str, Any] = field(default_factory=dict)
    """Settings of Gossamer's protocol."""
    order: str = "fifo"
    """Gossamer's order."""
    command: Callable[[str, Plan], Sequence[str]] | None = None
    """A program of its own in place of `live_worker.py`, which takes the same orders: its arguments, from the role."""
    bare: bool = False
    """Not a system, only what the machine needs to transport events: a lower bound for latencies, and not a peer."""

    def unavailable(self) -> str:
        """Why it cannot be measured here; empty if it can."""
        if missing := [name for name in self.needs if find_spec(name) is None]:
            return f"no Python module {', '.join(missing)}"
        if self.server and shutil.which(self.server) is None:
            return f"no program {self.server}"
        return ""


# ZeroMQ: PUB and SUB over tcp, the blocking API. Without a high-water mark PUB drops nothing.


class _ZmqPublisher(Uncounted):
    def __init__(self, sock: Any) -> None:
        self._send = sock.send

    async def send_many(self, payloads: Sequence[bytes]) -> None:
        send = self._send
        for payload in payloads:
            send(payload)

    async def send(self, payload: bytes) -> None:
        self._send(payload)

    async def sent(self) -> None:
        pass


class _ZmqSubscriber(Uncounted):
    def __init__(self, sock: Any) -> None:
        self._recv = sock.recv

    async def receive(self, at_most: int) -> list[bytes]:
        recv = self._recv
        return [recv() for _ in range(at_most)]


@asynccontextmanager
async def _zmq_publisher(plan: Plan) -> AsyncIterator[PublisherEnd]:
    import zmq

    with zmq.Context() as context, context.socket(zmq.PUB) as sock:
        sock.setsockopt(zmq.SNDHWM, 0)
        sock.setsockopt(zmq.LINGER, 0)
        sock.bind(f"tcp://{plan.host}:{plan.port}")
        yield _ZmqPublisher(sock)


@asynccontextmanager
async def _zmq_subscriber(plan: Plan) -> AsyncIterator[SubscriberEnd]:
    import zmq

    with zmq.Context() as context, context.socket(zmq.SUB) as sock:
        sock.setsockopt(zmq.RCVHWM, 0)
        sock.setsockopt(zmq.LINGER, 0)
        sock.setsockopt(zmq.SUBSCRIBE, b"")
        sock.connect(f"tcp://{plan.host}:{plan.port}")
        yield _ZmqSubscriber(sock)


# Zenoh: peers over tcp, reliable, a publisher that waits when the link is congested.


class _ZenohPublisher(Uncounted):
    def __init__(self, publisher: Any) -> None:
        self._put = publisher.put

    async def send_many(self, payloads: Sequence[bytes]) -> None:
        put = self._put
        for payload in payloads:
            put(payload)

    async def send(self, payload: bytes) -> None:
        self._put(payload)

    async def sent(self) -> None:
        pass


class _ZenohSubscriber(Uncounted):
    def __init__(self, subscriber: Any) -> None:
        self._recv = subscriber.recv

    async def receive(self, at_most: int) -> list[bytes]:
        recv = self._recv
        return [recv().payload.to_bytes() for _ in range(at_most)]


def _zenoh_config(plan: Plan, way: str) -> Any:
    import zenoh

    config = zenoh.Config()
    config.insert_json5("mode", '"peer"')
    config.insert_json5("scouting/multicast/enabled", "false")
    config.insert_json5("scouting/gossip/enabled", "false")
    config.insert_json5("listen/endpoints", "[]")
    config.insert_json5(f"{way}/endpoints", f'["tcp/{plan.host}:{plan.port}"]')
    return config


@asynccontextmanager
async def _zenoh_publisher(plan: Plan) -> AsyncIterator[PublisherEnd]:
    import zenoh

    with zenoh.open(_zenoh_config(plan, "listen")) as session:
        publisher = session.declare_publisher(
            SUBJECT,
            congestion_control=zenoh.CongestionControl.BLOCK,
            reliability=zenoh.Reliability.RELIABLE,
        )
        yield _ZenohPublisher(publisher)


@asynccontextmanager
async def _zenoh_subscriber(plan: Plan) -> AsyncIterator[SubscriberEnd]:
    import zenoh

    with zenoh.open(_zenoh_config(plan, "connect")) as session:
        yield _ZenohSubscriber(session.declare_subscriber(SUBJECT, zenoh.handlers.FifoChannel(10_000)))


# NATS: a server in between, and nats-py. Its limits for slow consumers are raised, so that it drops none of them.


class _NatsPublisher(Uncounted):
    def __init__(self, client: Any) -> None:
        self._client = client

    async def send_many(self, payloads: Sequence[bytes]) -> None:
        publish = self._client.publish
        for payload in payloads:
            await publish(SUBJECT, payload)

    async def send(self, payload: bytes) -> None:
        await self._client.publish(SUBJECT, payload)

    async def sent(self) -> None:
        await self._client.flush(timeout=60)


class _Queue(Uncounted):
    """Passes events from a callback to a waiting receiver, all at once."""

    def __init__(self) -> None:
        self._payloads: list[bytes] = []
        self._ready = asyncio.Event()

    async def heard(self, message: Any) -> None:
        self._payloads.append(message.data)
        self._ready.set()

    async def receive(self, at_most: int) -> list[bytes]:
        await self._ready.wait()
        self._ready.clear()
        payloads, self._payloads = self._payloads, []
        return payloads


@asynccontextmanager
async def _nats_publisher(plan: Plan) -> AsyncIterator[PublisherEnd]:
    import nats

    client = await nats.connect(f"nats://{plan.host}:{plan.port}", connect_timeout=10)
    yield _NatsPublisher(client)
    await client.close()


@asynccontextmanager
async def _nats_subscriber(plan: Plan) -> AsyncIterator[SubscriberEnd]:
    import nats

    client = await nats.connect(f"nats://{plan.host}:{plan.port}", connect_timeout=10)
    queue = _Queue()
    await client.subscribe(SUBJECT, cb=queue.heard, pending_msgs_limit=-1, pending_bytes_limit=-1)
    yield queue
    await client.close()


# Bare UDP multicast, the blocking API: nothing is repaired, ordered or counted.


class _UdpPublisher(Uncounted):
    def __init__(self, sock: socket.socket, group: tuple[str, int]) -> None:
        self._sock, self._group = sock, group

    async def send_many(self, payloads: Sequence[bytes]) -> None:
        for payload in payloads:
            self._sock.sendto(payload, self._group)

    async def send(self, payload: bytes) -> None:
        self._sock.sendto(payload, self._group)

    async def sent(self) -> None:
        pass


class _UdpSubscriber(Uncounted):
    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock

    async def receive(self, at_most: int) -> list[bytes]:
        return [self._sock.recv(65_536) for _ in range(at_most)]


def _udp_group(plan: Plan) -> tuple[str, int]:
    return "239.192.77.8", plan.port


@asynccontextmanager
async def _udp_publisher(plan: Plan) -> AsyncIterator[PublisherEnd]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(plan.interface))
        yield _UdpPublisher(sock, _udp_group(plan))


@asynccontextmanager
async def _udp_subscriber(plan: Plan) -> AsyncIterator[SubscriberEnd]:
    group, port = _udp_group(plan)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((group, port))
        membership = socket.inet_aton(group) + socket.inet_aton(plan.interface)
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, membership)
        yield _UdpSubscriber(sock)


# Gossamer, through its public API only.


class _Gossamer:
    def __init__(self, group: Any) -> None:
        self._group = group

    def stats(self) -> dict[str, Any]:
        counters: dict[str, Any] = self._group.stats()
        return counters


class _GossamerPublisher(_Gossamer):
    async def send_many(self, payloads: Sequence[bytes]) -> None:
        await self._group.publish_many(SUBJECT, payloads)

    async def send(self, payload: bytes) -> None:
        await self._group.publish_wait(SUBJECT, payload)

    async def sent(self) -> None:
        await self._group.flush()


class _GossamerSubscriber(_Gossamer):
    def __init__(self, group: Any) -> None:
        super().__init__(group)
        self._batches: AsyncIterator[list[Any]] = group.subscribe(">").batches()

    async def receive(self, at_most: int) -> list[bytes]:
        while True:
            batch = await anext(self._batches)
            try:
                return [event.payload for event in batch]
            except AttributeError:  # one of them is a loss: the tally counts it as missing
                if payloads := [event.payload for event in batch if hasattr(event, "payload")]:
                    return payloads


def _settings(plan: Plan) -> Any:
    import gossamer

    trust = {"key": plan.key} if SYSTEMS[plan.system].sealed else {"insecure": True}
    system = SYSTEMS[plan.system]
    address = f"239.192.77.7:{plan.port}"
    return gossamer.Settings(
        address=address, interface=plan.interface, order=system.order, tuning=dict(system.tuning), **trust
    )


@asynccontextmanager
async def _gossamer_publisher(plan: Plan) -> AsyncIterator[PublisherEnd]:
    import gossamer

    async with gossamer.join("bench", _settings(plan)) as group:
        yield _GossamerPublisher(group)


@asynccontextmanager
async def _gossamer_subscriber(plan: Plan) -> AsyncIterator[SubscriberEnd]:
    import gossamer

    async with gossamer.join("bench", _settings(plan)) as group:
        yield _GossamerSubscriber(group)


@asynccontextmanager
async def _gossamer_logger(plan: Plan) -> AsyncIterator[End]:
    from gossamer.live.logger_group import logger

    with tempfile.TemporaryDirectory() as store:
        async with logger("bench", Path(store), _settings(plan)) as group:
            yield _Gossamer(group)


_OURS = (_gossamer_publisher, _gossamer_subscriber)
SYSTEMS = {
    system.key: system
    for system in (
        System("gossamer", "Gossamer", *_OURS, asynchronous=True, ours=True, logger=_gossamer_logger),
        System(
            "sealed", "Gossamer, sealed", *_OURS, asynchronous=True, ours=True, sealed=True, logger=_gossamer_logger
        ),
        System("hashed", "Gossamer, hashed", *_OURS, asynchronous=True, ours=True, tuning={"buffering": "hashed"}),
        System("total", "Gossamer, one order", *_OURS, asynchronous=True, ours=True, order="total"),
        System(
            "non-atomic",
            "Gossamer, one order, non-atomic",
            *_OURS,
            asynchronous=True,
            ours=True,
            order="total",
            tuning={"order_failures": "non-atomic"},
        ),
        System(
            "graph",
            "Gossamer, one order, down the graph",
            *_OURS,
            asynchronous=True,
            ours=True,
            order="total",
            tuning={"dissemination": "graph"},
        ),
        System(
            "unpaced",
            "Gossamer, sealed, no pace",
            *_OURS,
            asynchronous=True,
            ours=True,
            sealed=True,
            tuning={"congestion": "none"},
        ),
        System("zmq", "pyzmq PUB/SUB tcp", _zmq_publisher, _zmq_subscriber, needs=("zmq",)),
        System("zenoh", "Zenoh, tcp peers", _zenoh_publisher, _zenoh_subscriber, needs=("zenoh",)),
        System("nats", "NATS, one server", _nats_publisher, _nats_subscriber, ("nats",), "nats-server", True),
        System("udp", "bare UDP multicast", _udp_publisher, _udp_subscriber, bare=True),
        System(
            "bare-fifo",
            "bare sockets, FIFO",
            partial(bare_sockets.publisher, ordered=False),
            bare_sockets.subscriber,
            asynchronous=True,
            bare=True,
        ),
        System(
            "bare-order",
            "bare sockets, one order",
            partial(bare_sockets.publisher, ordered=True),
            bare_sockets.subscriber,
            asynchronous=True,
            bare=True,
        ),
    )
}
