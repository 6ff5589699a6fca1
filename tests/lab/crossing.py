"""A command for a lab of two hosts: each sends BYTES to the other, and records FACTOR times as many as crossing."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from pathlib import Path
from time import sleep


def called(address: str, count: int) -> None:
    """Send so many bytes there, once somebody listens."""
    while True:
        try:
            with socket.create_connection((address, 5000)) as line:
                line.sendall(bytes(count))
                line.shutdown(socket.SHUT_WR)
                return
        except ConnectionRefusedError:
            sleep(0.02)


def main(count: int, factor: float) -> None:
    """Talk, then write what a member's journal would hold."""
    host = int(os.environ["GOSSAMER_HOST"])
    with socket.create_server((f"host-{host}", 5000)) as door:
        caller = threading.Thread(target=called, args=(f"host-{1 - host}", count))
        caller.start()
        with door.accept()[0] as line:
            while line.recv(1 << 16):
                pass
        caller.join()
    journal = Path(os.environ["GOSSAMER_JOURNAL"]) / f"journal-{host}.jsonl"
    journal.parent.mkdir(parents=True, exist_ok=True)
    half = int(count * factor / 2)
    lines = [{"kind": "header"}, {"kind": "step", "crossed": {"0": half}}, {"kind": "step", "crossed": {"1": half}}]
    journal.write_text("\n".join(map(json.dumps, lines)) + '\n{"kind": "step", "cro')  # and one torn


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
