"""`gossamer demo`: a publisher, subscribers and a logger as real processes on a bad line, and the ledger at the end.

The demo does nothing that you could not do by hand: it starts `gossamer logger`, `gossamer sub` and `gossamer pub`, and
watches them as `gossamer stats` does.
"""

import asyncio
import json
import secrets
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, RenderableType
from rich.live import Live
from rich.markup import escape

from gossamer.cli.extras import to_install
from gossamer.cli.options import AsJson, run
from gossamer.cli.progress import waiting
from gossamer.cli.tables import ledger
from gossamer.core.schema import SettingError
from gossamer.live.probe import probe
from gossamer.settings import Settings

WATCH_S = 0.25
PATIENCE_S = 120.0
_GOODBYE_S = 15.0


def demo(
    members: Annotated[int, typer.Option(min=1, max=64, help="Number of subscribers.")] = 8,
    loss: Annotated[float, typer.Option(min=0, max=0.5, help="Fraction of datagrams that each process loses.")] = 0.05,
    events: Annotated[int, typer.Option(min=1, help="Events to publish.")] = 20_000,
    rate: Annotated[float, typer.Option(min=0, help="Events per second; 0 means as fast as possible.")] = 5000.0,
    out: Annotated[Path | None, typer.Option(help="Keep the log, the traces and the ledger in this directory.")] = None,
    trace: Annotated[
        bool | None, typer.Option(help="Write a trace of every process; by default if --out or --spark asks for it.")
    ] = None,
    spark: Annotated[bool, typer.Option(help="At the end, archive and audit the events with Spark.")] = False,
    as_json: AsJson = False,
) -> int:
    """Run a group of real processes on this machine, with losses, and show that every event arrived exactly once.

    Exit code 1 unless every event arrived at every subscriber, once and in order.

    Examples:

        gossamer demo

        gossamer demo --members 4 --loss 0.2 --events 50000 --out runs/demo --spark
    """
    with ExitStack() as stack:
        folder = out or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="gossamer-demo-")))
        if out is not None:
            _make(out)
        console = Console(stderr=as_json)
        stage = Stage(folder, members, loss, events, rate, _traces(console, trace, out is not None or spark))
        stack.enter_context(stage)
        run(stage.play(console))
        profiles = stage.results()
        failures = [text for profile in profiles for text in stage.faults(profile)] + stage.troubles
        if as_json:
            typer.echo(json.dumps({"events": events, "members": profiles, "failures": failures}))
        else:
            console.print(ledger(f"{events:,} events, {members} subscribers, {loss:.0%} loss", profiles))
            _verdict(console, failures, members, events)
        if spark and not failures:
            from gossamer.cli.demo_spark import archive_and_audit

            return archive_and_audit(console, folder)
        return 1 if failures else 0


