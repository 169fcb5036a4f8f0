"""Hosts on an emulated switch: namespaces whose links have bandwidth, queues, delay, jitter and loss (`switch.c`).

    with Switch([Port(), Port(down_mbit=100, delay_ms=1)]) as switch:
        subprocess.run(switch.nodes[0].command("ping", "-c", "3", switch.nodes[1].address))
        print(switch.stats())

Needs root, `ip` and a C compiler; everything is gone at the end. By hand, until a key is pressed:

    python benchmarks/switch.py --hosts 3 down_mbit=100,queue_kb=256,delay_ms=1 2:down_mbit=10
"""

import argparse
import functools
import json
import shutil
import subprocess
import sys
import tempfile
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tests.netns import MTU, Unavailable, check_available, delete, new_name, new_nodes, remove_leftovers, run

SOURCE = Path(__file__).with_name("switch.c")
END_TIMEOUT_S = 3.0
CONFIGURE = """
link set lo up
link set eth0 mtu {mtu} address {mac} txqueuelen 10000 up
address add {address}/24 dev eth0
address add fd77::{number:x}/64 dev eth0 nodad
route add 224.0.0.0/4 dev eth0
"""
KNOW = "neighbor add {address} lladdr {mac} dev eth0 nud permanent\n"
"""Hosts know each other's addresses: a question that is lost at the start would cost a second."""


@dataclass(frozen=True, slots=True)
class Port:
    """The cable of one host. Zero bandwidth is no limit."""

    down_mbit: float = 0.0
    up_mbit: float = 0.0
    queue_kb: float = 256.0
    delay_ms: float = 0.0
    """One way, added to what comes to this host."""
    jitter_ms: float = 0.0
    loss: float = 0.0

    def order(self) -> str:
        """As the program reads it."""
        return (
            f"down_mbit={self.down_mbit},up_mbit={self.up_mbit},queue={self.queue_kb * 1024},"
            f"delay_us={self.delay_ms * 1e3},jitter_us={self.jitter_ms * 1e3},loss={self.loss}"
        )


@functools.cache
def _program() -> tuple[Path, AbstractContextManager[str]]:
    """Build the switch, once for this process; the directory goes with it."""
    if (compiler := shutil.which("cc") or shutil.which("gcc")) is None:
        raise Unavailable("no C compiler: apt-get install gcc")
    directory = tempfile.TemporaryDirectory(prefix="gossamer-switch-")
    program = Path(directory.name) / "switch"
    run(compiler, "-O2", "-o", str(program), str(SOURCE))
    return program, directory


def _mac(number: int) -> str:
    return f"02:00:00:00:00:{number:02x}"


class Switch:
    """Hosts that hear each other through the switch, one for each port."""

    def __init__(self, ports: list[Port]) -> None:
        check_available()
        self.ports = ports
        self.nodes = new_nodes(new_name(), len(ports))
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        remove_leftovers()
        try:
            self._build()
        except BaseException as error:
            self._remove()
            if isinstance(error, RuntimeError):
                raise Unavailable(f"this kernel does not make the switch: {error}") from error
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self._remove()

    def stats(self) -> list[dict[str, Any]]:
        """Counters of each port since the start; `waited_max_us` since the last call."""
        self._order("stats")
        stats: list[dict[str, Any]] = json.loads(self._line())
        return stats

    def change(self, number: int, port: Port) -> None:
        """Give a host another cable."""
        self.ports[number] = port
        self._order(f"port={number},{port.order()}")

    def unread(self) -> int:
        """Frames that hosts have dropped because this program did not read fast enough: the measurement is void."""
        listings = [run("ip", "-n", node.namespace, "-json", "-s", "link", "show", "eth0") for node in self.nodes]
        return sum(json.loads(listing)[0]["stats64"]["tx"]["dropped"] for listing in listings)

    def overrun(self) -> int:
        """Datagrams that hosts have dropped because a process did not read its socket fast enough."""
        total = 0
        for node in self.nodes:
            names, values = (
                line.split() for line in run(*node.command("cat", "/proc/net/snmp")).splitlines() if line[:4] == "Udp:"
            )
            total += int(values[names.index("RcvbufErrors")])
        return total

    def _order(self, line: str) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()

    def _line(self) -> str:
        assert self._process is not None
        assert self._process.stdout is not None
        if not (line := self._process.stdout.readline()):
            raise RuntimeError(f"the switch ended with {self._process.wait(END_TIMEOUT_S)}")
        return line

    def _build(self) -> None:
        program, _ = _program()
        for node in self.nodes:
            run("ip", "netns", "add", node.namespace)
        ports = [f"netns={node.namespace},{port.order()}" for node, port in zip(self.nodes, self.ports, strict=True)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen([str(program), *ports], stdin=pipe, stdout=pipe, text=True)
        self._line()
        for number, node in enumerate(self.nodes, 1):
            lines = CONFIGURE.format(mtu=MTU, address=node.address, mac=_mac(number), number=number)
            others = [(n, other) for n, other in enumerate(self.nodes, 1) if n != number]
            lines += "".join(KNOW.format(address=other.address, mac=_mac(n)) for n, other in others)
            run("ip", "-n", node.namespace, "-batch", "-", stdin=lines)

    def _remove(self) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()  # it ends with its input
            try:
                self._process.wait(END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        for node in self.nodes:
            delete(node.namespace)


def worst_queue(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> tuple[float, str]:
    """The largest share of packets that one queue has dropped in the meantime, and which."""
    shares = [(0.0, "none")]
    for number, (old, new) in enumerate(zip(before, after, strict=True)):
        for way in ("up", "down"):
            dropped, packets = (new[way][key] - old[way][key] for key in ("dropped", "packets"))
            shares.append((dropped / packets if packets else 0.0, f"{way} {number}"))
    return max(shares)


def parse_ports(hosts: int, texts: list[str]) -> list[Port]:
    """KEY=VALUE,... for all ports, or NUMBER:KEY=VALUE,... for one."""
    ports = [Port()] * hosts
    for text in texts:
        number, _, settings = text.rpartition(":")
        changes = {key: float(value) for key, value in (pair.split("=") for pair in settings.split(","))}
        if unknown := set(changes) - set(asdict(Port())):
            raise SystemExit(f"switch: no setting {unknown.pop()!r}; choose from {', '.join(asdict(Port()))}")
        for n in [int(number)] if number else range(hosts):
            ports[n] = replace(ports[n], **changes)
    return ports


def main() -> None:
    """A switch for trying things out."""
    parser = argparse.ArgumentParser(description="Hosts on an emulated switch, until a key is pressed.")
    parser.add_argument("--hosts", type=int, default=3)
    parser.add_argument("port", nargs="*", help="[NUMBER:]KEY=VALUE,... with the keys of Port")
    options = parser.parse_args()
    with Switch(parse_ports(options.hosts, options.port)) as switch:
        for node, port in zip(switch.nodes, switch.ports, strict=True):
            print(f"ip netns exec {node.namespace} ...   # {node.address}, {port}")
        print("press Enter for statistics, Ctrl-D to end", flush=True)
        try:
            while sys.stdin.readline():
                for line in switch.stats():
                    print(json.dumps(line), flush=True)
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main()
