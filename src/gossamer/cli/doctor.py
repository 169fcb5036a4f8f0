"""`gossamer doctor`: the conditions that a group would find on this machine, and what to change."""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, fields
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gossamer.cli.options import GroupOption
from gossamer.core.schema import SettingError

if TYPE_CHECKING:
    from gossamer.live.diagnosis import Finding
    from gossamer.settings import Settings

JAVA_MIN = 17
"""The oldest version that Spark 4 supports."""
_COLOURS = {"ok": "green", "warn": "yellow", "fail": "bold red"}


def doctor(
    interface: Annotated[
        str | None, typer.Option(help="Check this interface, by address or name; that of the settings if not given.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Check all other interfaces that are up, too.")] = False,
    address: Annotated[
        str | None, typer.Option(help="Test exactly this multicast address and port; a group running there hears it.")
    ] = None,
    group: GroupOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the findings as JSON.")] = False,
) -> int:
    """Check multicast, socket buffers, clock, key and Java on this machine, and say what to change.

    With --group it also asks the members of a group what limits their rate, how much is repaired, and who has left the
    multicast and why. Every check is ok, warn or fail. Exit code 1 if one fails. Multicast is tried by sending to the
    group's address, on the interface of the settings, which is loopback unless they say otherwise; on others only with
    --interface or --all.

    Examples:

        gossamer doctor

        gossamer doctor --interface eth0

        gossamer doctor --all

        gossamer doctor --interface lo --group quotes
    """
    findings = list(examine(interface, address, everything))
    if group is not None:
        findings += _of_group(group, interface, address)
    failed = any(finding.verdict == "fail" for finding in findings)
    if as_json:
        typer.echo(json.dumps({"ok": not failed, "findings": [asdict(finding) for finding in findings]}))
    else:
        _show(findings)
    return 1 if failed else 0


def examine(interface: str | None, address: str | None, everything: bool = False) -> "Iterator[Finding]":
    """All findings, beginning with the settings, which the other checks use."""
    from gossamer.live import diagnosis
    from gossamer.live.credentials import endpoint_of
    from gossamer.live.diagnosis import Finding
    from gossamer.settings import Settings
    from gossamer.settings.addresses import multicast_address
    from gossamer.settings.outside import CONFIG, PREFIX, config_file

    given = {name: value for name, value in (("interface", interface), ("address", address)) if value is not None}
    try:
        settings = Settings(**given)  # type: ignore[arg-type]
        yield Finding("settings", "ok", f"from {config_file() or 'the defaults and the environment'}")
    except SettingError as error:
        _defaults(given)  # wrong options are wrong usage, whatever the environment and the file say
        yield Finding("settings", "fail", str(error), "correct it; the other checks use the defaults")
        settings = _defaults(given)
    yield from diagnosis.variables({CONFIG} | {PREFIX + one.name.upper() for one in fields(settings)})
    yield from diagnosis.keys(settings)
    group, _ = multicast_address(settings.address)
    host = f"[{group}]" if group.version == 6 else str(group)
    tried = address or f"{host}:{diagnosis.free_port(str(group))}"
    try:
        yield from diagnosis.network(tried, endpoint_of(settings).interface, only=not everything)
    except SettingError as error:
        says, _, change = str(error).partition("; ")
        yield Finding("multicast", "fail", says, change)
    yield from diagnosis.clock()
    yield _java()
    yield _faster("uvloop", "asyncio's default loop is used")
    yield _faster("isal", "checksums take three times as long")


def _of_group(group: str, interface: str | None, address: str | None) -> "list[Finding]":
    from gossamer.cli.options import run, settings_from
    from gossamer.live.diagnosis import Finding
    from gossamer.live.group_diagnosis import of_group
    from gossamer.live.probe import probe

    profiles = run(probe(group, settings_from(address, interface, None, False), wait=1.0))
    if not profiles:
        change = "check that address, interface and key are the same everywhere"
        return [Finding(f"group {group}", "fail", "nobody answers", change)]
    return [Finding(f"group {group}", "ok", f"{len(profiles)} members answer"), *of_group(profiles)]


def _defaults(given: dict[str, str]) -> "Settings":
    """The defaults with the given options, ignoring the environment and the file."""
    from gossamer.settings import Settings

    plain = {one.name: one.metadata["default"] for one in fields(Settings)}
    return Settings(**{**plain, "name": "doctor", **given})


def _java() -> "Finding":
    from gossamer.live.diagnosis import Finding

    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    change = f"install Java {JAVA_MIN} or later (`make java`); only pipeline and experiments need it"
    if java is None:
        return Finding("java for Spark", "warn", f"not found {f'in JAVA_HOME={home}' if home else ''}".strip(), change)
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=20, check=False).stderr
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("java for Spark", "warn", f"{java} does not run: {error}", change)
    version = re.search(r'version "(?:1\.)?(\d+)', told)
    if version is None or int(version[1]) < JAVA_MIN:
        return Finding("java for Spark", "warn", f"{java} is version {version[1] if version else 'unknown'}", change)
    if find_spec("pyspark") is None:
        return Finding("java for Spark", "warn", f"Java {version[1]}, but no pyspark", "pip install 'gossamer[spark]'")
    return Finding("java for Spark", "ok", f"Java {version[1]}, {java}")


def _faster(package: str, without: str) -> "Finding":
    from gossamer.live.diagnosis import Finding

    if find_spec(package) is None:
        return Finding(package, "warn", f"not installed: {without}", "pip install 'gossamer[fast]'")
    return Finding(package, "ok", "installed")


def _show(findings: "list[Finding]") -> None:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("", no_wrap=True)
    table.add_column("check", no_wrap=True)
    table.add_column("finding, and what to change", overflow="fold")
    for finding in findings:
        change = f"\n[bold]{escape(finding.change)}[/]" if finding.change else ""
        verdict = f"[{_COLOURS[finding.verdict]}]{finding.verdict}[/]"
        table.add_row(verdict, escape(finding.check), escape(finding.says) + change)
    Console().print(table, highlight=False)
