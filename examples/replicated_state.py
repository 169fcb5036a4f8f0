"""A dictionary that is the same at every member, and at one that joins later.

Members publish changes and apply them in the order in which they arrive, their own included. A member that joins reads
the past from a logger first. Changes of one key should come from one member: without a total order, two members that
change the same key at the same time may see the two changes in different orders.

    gossamer logger shared-state --store state.log &
    python examples/replicated_state.py kitchen 21.5
    python examples/replicated_state.py office 19.0    # prints the kitchen's temperature, too
"""

import json
import sys

import gossamer


class SharedState:
    """What all members have set."""

    def __init__(self, group: gossamer.SyncGroup) -> None:
        self._group = group
        self._changes = group.subscribe("state.>", start="beginning")
        self.values: dict[str, object] = {}

    def set(self, key: str, value: object) -> None:
        """Set a value everywhere; here, too, it is seen when it arrives."""
        self._group.publish(f"state.{key}", json.dumps(value).encode())

    def catch_up(self) -> None:
        """Apply all of the past."""
        self._changes.caught_up(timeout=30)
        while self._changes.waiting:
            self.apply_next()

    def apply_next(self) -> str:
        """Wait for the next change and apply it; returns its key."""
        event = self._changes.get(timeout=30)
        if event is None or isinstance(event, gossamer.Lost):
            return ""  # of a logger that has not kept everything
        key = event.subject.removeprefix("state.")
        self.values[key] = json.loads(event.payload)
        return key


def main(key: str, value: float) -> None:
    """Set a value, and print what all have set."""
    with gossamer.join_sync("shared-state") as group:
        state = SharedState(group)
        state.catch_up()
        state.set(key, value)
        while state.values.get(key) != value:
            state.apply_next()
        print(json.dumps(state.values, sort_keys=True))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
