"""Real networks for tests: namespaces on a bridge, with real loss and real partitions made by the kernel.

    hub:   bridge (multicast goes to every port)
            |port0        |port1        |port2
           eth0          eth0          eth0        veth pairs, MTU 1500
    node 0: 10.77.0.1     10.77.0.2     10.77.0.3  each in a namespace of its own

Everything lives in namespaces whose names carry the id of the process that made them, so nothing of the machine's own
network is touched and deleting the namespaces deletes everything. What a killed process left behind, the next one
removes. On the way packets have the size that they would have on a cable: what the kernel let a sender pass in one
piece is cut as it leaves the node, because a loss of the piece would be a loss of forty packets at once. Losses are in
the hub, as they are in a network; behind them a node may join what is left to larger pieces again (GRO), as network
cards and their drivers do.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

ROOT = Path(__file__).resolve().parent.parent
MTU = 1500
PREFIX = "gossamer"
COMMAND_TIMEOUT_S = 20.0
CHILD_LIMIT_S = 100
_numbers = count()


class Unavailable(RuntimeError):
    """Namespaces cannot be made here: the message says why."""


def run(*command: str, stdin: str = "") -> str:
    """A command that must succeed; its output."""
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=COMMAND_TIMEOUT_S)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip() or done.returncode} {stdin}")
    return done.stdout


def check_available() -> None:
    """Unavailable, with the reason, where namespaces or packet filters are out of reach."""
    if os.geteuid() != 0:
        raise Unavailable("network namespaces need root")
    for program, package in (("ip", "iproute2"), ("tc", "iproute2"), ("nft", "nftables"), ("ethtool", "ethtool")):
        if shutil.which(program) is None:
            raise Unavailable(f"no program {program}: apt-get install {package}")


@dataclass(frozen=True, slots=True)
class Node:
    """One namespace with one address; the hub has none."""

    namespace: str
    address: str

    def command(self, *command: str) -> list[str]:
        """The command, to be run inside; `ip` becomes it, so its process id is the command's own."""
        return ["ip", "netns", "exec", self.namespace, *command]

    def filter(self, rules: str) -> None:
        """Give commands to the packet filter."""
        run(*self.command("nft", "-f", "-"), stdin=rules)


def new_name() -> str:
    """A name for the namespaces of one network of this process."""
    return f"{PREFIX}-{os.getpid()}-{next(_numbers)}"


def new_nodes(name: str, count: int) -> list[Node]:
    """Nodes that are still to be made."""
    return [Node(f"{name}-{n}", f"10.77.0.{n + 1}") for n in range(count)]


class Queue(NamedTuple):
    """Counters of a queue in the hub."""

    packets: int
    """That passed."""
    size_bytes: int
    drops: int

    def since(self, before: Queue) -> Queue:
        """What happened in between."""
        return Queue(*(new - old for new, old in zip(self, before, strict=True)))


