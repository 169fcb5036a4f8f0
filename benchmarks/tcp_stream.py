"""One TCP connection that sends as fast as it can, as something to share a bottleneck with.

The sink answers every line of its input with the bytes that it has received so far; both sides end with their input.

    python benchmarks/tcp_stream.py sink|source ADDRESS PORT [CONGESTION-CONTROL]
"""

import json
import os
import socket
import sys
import threading
import time

PIECE = 1 << 16
CONNECT_TIMEOUT_S = 10.0


class Sink:
    """Receives and counts."""

    def __init__(self, address: str, port: int) -> None:
        self.received = 0
        self._server = socket.create_server((address, port))

    def run(self) -> None:
        """Count until the other side is gone."""
        connection, _ = self._server.accept()
        while data := connection.recv(PIECE):
            self.received += len(data)


def send(address: str, port: int, control: str) -> None:
    """Send for ever, with the congestion control that is named, or else the machine's."""
    connection = socket.create_connection((address, port), CONNECT_TIMEOUT_S)
    connection.settimeout(None)
    if control:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, control.encode("ascii"))
    while True:
        connection.sendall(bytes(PIECE))


def main() -> None:
    """Serve until the input ends."""
    role, address, port, control = sys.argv[1], sys.argv[2], int(sys.argv[3]), "".join(sys.argv[4:])
    sink = Sink(address, port) if role == "sink" else None
    work = sink.run if sink else lambda: send(address, port, control)
    threading.Thread(target=work, daemon=True).start()
    print(json.dumps({"ready": True}), flush=True)
    while sys.stdin.readline():
        print(json.dumps({"bytes": sink.received if sink else 0, "at": time.monotonic_ns()}), flush=True)
    os._exit(0)  # the thread waits in a call


if __name__ == "__main__":
    main()
