"""`gossamer who-buffers`: which members should keep a packet, and which do."""

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from gossamer.cli.ids import with_ids
from gossamer.cli.options import Address, AsJson, GroupName, Insecure, Interface, Key, ask, run, settings_from
from gossamer.cli.stats import Wait, heard
from gossamer.live.probe import probe

NUMBER_MAX = (1 << 63) - 1


def who_buffers(
    group: GroupName,
    sender: Annotated[str, typer.Argument(metavar="SENDER", help="The packet's sender, by number or by name.")],
    seqno: Annotated[int, typer.Argument(metavar="SEQNO", min=0, max=NUMBER_MAX, help="The packet's number.")],
    wait: Wait = 1.0,
    address: Address = None,
    interface: Interface = None,
    key: Key = None,
    insecure: Insecure = False,
    as_json: AsJson = False,
) -> int:
    """Name the members of a GROUP that should keep a packet for long, and whether they have it.

    With `buffering = "hashed"` those are its bufferers; otherwise all members keep alike, and those that still keep it
    are named. `sub --json` and `publish` tell the sender and the number of a packet. Exit code 1 if nobody answers, or
    if there is no such packet.

    Example:

        gossamer who-buffers quotes publisher-1 1200
    """
    settings = settings_from(address, interface, key, insecure)
    profiles = ask(group, settings, wait)
    number = _number(group, sender, profiles)
    if number is None:
        return 1
    answers = run(probe(group, settings, wait=wait, enough=len(profiles), packet=(number, seqno)))
    found = summary(number, seqno, answers, {profile["member"]: profile["name"] for profile in profiles})
    if as_json:
        typer.echo(json.dumps(with_ids(found)))
    elif answers:
        _show(group, found)
    return heard(group, answers) or int(not found["exists"])


def _number(group: str, sender: str, profiles: list[dict[str, Any]]) -> int | None:
    """The number of a member that is given by number or name; None, and an explanation, if there is none."""
    if sender.isdecimal() and int(sender) <= NUMBER_MAX:
        return int(sender)
    found = [int(profile["member"]) for profile in profiles if profile["name"] == sender]
    if len(found) == 1:
        return found[0]
    if not heard(group, profiles):
        what = "is the name of several members" if found else "is no member's name"
        typer.echo(f"gossamer: {sender!r} {what} of group {group!r}; `gossamer members` lists their numbers", err=True)
    return None


def summary(sender: int, seqno: int, answers: list[dict[str, Any]], names: dict[int, str]) -> dict[str, Any]:
    """What the answers say together, with the names of members as far as they are known."""
    lasts = [answer["last"] for answer in answers if answer["last"] is not None]
    last = max(lasts, default=None)
    never = any(answer["never_sent"] for answer in answers)
    views = [answer["bufferers"] for answer in answers if answer["bufferers"] is not None]
    should = sorted({member for view in views for member in view})
    by_number = {a["member"]: {**a, "name": names.get(a["member"], str(a["member"]))} for a in answers}
    silent = {"has": None, "keeps": None}
    listed = [by_number.get(m, {"member": m, "name": names.get(m, str(m)), **silent}) for m in should]
    others = [a for a in by_number.values() if a["member"] not in should and (a["keeps"] or a["logged"])]
    return {
        "sender": sender,
        "seqno": seqno,
        "exists": last is not None and seqno <= last and not never,
        "last": last,
        "hashed": bool(views),
        "agree": all(view == views[0] for view in views),
        "bufferers": [{name: one[name] for name in ("member", "name", "has", "keeps")} for one in listed],
        "others": [{name: one[name] for name in ("member", "name", "keeps", "logged")} for one in others],
        "answers": len(answers),
    }


def _show(group: str, found: dict[str, Any]) -> None:
    sender, seqno, last = found["sender"], found["seqno"], found["last"]
    if not found["exists"]:
        if last is None:
            why = f"nobody in group {group!r} has heard of sender {sender}"
        elif seqno > last:
            why = f"the last packet of sender {sender} that anybody has heard of is {last}"
        else:
            why = f"sender {sender} has skipped this number"
        typer.echo(f"gossamer: there is no packet {seqno}: {why}", err=True)
        return
    title = f"packet {seqno} of {sender}"
    table = Table(
        "member", "number", "should keep it", "has received it", "keeps it", title=title, title_justify="left"
    )
    for one in found["bufferers"]:
        table.add_row(one["name"], str(one["member"]), "yes", _word(one["has"]), _word(one["keeps"]))
    for one in found["others"]:
        keeps = "in its log" if one["logged"] else "yes, for now" if found["hashed"] else "yes"
        table.add_row(one["name"], str(one["member"]), "", "yes", keeps)
    Console().print(table)
    if not found["agree"]:
        typer.echo("members have different views of the group at the moment, so they do not all agree on this")
    if not any(one["keeps"] for one in found["bufferers"] + found["others"]) and not any(
        one["logged"] for one in found["others"]
    ):
        typer.echo("nobody that answers keeps it any more")


def _word(value: bool | None) -> str:
    return "no answer" if value is None else "yes" if value else "no"
