"""Bills that are each written, even if this program is killed in between: it goes on where its last commit was.

    gossamer logger shop --store shop.log &
    gossamer pub shop order.placed --count 10
    python examples/durable_billing.py bills 4    # bills four orders, and stops
    python examples/durable_billing.py bills 6    # bills the other six

At least once: an order may come again, after a crash, or because it shares a packet with one that was not committed. So
a bill has the name of its order, and an order that was billed is not billed again.
"""

import sys
from pathlib import Path

import gossamer


def bill(folder: Path, order: gossamer.Event) -> bool:
    """Write the bill of an order; returns False if that was done before."""
    path = folder / f"{order.sender}-{order.payload.decode()}.txt"
    if path.exists():
        return False
    path.write_text(f"order {order.payload.decode()} of {order.sender}\n")
    return True


def main(folder: Path, wanted: int) -> None:
    """Bill this many orders, then stop."""
    folder.mkdir(exist_ok=True)
    with gossamer.join_sync("shop") as group:
        orders = group.subscribe("order.placed", durable="billing", start="beginning")
        while wanted:
            order = orders.get()
            if order is None or isinstance(order, gossamer.Lost):
                raise SystemExit(f"cannot bill what is not there: {order}")
            if bill(folder, order):
                print(f"billed order {order.payload.decode()}", flush=True)
                wanted -= 1
            orders.commit()  # goes to the loggers while the next order is billed


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
