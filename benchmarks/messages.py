"""Seconds of push, update and pull of a model's bytes between two members, by keyed messages and without keys.

Run `python benchmarks/messages.py [--rate 1gbit]`: two processes, on loopback, or as root on two hosts of a lab whose
links are held to the rate. One member computes (matrix products in its main thread) and serves from another thread: it
takes a push, adds it to its centre and replies with a copy of that. The other pushes and hears, over and over. `keyed`
is the messages fabric; `bare` are ZeroMQ sockets without keys and the same pieces, the most that keys could leave.
Variants are played in turn; medians are told. Of a link's rate, counted in bytes of numbers, `keyed` must reach 0.85.
The compute share is the server's products per second while it serves, against those while nobody asks.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from time import perf_counter

import torch
import torch.distributed as dist
import zmq

from gossamer.engine.lines import ANSWER, BYE, PUSH
from gossamer.engine.messages import secret
from gossamer.engine.messages.frame import PIECE
from gossamer.engine.messages.here import Here
from gossamer.engine.messages.lines import Messages
from gossamer.lab import Lab, bits_per_second

BAR = 0.85
VARIANTS = ("keyed", "bare")
Visit = Callable[[torch.Tensor, torch.Tensor], None]  # push a tensor, hear one


class Bare:
    """ZeroMQ without keys, heartbeats or headers: pieces of a known body, one way and back."""

    def __init__(self, member: int, address: str, store: dist.Store) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.PAIR)
        self._socket.set(zmq.SNDHWM, 0)
        if member == 0:
            port = self._socket.bind_to_random_port(f"tcp://{address}")
            store.set("bare", f"tcp://{address}:{port}")
        else:
            self._socket.connect(store.get("bare").decode())

    def say(self, body: torch.Tensor) -> None:
        data, tracker = body.view(torch.uint8).numpy().data, None
        for offset in range(0, len(data), PIECE):
            tracker = self._socket.send(data[offset : offset + PIECE], copy=False, track=True)
        assert tracker is not None
        tracker.wait()

    def hear(self, body: torch.Tensor) -> int:
        data = body.view(torch.uint8).numpy().data
        return min(self._socket.recv_into(data[offset : offset + PIECE]) for offset in range(0, len(data), PIECE))

    def close(self) -> None:
        self._socket.close()
        self._context.term()


def serve(lines: Messages, bare: Bare, asked: Namespace) -> None:
    """Be a hub in the way of each variant, as often as the other member visits."""
    centre, told = torch.zeros(asked.bytes // 4), torch.zeros(asked.bytes // 4)
    while (said := lines.asked()).kind != BYE:
        if said.kind == PUSH and said.body is not None and said.body.numel() > 1:
            lines.reply(1, ANSWER, body=centre.add_(said.body, alpha=0.1).clone())
        else:
            bare.hear(told)
            bare.say(centre.add_(told, alpha=0.1).clone())


def products(seconds: float, until: Callable[[], bool] = lambda: False) -> float:
    """Matrix products per second."""
    a, count, began = torch.randn(256, 256), 0, perf_counter()
    while perf_counter() - began < seconds and not until():
        torch.mm(a, a)
        count += 1
    return count / (perf_counter() - began)


def server(lines: Messages, bare: Bare, asked: Namespace, store: dist.Store) -> dict[str, float]:
    """Compute alone, then while serving the keyed visits: how much of it is left."""
    alone = products(1.0)
    serving = threading.Thread(target=serve, args=(lines, bare, asked))
    serving.start()
    store.set("begin", "1")
    store.wait(["keyed"])
    busy = products(60.0, lambda: not serving.is_alive())
    serving.join()
    return {"compute share": busy / alone}


def client(lines: Messages, bare: Bare, asked: Namespace, store: dist.Store) -> dict[str, float]:
    """The median seconds of a visit, by variant: first in turn while the server idles, then keyed while it computes."""
    body, heard, mark = torch.randn(asked.bytes // 4), torch.zeros(asked.bytes // 4), torch.zeros(1)

    def keyed() -> None:
        lines.ask(0, PUSH, body=body)
        assert lines.heard(0).body is not None

    def plain() -> None:
        lines.ask(0, PUSH, body=mark)
        bare.say(body)
        bare.hear(heard)

    store.wait(["begin"])
    seconds: dict[str, list[float]] = {name: [] for name in VARIANTS}
    for _ in range(asked.repeats + 1):
        for name, visit in zip(VARIANTS, (keyed, plain), strict=True):
            seconds[name].append(timed(visit))
    store.set("keyed", "1")
    busy = [timed(keyed) for _ in range(asked.repeats)]
    lines.ask(0, BYE)
    return {**{name: median(found[1:]) for name, found in seconds.items()}, "keyed while it computes": median(busy)}


def timed(visit: Callable[[], None]) -> float:
    began = perf_counter()
    visit()
    return perf_counter() - began


def play(asked: Namespace) -> None:
    """One member's part; prints what it found."""
    torch.set_num_threads(1)
    store = dist.FileStore(f"{asked.folder}/store", 2)
    here = Here(asked.member, asked.address, 0, f"{asked.folder}/key")
    lines = Messages.open(store, "benchmark", asked.member, 2, asked.bytes, here)
    bare = Bare(asked.member, asked.address, store)
    print(json.dumps((server if asked.member == 0 else client)(lines, bare, asked, store)), flush=True)
    lines.close()
    bare.close()


