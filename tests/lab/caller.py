"""What hosts say to each other: `serve ADDRESS PORT` hears messages, `send ADDRESS COUNT TIMES [PORT]` times them."""

from __future__ import annotations

import socket
import sys
from statistics import median
from time import perf_counter, sleep

PAUSE = 0.003  # seconds between messages, in which a link's buckets fill


def serve(address: str, port: int) -> None:
    """Answer each message with one byte once it is whole; for one caller after the other."""
    with socket.create_server((address, port)) as door:
        print("ready", flush=True)
        while True:
            line, _ = door.accept()
            with line:
                hear(line)


def hear(line: socket.socket) -> None:
    """Hear messages, each with its length first, until the caller leaves."""
    room = bytearray(1 << 20)
    while head := line.recv(8):
        left = int.from_bytes(head, "big")
        while left:
            left -= line.recv_into(room, min(left, len(room)))
        line.sendall(b".")


def send(address: str, count: int, times: int, port: int = 5000) -> None:
    """Print the median seconds of a message so long, from its beginning to the answer; the first only warms up."""
    message, spans = bytes(count), []
    with socket.create_connection((address, port), timeout=20) as line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(times + 1):
            sleep(PAUSE)
            began = perf_counter()
            line.sendall(count.to_bytes(8, "big"))
            line.sendall(message)
            line.recv(1)
            spans.append(perf_counter() - began)
    print(median(spans[1:]))


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[3:]]
    serve(sys.argv[2], *numbers) if sys.argv[1] == "serve" else send(sys.argv[2], *numbers)
