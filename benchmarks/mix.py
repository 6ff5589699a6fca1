"""Seconds of a shared-memory mix against gloo's all-reduce of the same numbers, by workers and by size.

Run `python benchmarks/mix.py`: real processes with one thread each. A repeat plays every variant once, in shuffled
order, so that a drift of the machine meets all alike; how often a variant is looped is measured by one worker and told
to the others. A ratio is the mean of the repeat's two gloo runs over the variant; the first gloo run over the second is
the control: as far as it strays from 1, any ratio may stray by itself. `once` leaves one shared result, `every` leaves
it in every slot, both with the numbers in the slots already; `+ load` copies them in first, scaled and checked.
The bars: once at least 10 below 1 MB and 7 from there; every at least 5; at 100 MB two workers' `once` moves at least
0.6 of the bytes a second that `torch.add(a, b, out=c)` moves in two processes at once.
"""

from __future__ import annotations

import multiprocessing
import random
import sys
import tempfile
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Callable
from multiprocessing.queues import SimpleQueue
from statistics import median
from time import perf_counter
from typing import Any

import torch
import torch.distributed as dist

from gossamer.engine.shared import Into, Lane, kernel

WORLDS, SIZES = (2, 4, 8), (4096, 65536, 1 << 20, 16 << 20, 100 << 20)
REPEATS, SECONDS = 7, 0.05  # of every variant; a run of it lasts about as long
VARIANTS = ("gloo", "gloo again", "once", "every", "once + load", "every + load")
ADD_BAR = 0.6
Times = dict[str, list[float]]


def prepared(member: int, world: int, size: int, store: dist.Store) -> dict[str, Callable[[], Any]]:
    """One call of each variant on buffers of its own."""
    count = size // 4
    ours, other, out = (torch.empty(count).fill_(0.0) for _ in range(3))
    lane = Lane.open(store, f"{world} {size}", member, world, count, torch.float32, shared=True)

    def loaded(into: Into) -> None:
        lane.load(0, [ours], 0.5)
        lane.mix(0, into)

    calls: dict[str, Callable[[], Any]] = {
        "gloo": lambda: dist.all_reduce(ours),
        "gloo again": lambda: dist.all_reduce(ours),
        "once": lambda: lane.mix(0, Into.ONCE),
        "every": lambda: lane.mix(0, Into.EVERY),
        "once + load": lambda: loaded(Into.ONCE),
        "every + load": lambda: loaded(Into.EVERY),
    }
    return calls | ({"add": lambda: torch.add(ours, other, out=out)} if world == 2 else {})


def timed(call: Callable[[], Any], loops: int) -> float:
    """Seconds a call, as the slowest worker sees it."""
    dist.barrier()
    began = perf_counter()
    for _ in range(loops):
        call()
    spent = torch.tensor((perf_counter() - began) / loops, dtype=torch.float64)
    dist.all_reduce(spent, dist.ReduceOp.MAX)
    return spent.item()


def measured(calls: dict[str, Callable[[], Any]], options: Namespace) -> Times:
    """Seconds of every variant, repeat by repeat, after a run to warm up that also says how long one takes."""
    loops, times, order = {}, {name: [] for name in calls}, random.Random(0)  # the same order on every worker
    for name, call in calls.items():
        timed(call, 2)
        loops[name] = max(2, min(2000, int(options.seconds / timed(call, 3))))  # equal: the slowest one's seconds
    for _ in range(options.repeats):
        for name in order.sample(list(calls), len(calls)):
            times[name].append(timed(calls[name], loops[name]))
    return times


def work(member: int, world: int, folder: str, options: Namespace, results: SimpleQueue[Any]) -> None:
    """A worker's part."""
    torch.set_num_threads(1)
    kernel.force(options.kernel)
    store = dist.FileStore(f"{folder}/{world}", world)
    dist.init_process_group("gloo", store=dist.PrefixStore("gloo", store), rank=member, world_size=world)
    for size in options.sizes:
        times = measured(prepared(member, world, size, store), options)
        if member == 0:
            results.put((world, size, kernel.in_use(), times))
    dist.barrier()
    dist.destroy_process_group()


def told(base: list[float], times: list[float], bar: float | None) -> tuple[str, bool]:
    """A column: median ratio, its spread, and whether the bar is held."""
    ratios = [one / other for one, other in zip(base, times, strict=True)]
    held = bar is None or median(ratios) >= bar
    spread = f"{min(ratios):.3g}-{max(ratios):.3g}"
    return f"{median(ratios):8.3g} {spread:>11}{' ' if held else '!'}", held


def report(world: int, size: int, times: Times) -> bool:
    """Print one line; returns whether every bar is held."""
    base = [(a + b) / 2 for a, b in zip(times["gloo"], times["gloo again"], strict=True)]
    bars = {"once": 10 if size < 1 << 20 else 7, "every": 5}
    control, _ = told(times["gloo"], times["gloo again"], None)
    columns = [told(base, times[name], bars.get(name)) for name in VARIANTS[2:]]
    print(f"{world:7} {size // 1024:9,} KB {median(base) * 1e6:12,.0f} {control}{''.join(text for text, _ in columns)}")
    return all(held for _, held in columns)


def bandwidth(size: int, times: Times) -> bool:
    """The mix of two workers against additions in two processes, in bytes a second; a mix moves half as many."""
    shares = [add / (2 * once) for add, once in zip(times["add"], times["once"], strict=True)]
    rate = 3 * size / median(times["once"]) / 1e9
    held = median(shares) >= ADD_BAR
    print(
        f"two workers' once at {size >> 20} MB moves {rate:.1f} GB/s, {median(shares):.2f} of two additions at once "
        f"({min(shares):.2f} to {max(shares):.2f}), the bar is {ADD_BAR}: {'held' if held else 'MISSED'}"
    )
    return held


def played(world: int, folder: str, options: Namespace) -> list[tuple[int, int, str, Times]]:
    """Start the workers of one world and hear what worker 0 found."""
    spawn = multiprocessing.get_context("spawn")
    results = spawn.SimpleQueue()
    workers = [spawn.Process(target=work, args=(m, world, folder, options, results)) for m in range(world)]
    for worker in workers:
        worker.start()
    found = [results.get() for _ in options.sizes]
    for worker in workers:
        worker.join()
    return found


def main() -> int:
    """Measure all; exit code 1 if a bar is missed."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, nargs="+", default=WORLDS)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="bytes")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="that one run of a variant should last")
    parser.add_argument("--kernel", choices=("compiled", "torch"), help="the better one that is there, unless told")
    options = parser.parse_args()
    print(
        f"times faster than gloo: median of {options.repeats} repeats, lowest-highest; ! is below its bar; one thread"
    )
    print(f"workers         size      gloo us {'control':>20}" + "".join(f"{name:>21}" for name in VARIANTS[2:]))
    held, in_use = True, ""
    with tempfile.TemporaryDirectory() as folder:
        for world in options.worlds:
            for _, size, used, times in played(world, folder, options):
                held, in_use = held & report(world, size, times), used
                if world == 2 and size >= 100 << 20:
                    held &= bandwidth(size, times)
    print(f"loops: {in_use}; {'all bars held' if held else 'a bar was MISSED'}")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
