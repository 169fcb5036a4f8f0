"""The specifications once more, row by row in plain Python: what the fast checkers must agree with.

Each function gives, for every violation, the number of the row that completes it, in order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations

from gossamer.trace.schema import Row

Packet = tuple[int, int]


class Membership:
    """What each member's rows so far say of it."""

    def __init__(self, at_least_once: bool) -> None:
        self.at_least_once = at_least_once
        self.status: dict[int, str] = {}
        self.life: dict[int, int] = defaultdict(int)
        self.joined: dict[int, int] = defaultdict(lambda: -1)
        self.crashed: dict[int, int] = defaultdict(lambda: -1)
        self.recovered: dict[int, int] = defaultdict(lambda: -1)
        self.vector: dict[tuple[int, int], dict[int, int]] = defaultdict(dict)

    def see(self, n: int, row: Row) -> None:
        _, m, kind, s, q, _, _, phase = row
        if kind == "join" and (s, q) != (-1, -1):
            if self.life[m]:
                self.vector[m, self.life[m]].setdefault(s, q)
            return
        if kind in ("join", "leave", "crash", "recover"):
            self.status[m] = {"leave": "left", "crash": "down"}.get(kind, "up")
        if kind == "join":
            self.joined[m] = n
        if kind == "crash":
            self.crashed[m] = n
        if kind == "recover":
            self.recovered[m] = n
        if kind == "join" or (self.at_least_once and kind == "crash" and phase == "lost"):
            self.life[m] += 1

    def owed(self, m: int, packet: Packet, published: int, crashes: bool) -> bool:
        s, q = packet
        vector = self.vector[m, self.life[m]]
        owed = q > vector[s] if s in vector else published > self.joined[m]
        return owed and not (crashes and published < max(self.recovered[m], self.crashed[s]))


def reliable(rows: Sequence[Row], promises: set[str], crashes: bool, at_least_once: bool) -> list[int]:
    members = Membership(crashes and at_least_once)
    published: dict[Packet, int] = {}
    got: set[tuple[int, int, Packet]] = set()
    gave_up: set[tuple[int, int, Packet]] = set()
    bad = []
    for n, row in enumerate(rows):
        _, m, kind, s, q, _, _, _ = row
        packet, status = (s, q), members.status.get(m, "up")
        if kind == "publish":
            bad += [n] * ((packet in published) + (m != s) + (status == "down"))
            published.setdefault(packet, n)
        if kind == "deliver":
            bad += [n] * ((members.joined[m] < 0) + (status != "up"))
            bad += [n] * (packet not in published and "no-bogus" in promises)
        if kind in ("deliver", "lost") and packet in published and members.joined[m] >= 0:
            key = (m, members.life[m], packet)
            if kind == "deliver" and key in got and "at-most-once" in promises:
                bad.append(n)
            both = key in got and key in gave_up
            (got if kind == "deliver" else gave_up).add(key)
            if not both and key in got and key in gave_up and "eventual-or-lost" in promises:
                bad.append(n)
        if kind == "undo" and packet in published and members.life[m]:
            key = (m, members.life[m], packet)
            bad += [n] * (key not in got and key not in gave_up)
            got.discard(key)
            gave_up.discard(key)
        members.see(n, row)
    done = got if "eventual" in promises else got | gave_up
    if promises & {"eventual", "eventual-or-lost"}:
        for m, status in members.status.items():
            if members.joined[m] < 0 or status == "left" or (crashes and status == "down"):
                continue
            for packet, n in published.items():
                if members.owed(m, packet, n, crashes) and (m, members.life[m], packet) not in done:
                    bad.append(n)
    return sorted(bad)


def channel(rows: Sequence[Row]) -> list[int]:
    sent: set[tuple[object, ...]] = set()
    bad = []
    for n, (_, m, kind, s, q, peer, _, phase) in enumerate(rows):
        if kind in ("send", "repair"):
            sent.add(("data", s, q, m, peer))
        if kind in ("request", "gossip", "ack", "heartbeat"):
            sent.add((kind, m, peer))
        if kind == "receive":
            control = (s, q) == (-1, -1)
            message = (phase, peer) if control else ("data", s, q, peer)
            known = (*message, m) in sent or (*message, -1) in sent
            if not known and not (control and phase in ("join", "leave", "view", "suspect")):
                bad.append(n)
    return bad


def fifo(rows: Sequence[Row], at_least_once: bool) -> list[int]:
    members = Membership(at_least_once)
    order: dict[int, list[Packet]] = defaultdict(list)
    published: dict[Packet, int] = {}
    highest: dict[tuple[int, int, int], int] = defaultdict(lambda: -1)
    bad = []
    for n, row in enumerate(rows):
        _, m, kind, s, q, _, _, _ = row
        packet = (s, q)
        if kind == "publish" and packet not in published:
            if order[s] and order[s][-1][1] >= q:
                bad.append(n)
            published[packet] = n
            order[s].append(packet)
        if kind in ("deliver", "lost") and packet in published:
            stream = (m, members.life[m], s)
            rank = order[s].index(packet)
            if rank <= highest[stream]:
                bad.append(n)
            elif rank > highest[stream] + 1:
                skipped = order[s][rank - 1]
                if members.owed(m, skipped, published[skipped], crashes=True):
                    bad.append(n)
            highest[stream] = max(rank, highest[stream])
        if kind == "undo" and packet in published:
            stream = (m, members.life[m], s)
            highest[stream] = min(order[s].index(packet) - 1, highest[stream])
        members.see(n, row)
    return bad


def disagreeing(rows: Sequence[Row]) -> Iterator[tuple[int, int]]:
    """Every two members of which one delivers some two packets in the other order."""
    place: dict[int, dict[Packet, int]] = defaultdict(dict)
    for n, (_, m, kind, s, q, _, _, _) in enumerate(rows):
        if kind == "deliver":
            place[m].setdefault((s, q), n)
    for one, other in combinations(sorted(place), 2):
        shared = place[one].keys() & place[other].keys()
        if any(
            (place[one][p] < place[one][q]) != (place[other][p] < place[other][q]) for p, q in combinations(shared, 2)
        ):
            yield one, other


def buffers(rows: Sequence[Row], bounds: dict[str, int]) -> list[int]:
    held: dict[tuple[int, str], set[Packet]] = defaultdict(set)
    bad = []
    for n, (_, m, kind, s, q, _, _, phase) in enumerate(rows):
        if (kind == "crash" and phase == "lost") or kind == "leave":
            for place in list(held):
                if place[0] == m and place[1] != "log":
                    held[place].clear()
        if kind == "store":
            full = len(held[m, phase]) >= bounds.get(phase, 10**9)
            if (s, q) in held[m, phase] or full:
                bad.append(n)
            held[m, phase].add((s, q))
        if kind == "collect":
            if (s, q) not in held[m, phase]:
                bad.append(n)
            held[m, phase].discard((s, q))
    return bad