class Stage:
    """The processes of one demo; leaving the context ends them all."""

    def __init__(self, folder: Path, members: int, loss: float, events: int, rate: float, trace: bool) -> None:
        self.folder = folder
        self.troubles: list[str] = []
        self._members = members
        self._loss = loss
        self._events = events
        self._rate = rate
        self._trace = trace
        self._group = f"demo-{secrets.token_hex(3)}"
        self._settings = Settings(address=f"239.192.77.7:{20_000 + secrets.randbelow(20_000)}")
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> "Stage":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            if process.poll() is None:
                process.terminate()
        for process in self._processes.values():
            try:
                process.wait(_GOODBYE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    async def play(self, console: Console) -> None:
        """Run the demo, from starting the first process to delivering the last event."""
        count = ["--count", str(self._events)]
        self._start("logger", "logger", self._group, "--store", str(self.folder / "log"), "--retain", "forever")
        with waiting("waiting for the logger"):
            await self._until(1)
        for number in range(1, self._members + 1):
            name = f"subscriber-{number:02d}"
            saves = ["--stats", str(self.folder / f"{name}.json")]
            self._start(name, "sub", self._group, "demo.>", "--verify", "--quiet", *count, *saves)
        with waiting(f"waiting for {self._members} subscribers"):
            await self._until(1 + self._members)
        speed = ["--rate", str(self._rate)] if self._rate else []
        self._start("publisher", "pub", self._group, "demo.numbers", *count, *speed, "--wait", str(1 + self._members))
        await self._watch(console)

    def results(self) -> list[dict[str, Any]]:
        """What every subscriber reported when it ended."""
        files = sorted(self.folder.glob("subscriber-*.json"))
        return [json.loads(file.read_text()) for file in files]

    def faults(self, profile: dict[str, Any]) -> list[str]:
        """What is wrong with one subscriber's report; empty if nothing is."""
        verified = profile["verified"]
        if verified["right"] == self._events and not verified["wrong"] and not verified["lost"]:
            return []
        return [f"{profile['name']}: {verified['right']} right, {verified['wrong']} wrong, {verified['lost']} lost"]

    def _start(self, name: str, command: str, *arguments: str) -> None:
        line = [sys.executable, "-m", "gossamer", command, *arguments, "--address", self._settings.address]
        if self._loss:
            line += ["--impair", f"loss={self._loss}"]
        if self._trace:
            line += ["--trace", str(self.folder / f"{name}.parquet")]
        environment = self._environment(name)
        with open(self.folder / f"{name}.txt", "wb") as words:
            self._processes[name] = subprocess.Popen(line, stdout=words, stderr=words, env=environment)

    @staticmethod
    def _environment(name: str) -> dict[str, str]:
        import os

        return os.environ | {"GOSSAMER_NAME": name}

    async def _until(self, wanted: int) -> None:
        """Wait until `wanted` members have found each other."""
        loop = asyncio.get_running_loop()
        end = loop.time() + PATIENCE_S
        while loop.time() < end:
            self._check_alive()
            profiles = await probe(self._group, self._settings, wait=0.3, enough=wanted)
            if len(profiles) >= wanted and all(len(p["members"]) >= wanted for p in profiles):
                return
        raise SettingError(f"demo: the group did not form within {PATIENCE_S:.0f} s; try `gossamer doctor`")

    async def _watch(self, console: Console) -> None:
        """Show the ledger until every subscriber has ended."""
        loop = asyncio.get_running_loop()
        end = loop.time() + PATIENCE_S + (self._events / self._rate if self._rate else 0)
        subscribers = [p for name, p in self._processes.items() if name.startswith("subscriber")]
        with Live(console=console, refresh_per_second=4, transient=True) as live:
            while any(p.poll() is None for p in subscribers) and loop.time() < end:
                profiles = await probe(self._group, self._settings, wait=WATCH_S, enough=self._members + 2)
                if profiles:
                    live.update(self._table(profiles))
                await asyncio.sleep(WATCH_S)
        if loop.time() >= end:
            self.troubles.append(f"not everything arrived within {PATIENCE_S:.0f} s")
        while self._processes["publisher"].poll() is None and loop.time() < end + _GOODBYE_S:
            await asyncio.sleep(0.05)

    def _table(self, profiles: list[dict[str, Any]]) -> RenderableType:
        done = sum(p["stats"]["received"] for p in profiles if not p["logger"] and p["name"] != "publisher")
        return ledger(f"{done:,} of {self._events * self._members:,} deliveries", profiles)

    def _check_alive(self) -> None:
        for name, process in self._processes.items():
            if process.poll() not in (None, 0):
                words = (self.folder / f"{name}.txt").read_text().strip().splitlines()
                raise SettingError(f"demo: {name} ended early: {words[-1] if words else process.returncode}")


def _traces(console: Console, asked: bool | None, useful: bool) -> bool:
    """Whether to write traces: as asked, or if they are of use and can be written."""
    if asked is not None or not useful:
        return bool(asked)
    if find_spec("pyarrow") is None:
        console.print(f"[dim]no traces: they need {escape(to_install('pyarrow'))}[/]", soft_wrap=True)
        return False
    return True


def _verdict(console: Console, failures: list[str], members: int, events: int) -> None:
    if failures:
        for text in failures:
            console.print(f"[bold red]failed[/] {text}")
    else:
        console.print(f"[bold green]every one of {members} subscribers got all {events:,} events, once, in order[/]")


def _make(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise SettingError(f"--out {folder}: not empty; choose a new directory")
