"""How long it takes to find a channel map: the log of a group with 10,000 subjects, 1,000 subscribers, 16 channels.

Makes a log (subjects by Zipf's law, payloads of 100 bytes, packets as large as loopback allows) and a table of
interests, then runs `gossamer pipeline channels` as a user would, in a process of its own, and prints the seconds of
each part. Making the log is not part of the measurement. The log is in the page cache, so the disk plays no part.

Run it with `python benchmarks/bench_mapping.py [EVENTS] [FOLDER]`; 10 million events take about 1.5 GB of disk. With a
folder, log and interests stay there and are used again.
"""

from __future__ import annotations

import csv
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from gossamer.core.messages import Data
from gossamer.core.packets import Packet
from gossamer.pipeline.channels.workload import Workload, demand, subject_names
from gossamer.store import LogEntry, open_store
from gossamer.wire import Header, encode
from gossamer.wire.codec import DATA_BYTES
from gossamer.wire.events import Packer

SENDERS, PAYLOAD, DATAGRAM_BYTES, BATCH = 4, bytes(100), 65_507, 200
LOAD = Workload()


def fill(store_path: Path, events: int) -> None:
    """Write the log: each sender publishes its part of the events."""
    names, shares = subject_names(LOAD), demand(LOAD).weights
    random = np.random.default_rng(1)
    with open_store(store_path) as store:
        for sender in range(1, SENDERS + 1):
            packer, entries, seqno = Packer(DATAGRAM_BYTES - DATA_BYTES), [], 0
            for subject in random.choice(len(names), events // SENDERS, p=shares):
                if not packer.add(names[subject], PAYLOAD, {}):
                    entries.append(entry(sender, seqno, packer))
                    packer.add(names[subject], PAYLOAD, {})
                    seqno += 1
                    if len(entries) == BATCH:
                        store.append(entries)
                        entries = []
            store.append([*entries, entry(sender, seqno, packer)])


def entry(sender: int, seqno: int, packer: Packer) -> LogEntry:
    body = packer.body(1_700_000_000_000_000_000 + seqno * 1_000_000)
    return LogEntry(sender, seqno, 0, encode(Header(7, sender), Data(Packet(sender, seqno, body))))


def write_interests(path: Path) -> None:
    """Write the table of interests: exact subjects, and for every tenth member a pattern."""
    names, wants = subject_names(LOAD), demand(LOAD).wants.T.tocsr()
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["member", "pattern"])
        for member in range(LOAD.members):
            writer.writerows((member, names[s]) for s in wants.indices[wants.indptr[member] : wants.indptr[member + 1]])
            if member % 10 == 0:
                writer.writerow((member, f"market{member % LOAD.communities}.*"))


def make(folder: Path, events: int) -> None:
    """Make the log and the interests, unless an earlier run left them."""
    if not (folder / "interests.csv").exists():
        began = time.perf_counter()
        fill(folder / "store", events)
        write_interests(folder / "interests.csv")
        print(f"made a log of {events:,} events in {time.perf_counter() - began:.0f} s", flush=True)


def measure(folder: Path) -> None:
    """Find the map, and say how long each part took and what the map is worth."""
    began = time.perf_counter()
    command = [sys.executable, "-m", "gossamer", "pipeline", "channels", str(folder / "store")]
    options = ["--interests", str(folder / "interests.csv"), "--out", str(folder / "channels.toml"), "--json"]
    done = subprocess.run([*command, *options], stdout=subprocess.PIPE, check=True)
    seconds = time.perf_counter() - began
    facts = json.loads(done.stdout)
    waste = facts["waste"]
    print(f"mapped {facts['events']:,} events, {facts['subjects']:,} subjects, {facts['members']:,} members")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{used.ru_utime + used.ru_stime:.0f} s of processor time in all")
    print(f"in {seconds:.1f} s: {', '.join(f'{name} {spent:.1f} s' for name, spent in facts['seconds'].items())}")
    print(f"waste: {waste['map'] / waste['hashed']:.3f} of hashed, {waste['map'] / waste['one_channel']:.3f} of one")
    print(f"{facts['rules']:,} rules, {facts['map_bytes']:,} bytes, from the start by {facts['methods']['chosen']}")
    for name, found in facts["methods"]["waste"].items():
        start, moved = found["start"] / facts["wanted"], found["improved"] / facts["wanted"]
        print(f"{name}: {start:.2f} wasted for each wanted, {moved:.2f} after moves")


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000_000
    if len(sys.argv) > 2:
        Path(sys.argv[2]).mkdir(exist_ok=True)
        make(Path(sys.argv[2]), count)
        measure(Path(sys.argv[2]))
    else:
        with tempfile.TemporaryDirectory() as made:
            make(Path(made), count)
            measure(Path(made))
