"""Jobs that are each done by one of several workers. Start workers in as many terminals as you like, at any time.

    python examples/worker_queue.py work &
    python examples/worker_queue.py work &
    python examples/worker_queue.py send 20

A worker that dies leaves what it had not acknowledged to the others, so a job may be done twice, but is not left out as
long as one worker lives.
"""

import sys
import time
from contextlib import suppress

import gossamer


def work() -> None:
    """Do jobs until interrupted."""
    with gossamer.join_sync("jobs") as group:
        jobs = group.subscribe("job.>", queue="workers", losses="skip")
        print("ready", flush=True)
        with suppress(KeyboardInterrupt):
            for job in jobs:
                assert isinstance(job, gossamer.Event)
                time.sleep(0.01)  # the work
                print(f"done {job.payload.decode()}", flush=True)
                job.ack()


def send(count: int) -> None:
    """Publish jobs."""
    with gossamer.join_sync("jobs") as group:
        for number in range(count):
            group.publish("job.square", str(number).encode())
            group.flush()  # a packet for each job: workers share packets, not events


if __name__ == "__main__":
    work() if sys.argv[1] == "work" else send(int(sys.argv[2]))
