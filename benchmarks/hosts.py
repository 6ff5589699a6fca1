"""All-reduces between hosts with shaped links: seconds by route and length, against flat gloo and the link's bound.

    python benchmarks/hosts.py [--hosts 4] [--workers 2] [--rates 200mbit 1gbit] [--sizes 65536 ...] [--repeats 5]

Hosts are network namespaces (`gossamer.lab`), so this needs root. One process tells all workers what to play, in a
shuffled order, and reads every host's interface before and after: a row counts only if the bytes on the wire are the
bytes that were recorded, within 10 %. `flat` is gloo's all-reduce over all workers, the peer; `flat again` the control.
`direct` is the direct all-reduce among masters on the hosts fabric, `auto` that fabric with the way it chose; the
bound is 2 (H-1)/H x bytes / rate.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

SIZES = (64 << 10, 1 << 20, 16 << 20, 64 << 20)
PEERS = ("flat", "flat again")
ROUTES = ("ring", "halving-doubling", "doubling", "blocks", "tree")
OURS = ("hierarchical", "direct", "torus", "auto")
SECONDS = 0.25  # a turn of a short mix lasts about as long
HEADERS = 1.05  # what packets add to the bytes in them
SPARE = 200_000  # bytes a turn's meetings may take


def worker() -> None:
    """Play what is told on stdin; answer each turn with seconds and recorded bytes on stdout."""
    import torch
    import torch.distributed as dist

    from gossamer.engine.fabrics.fabric import Key
    from gossamer.engine.loop.carried import fabrics
    from gossamer.engine.loop.place import join
    from gossamer.parts.codec import Mean
    from gossamer.parts.route import (
        Auto,
        BinaryBlocks,
        Direct,
        Doubling,
        HalvingDoubling,
        Hierarchical,
        Hosts,
        Link,
        Native,
        Ring,
        Torus,
        Tree,
        cost_on,
    )  # fmt: skip

    torch.set_num_threads(1)
    place = join()
    per_host = len(place.hosts[0])
    fabric: Any = fabrics(place, "hosts", [])[0]()
    routes = {
        "flat": Native(), "flat again": Native(), "ring": Ring(), "halving-doubling": HalvingDoubling(),
        "doubling": Doubling(), "blocks": BinaryBlocks(), "tree": Tree(), "hierarchical": Hierarchical(per_host),
        "direct": Hierarchical(per_host, Direct()), "torus": Torus(per_host), "auto": Auto(),
    }  # fmt: skip
    bodies: dict[int, Any] = {}
    step = 0
    for line in sys.stdin:
        kind, nbytes, loops = json.loads(line)
        if nbytes not in bodies:
            bodies[nbytes] = fabric.lend(torch.zeros(nbytes // 4), [])
            bodies[nbytes].normal_()
        body = bodies[nbytes]
        dist.barrier()
        fabric.crossed.clear()
        began = time.perf_counter()
        for _ in range(loops):
            step += 1
            if kind in PEERS:
                dist.all_reduce(body)
            else:
                fabric.everyone(Key(0, step, 0, 0), Mean(body), routes[kind]).wait()
        dist.barrier()
        spent = (time.perf_counter() - began) / loops
        body.mul_(1e-3 if kind in PEERS else 1.0)
        choice, size = fabric.choice, place.size
        way = str(choice.best(nbytes)) if kind == "auto" else ""
        links = Hosts(per_host, Link(choice.start, choice.add), Link(choice.start, choice.byte), choice.add)
        model = choice.seconds(choice.best(nbytes), nbytes) if way else cost_on(links, routes[kind], size, nbytes)
        crossed = sum(fabric.crossed.values()) / loops
        if kind in PEERS:  # gloo does not tell: a ring of all workers, of which each host's last sends to the next host
            crossed = 0.0 if (place.member + 1) % per_host else 2 * nbytes * (size - 1) / size
        print(json.dumps({"seconds": spent, "crossed": crossed, "way": way, "model": model}), flush=True)
    os._exit(0)


class Crew:
    """The workers of all hosts, which do what they are told together."""

    def __init__(self, lab: Any, workers: int) -> None:
        self.lab, self.workers, hosts = lab, workers, len(lab.hosts)
        self.processes: list[subprocess.Popen[str]] = []
        for rank in range(hosts * workers):
            env = {
                "RANK": str(rank), "WORLD_SIZE": str(hosts * workers), "LOCAL_WORLD_SIZE": str(workers),
                "LOCAL_RANK": str(rank % workers), "GROUP_RANK": str(rank // workers), "OMP_NUM_THREADS": "1",
                "MASTER_ADDR": lab.hosts[0].address, "MASTER_PORT": "29500",
                "GLOO_SOCKET_IFNAME": lab.hosts[rank // workers].interface,
            }  # fmt: skip
            pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
            self.processes.append(lab.start(rank // workers, [sys.executable, __file__, "--worker"], env=env, **pipes))

    def play(self, kind: str, nbytes: int, loops: int) -> dict[str, Any]:
        """One turn on all workers; what it took, and the bytes of each host as recorded and as counted on its link."""
        before = self.lab.traffic()
        for process in self.processes:
            assert process.stdin is not None
            process.stdin.write(json.dumps([kind, nbytes, loops]) + "\n")
            process.stdin.flush()
        said = [json.loads(process.stdout.readline()) for process in self.processes if process.stdout is not None]
        time.sleep(0.02)
        after = self.lab.traffic()
        counted = [(b.sent - a.sent) / loops for a, b in zip(before, after, strict=True)]
        recorded = [
            sum(s["crossed"] for s in said[h * self.workers : (h + 1) * self.workers]) for h in range(len(after))
        ]
        off = max(abs(c - HEADERS * r) - SPARE / loops for c, r in zip(counted, recorded, strict=True))
        worst = max(recorded) or 1.0
        return {**said[0], "recorded": max(recorded), "counted": max(counted), "agree": off <= 0.10 * worst}


@contextmanager
def crew(hosts: int, workers: int, rate: str) -> Iterator[Crew]:
    """A lab with workers on its hosts."""
    from gossamer.lab import Lab

    with Lab(hosts, rate) as lab:
        yield Crew(lab, workers)


def case(found: Crew, nbytes: int, repeats: int, bound: float) -> dict[str, list[dict[str, Any]]]:
    """All variants of one length in turns; routes that take much longer than the bound are played fewer times."""
    order, turns = random.Random(nbytes), dict[str, list[dict[str, Any]]]()
    kinds = [*PEERS, *ROUTES, *OURS]
    loops = {}
    for kind in kinds:
        found.play(kind, nbytes, 1)
        once = found.play(kind, nbytes, 1)["seconds"]
        loops[kind] = max(1, min(50, int(SECONDS / once)))
    for repeat in range(repeats):
        for kind in order.sample(kinds, len(kinds)):
            if kind in ROUTES and repeat and bound > 1.0:
                continue
            turns.setdefault(kind, []).append(found.play(kind, nbytes, loops[kind]))
    return turns


def told(nbytes: int, rate: str, bound: float, turns: dict[str, list[dict[str, Any]]]) -> list[str]:
    """Print one length's table; what missed its bar."""
    print(f"\n{nbytes >> 10:,} KB at {rate}: bound {1e3 * bound:.2f} ms")
    titles = {
        "ms": 9,
        "lowest..highest": 20,
        "flat/it": 9,
        "of bound": 9,
        "model ms": 10,
        "MB crossed": 12,
        "counted": 9,
    }
    print(f"{'route':18}" + "".join(f"{title:>{width}}" for title, width in titles.items()))
    missed = []
    flat = [turn["seconds"] for kind in PEERS for turn in turns[kind]]
    for kind, played in turns.items():
        times = [turn["seconds"] for turn in played]
        ratio, share = median(flat) / median(times), bound / median(times)
        crossed, counted = played[0]["recorded"] / 1e6, median([turn["counted"] for turn in played]) / 1e6
        agree = all(turn["agree"] for turn in played)
        spread = f"{1e3 * min(times):.2f}..{1e3 * max(times):.2f}"
        print(
            f"{kind:18}{1e3 * median(times):9.2f}{spread:>20}{ratio:9.2f}{share:9.2f}{1e3 * played[0]['model']:10.2f}"
            f"{crossed:12.2f}{counted:9.2f}{'' if agree else '  BYTES DISAGREE'}  {played[0]['way']}",
            flush=True,
        )
        if not agree:
            missed.append(f"{kind} {nbytes >> 10} KB {rate}: bytes on the wire are not those recorded")
        if kind == "auto":
            bar = 3.0 if nbytes <= 1 << 16 else 1.8 if nbytes <= 1 << 20 else 1.1
            missed += [f"auto {nbytes >> 10} KB {rate}: {ratio:.2f}x flat gloo (bar {bar})"] if ratio < bar else []
            if nbytes >= 16 << 20 and share < 0.85:
                missed.append(f"auto {nbytes >> 10} KB {rate}: {share:.2f} of the bound (bar 0.85)")
    return missed


def main() -> None:
    """Run all cases; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2, help="on each host")
    parser.add_argument("--rates", nargs="+", default=["200mbit", "1gbit"])
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES), help="bytes")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        worker()
    missed = []
    for rate in given.rates:
        with crew(given.hosts, given.workers, rate) as found:
            for nbytes in given.sizes:
                bound = 2 * (given.hosts - 1) / given.hosts * nbytes * 8 / found.lab.bits
                missed += told(nbytes, rate, bound, case(found, nbytes, given.repeats, bound))
    print("\nall bars held" if not missed else "\nMISSED: " + "; ".join(missed))
    raise SystemExit(bool(missed))


if __name__ == "__main__":
    main()