class Network:
    """Nodes that hear each other; `with Network(3) as network`."""

    def __init__(self, nodes: int) -> None:
        check_available()
        name = new_name()
        self.hub = Node(f"{name}-hub", "")
        self.nodes = new_nodes(name, nodes)
        self._children: list[subprocess.Popen[str]] = []

    def __enter__(self) -> Self:
        remove_leftovers()
        try:
            self._build()
        except BaseException as error:
            self._remove()
            if isinstance(error, RuntimeError):
                raise Unavailable(f"this kernel does not make the network: {error}") from error
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._remove()

    def start(self, node: int, function: Callable[..., None], *arguments: str) -> subprocess.Popen[str]:
        """Call a function of a module in a Python of its own on that node, with pipes for its input and output.

        It ends by itself after `CHILD_LIMIT_S`, with this process, and at the latest with the network.
        """
        self._children.append(start(self.nodes[node], function, *arguments))
        return self._children[-1]

    def lose(self, percent: int) -> None:
        """Every node loses so many of a hundred packets that come to it, at random, one by one."""
        for n in range(len(self.nodes)):
            rule = f"add rule netdev bad to{n} numgen random mod 100 < {percent} counter drop\n" * (percent > 0)
            self.hub.filter(f"flush chain netdev bad to{n}\n{rule}")

    def narrow(self, node: int, mbit: float, queue_kb: int) -> None:
        """What comes to the node passes a link of this bandwidth, behind a queue that drops what does not fit."""
        burst = max(2 * MTU, int(mbit * 125))  # a millisecond's worth: the kernel's timer is not finer than that
        shape = ("tbf", "rate", f"{mbit}mbit", "burst", str(burst), "limit", str(queue_kb * 1024))
        run("tc", "-n", self.hub.namespace, "qdisc", "replace", "dev", f"port{node}", "root", *shape)

    def queue(self, node: int) -> Queue:
        """What the queue before a narrow link has done so far."""
        listing = run("tc", "-n", self.hub.namespace, "-json", "-s", "qdisc", "show", "dev", f"port{node}", "root")
        counters = json.loads(listing)[0]
        return Queue(counters["packets"], counters["bytes"], counters["drops"])

    def partition(self, *sides: Sequence[int]) -> None:
        """Nodes of different sides do not hear each other any more, neither by multicast nor by unicast."""
        for side in sides:
            others = [self.nodes[n].address for other in sides if other is not side for n in other]
            rule = f"add rule inet bad partition ip saddr {{ {', '.join(others)} }} counter drop\n"
            for n in side:
                self.nodes[n].filter(f"flush chain inet bad partition\n{rule}")

    def deafen(self, *nodes: int) -> None:
        """These nodes hear none of the others, which still hear them."""
        for n in nodes:
            others = [node.address for at, node in enumerate(self.nodes) if at != n]
            rule = f"add rule inet bad partition ip saddr {{ {', '.join(others)} }} counter drop\n"
            self.nodes[n].filter(f"flush chain inet bad partition\n{rule}")

    def heal(self) -> None:
        """End of the partition."""
        for node in self.nodes:
            node.filter("flush chain inet bad partition\n")

    def dropped(self) -> int:
        """How many packets the rules that stand now have dropped, over all nodes."""
        listings = [run(*node.command("nft", "list", "ruleset")) for node in (self.hub, *self.nodes)]
        words = " ".join(listings).split()
        return sum(int(words[at + 2]) for at, word in enumerate(words) if word == "counter")

    def _build(self) -> None:
        run("ip", "netns", "add", self.hub.namespace)
        hub = ("ip", "-n", self.hub.namespace, "link")
        run(*hub, "add", "bridge", "type", "bridge", "mcast_snooping", "0", "stp_state", "0")
        run(*hub, "set", "bridge", "up")
        self.hub.filter("table netdev bad { }\n")
        for n, node in enumerate(self.nodes):
            port = f"port{n}"
            run("ip", "netns", "add", node.namespace)
            inside = ("ip", "-n", node.namespace, "link", "set", "dev")
            run(*hub, "add", port, "type", "veth", "peer", "name", "eth0", "netns", node.namespace)
            run(*hub, "set", "dev", port, "master", "bridge", "mtu", str(MTU), "up")
            run(*inside, "eth0", "mtu", str(MTU), "up")
            run(*inside, "lo", "up")
            run(*node.command("ethtool", "-K", "eth0", "tso", "off", "tx-udp-segmentation", "off", "gro", "on"))
            run(*self.hub.command("ethtool", "-K", port, "tso", "off"))  # or the node would not join anything
            run("ip", "-n", node.namespace, "address", "add", f"{node.address}/24", "dev", "eth0")
            run("ip", "-n", node.namespace, "route", "add", "224.0.0.0/4", "dev", "eth0")
            node.filter("table inet bad {\n chain partition { type filter hook input priority 0; }\n}\n")
            self.hub.filter(f'add chain netdev bad to{n} {{ type filter hook egress device "{port}" priority 0; }}\n')

    def _remove(self) -> None:
        for child in self._children:
            child.kill()
            child.communicate()
        for node in (*self.nodes, self.hub):
            delete(node.namespace)


def start(node: Node, function: Callable[..., None], *arguments: str) -> subprocess.Popen[str]:
    """As `Network.start`, but nobody ends it before its time."""
    script = (
        f"import ctypes, signal, sys; signal.alarm({CHILD_LIMIT_S}); ctypes.CDLL(None).prctl(1, signal.SIGKILL); "
        f"from {function.__module__} import {function.__name__} as main; main(*sys.argv[1:])"
    )
    pipe = subprocess.PIPE
    command = node.command(sys.executable, "-c", script, *arguments)
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT)


def say(what: Any) -> None:
    """One line from a child to the test."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def hear(child: subprocess.Popen[str]) -> Any:
    """The next line of a child; its own alarm ends the waiting."""
    assert child.stdout is not None
    line = child.stdout.readline()
    assert line, "the process has ended without an answer"
    return json.loads(line)


def tell(child: subprocess.Popen[str], line: str) -> None:
    """One line from the test to a child."""
    assert child.stdin is not None
    child.stdin.write(f"{line}\n")
    child.stdin.flush()


def remove_leftovers() -> None:
    """Namespaces of ours whose process is gone."""
    for line in run("ip", "netns", "list").splitlines():
        namespace = line.split()[0]
        owner = namespace.removeprefix(f"{PREFIX}-").split("-")[0]
        if namespace.startswith(f"{PREFIX}-") and owner.isdigit() and not Path(f"/proc/{owner}").exists():
            delete(namespace)


def delete(namespace: str) -> None:
    """Remove a namespace, if it exists, with everything in it."""
    if Path(f"/run/netns/{namespace}").exists():
        with suppress(RuntimeError, subprocess.TimeoutExpired):  # somebody else was faster
            run("ip", "netns", "delete", namespace)