def measure(asked: Namespace) -> dict[str, float]:
    """Both members' findings, from two processes of one host or of a lab's two."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as open_:
        secret.made(Path(folder) / "key")
        lab = None if asked.rate is None else open_.enter_context(Lab(hosts=2, rate=asked.rate))
        parts = []
        for member in (0, 1):
            address = "127.0.0.1" if lab is None else lab.hosts[member].address
            words = ["--folder", folder, "--member", str(member), "--address", address]
            words += ["--bytes", str(asked.bytes), "--repeats", str(asked.repeats)]
            command, pipe = [sys.executable, __file__, *words], subprocess.PIPE
            start = subprocess.Popen if lab is None else lambda c, lab=lab, m=member, **how: lab.start(m, c, **how)
            parts.append(start(command, stdout=pipe, text=True))
        before = None if lab is None else lab.traffic()
        found: dict[str, float] = {}
        for part in parts:
            found |= json.loads(part.communicate(timeout=600)[0])
        if lab is not None and before is not None:
            visits = 2 * (asked.repeats + 1) + asked.repeats
            for host, (now, then) in enumerate(zip(lab.traffic(), before, strict=True)):
                found[f"bytes of host {host} on its link / predicted"] = (now - then).sent / (visits * asked.bytes)
    return found


def main() -> None:
    """Measure and tell; the exit code says whether the bar was held."""
    reader = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    reader.add_argument("--rate", help="of the links of two hosts, such as 1gbit; loopback without it")
    reader.add_argument("--bytes", type=int, default=23_000_000)
    reader.add_argument("--repeats", type=int, default=7)
    for name, kind in (("--folder", str), ("--member", int), ("--address", str)):
        reader.add_argument(name, type=kind)
    asked = reader.parse_args()
    if asked.member is not None:
        play(asked)
        return
    found = measure(asked)
    for name in (*VARIANTS, "keyed while it computes"):
        moved = 2 * asked.bytes / found[name]
        share = "" if asked.rate is None else f"  {8 * moved / bits_per_second(asked.rate):.2f} of the link's rate"
        print(f"{name:24} {found[name] * 1e3:8.1f} ms {moved / 1e6:7.0f} MB/s{share}")
    for name, value in found.items():
        if "share" in name or "link" in name:
            print(f"{name:44} {value:.3f}")
    if asked.rate is not None:
        held = 16 * asked.bytes / found["keyed"] / bits_per_second(asked.rate) >= BAR
        print(f"keyed reaches {BAR} of the rate: {'yes' if held else 'NO'}")
        sys.exit(0 if held else 1)


if __name__ == "__main__":
    main()
