"""Whole training steps against DDP: ratios from one interleaved run, with A/A controls and the ceiling.

    python benchmarks/step.py [--models cnn mlp resnet18 gpt] [--workers 2 4] [--repeats 21] [--seconds 0.25]

Every worker is one process with one thread. Variants take turns in a shuffled order, the same on every worker; how many
steps a turn has is decided by one of them. Compute only: all workers at once, nothing exchanged. DDP: the better of
default and gradient_as_bucket_view, neither broadcasting buffers, as ours does not. The same SGD with momentum for all.
Ours: `gossamer.prepare` in a user's loop; named sharded: the same with route=sharded; sharded: our own loop, as
`gossamer train` plays it, in which nobody looks at gradients between backward and step. Bare: compute only, and a plain
all-reduce in memory, once backward is over: copy the gradients where others see them, sum a share, write it to
everybody; no hooks, buckets or votes. Ours copies less: what a member sums itself stays where autograd made it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from math import prod

import torch
import torch.distributed as dist
from models import MODELS
from torch import nn
from torch.nn.parallel import DistributedDataParallel

VARIANTS = (
    "compute", "compute again", "ddp", "ddp again", "ddp bucket view", "bare", "ours", "ours again", "named",
    "sharded", "sharded again",
)  # fmt: skip
BARS = {"ours": 1.15, "sharded": 1.22}
Turn = Callable[[], None]


def made(name: str) -> tuple[nn.Module, torch.optim.Optimizer, Turn, Callable[[nn.Module], Turn]]:
    """A model, its optimizer, and how a step of a loop over it goes."""
    torch.manual_seed(0)
    model, inputs, labels = MODELS[name]()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    def loop(called: nn.Module) -> Turn:
        def step() -> None:
            optimizer.zero_grad()
            nn.functional.cross_entropy(called(inputs), labels).backward()
            optimizer.step()

        return step

    return model, optimizer, loop(model), loop


def bare(name: str) -> Turn:
    """Compute only, with gradients copied into shared memory and mixed there once backward is over."""
    from gossamer.engine.shared import Lane

    model, inputs, labels = MODELS[name]()
    tensors = list(model.parameters())
    optimizer = torch.optim.SGD(tensors, lr=1e-3, momentum=0.9)
    sizes, store = [tensor.numel() for tensor in tensors], dist.distributed_c10d._get_default_store()
    lane = Lane.open(store, "bare", dist.get_rank(), dist.get_world_size(), sum(sizes), torch.float32)
    mixed = [part.view(tensor.shape) for part, tensor in zip(lane.mine.split(sizes), tensors, strict=True)]
    made: list[torch.Tensor | None] = []  # kept until the next step, as ours are: freed at once, they fault again

    def step() -> None:
        made.clear()
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        made.extend(tensor.grad for tensor in tensors)
        lane.load(0, [grad.reshape(-1) for grad in made if grad is not None])
        lane.mix(0)
        for tensor, grad in zip(tensors, mixed, strict=True):
            tensor.grad = grad
        optimizer.step()

    return step


def variant(name: str, kind: str) -> Turn:
    """One step of a variant."""
    if kind == "bare":
        return bare(name)
    import gossamer
    from gossamer.engine.loop.opening import open_session
    from gossamer.engine.loop.place import join

    model, optimizer, step, loop = made(name)
    if kind.startswith("ddp"):
        view = kind == "ddp bucket view"
        return loop(DistributedDataParallel(model, gradient_as_bucket_view=view, broadcast_buffers=False))
    if kind.startswith("ours"):
        gossamer.prepare(model, optimizer, strategy="allreduce")
    if kind == "named":  # the sharded route in a user's loop, which mixes gradients in full for whoever looks at them
        gossamer.prepare(model, optimizer, strategy="allreduce(route=sharded)")
    if kind.startswith("sharded"):
        open_session(join(), [model], [optimizer], gossamer.parse("allreduce(route=sharded)"), ours=True)
    return step


def worker(name: str, repeats: int, seconds: float) -> None:
    """Time the variants of one model in turns; rank 0 prints seconds per step as JSON."""
    torch.set_num_threads(1)
    store = dist.FileStore(os.environ["STORE"], int(os.environ["WORLD_SIZE"]))
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    turns = {kind: variant(name, kind) for kind in VARIANTS}
    for step in turns.values():
        for _ in range(3):
            step()
    count = torch.tensor([max(3, int(seconds / timed(turns["ddp"], 4)))])
    dist.broadcast(count, 0)
    found: dict[str, list[float]] = {kind: [] for kind in VARIANTS}
    for repeat in range(repeats):
        order = list(VARIANTS)
        random.Random(repeat).shuffle(order)
        for kind in order:
            found[kind].append(timed(turns[kind], int(count)))
    if rank == 0:
        print(json.dumps({"times": found, "steps": int(count)}), flush=True)
    dist.barrier()
    os._exit(0)


def timed(step: Turn, count: int) -> float:
    """Seconds per step of `count` steps, from when all begin until all are done."""
    step()
    dist.barrier()
    began = time.perf_counter()
    for _ in range(count):
        step()
    dist.barrier()
    return (time.perf_counter() - began) / count


def measured(name: str, workers: int, repeats: int, seconds: float) -> dict[str, list[float]]:
    """Start the workers of one case and read what rank 0 found."""
    with tempfile.TemporaryDirectory() as folder:
        env = {
            **os.environ, "WORLD_SIZE": str(workers), "LOCAL_WORLD_SIZE": str(workers), "STORE": f"{folder}/store",
            "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo",
        }  # fmt: skip
        command = [sys.executable, __file__, "--worker", name, "--repeats", str(repeats), "--seconds", str(seconds)]
        started = [
            subprocess.Popen(
                command, env={**env, "RANK": str(rank)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
            for rank in range(workers)
        ]
        said = [process.communicate(timeout=1200) for process in started]
    if any(process.returncode for process in started):
        raise SystemExit("\n".join(err for _, err in said))
    times: dict[str, list[float]] = json.loads(said[0][0].splitlines()[-1])["times"]
    return times


def ratios(times: dict[str, list[float]], kind: str, base: str) -> list[float]:
    """How much faster `kind` was than `base`, repeat by repeat."""
    return [b / k for b, k in zip(times[base], times[kind], strict=True)]


def main() -> None:
    """Run every case and print the table, the geometric means, and whether the bars are held; 1 if one is not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--workers", nargs="+", type=int, default=[2, 4])
    parser.add_argument("--repeats", type=int, default=21)
    parser.add_argument("--seconds", type=float, default=0.25)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        worker(given.worker, given.repeats, given.seconds)
    titles = ("ours/DDP", "named sharded/DDP", "sharded/DDP", "ceiling", "A/A DDP", "A/A ours", "A/A sharded")
    print(
        f"{'model':9}{'workers':>8}{'ms DDP':>9}" + "".join(f"{title:>21}" for title in titles) + "  over compute only"
    )
    gained: dict[str, list[float]] = {"ours": [], "sharded": [], "compute": []}
    missed = [
        line
        for workers in given.workers
        for name in given.models
        for line in row(name, workers, measured(name, workers, given.repeats, given.seconds), gained)
    ]
    means = {kind: prod(found) ** (1 / len(found)) for kind, found in gained.items()}
    missed += [f"{kind}: geometric mean {means[kind]:.3f}" for kind, bar in BARS.items() if means[kind] < bar]
    for kind, bar in BARS.items():
        print(f"{kind}: geometric mean {means[kind]:.3f}x DDP (bar {bar}x)")
    print(f"ceiling (compute only): {means['compute']:.3f}x DDP")
    print("all bars held" if not missed else "MISSED: " + "; ".join(missed))
    raise SystemExit(bool(missed))


def row(name: str, workers: int, times: dict[str, list[float]], gained: dict[str, list[float]]) -> list[str]:
    """Print one case; which of its bars are missed."""
    base = min(("ddp", "ddp bucket view"), key=lambda kind: statistics.median(times[kind]))

    def told(kind: str, against: str) -> str:
        found = ratios(times, kind, against)
        return f"{statistics.median(found):.3f} ({min(found):.2f}..{max(found):.2f})"

    for kind in gained:
        gained[kind].append(statistics.median(ratios(times, kind, base)))
    over = {kind: statistics.median(ratios(times, kind, "compute")) for kind in (*BARS, "bare")}
    pairs = [("ours", base), ("named", base), ("sharded", base), ("compute", base)]
    pairs += [("ddp again", "ddp"), ("ours again", "ours"), ("sharded again", "sharded")]
    print(
        f"{name:9}{workers:8}{1e3 * statistics.median(times[base]):9.1f}"
        + "".join(f"{told(*pair):>21}" for pair in pairs)
        + f"  ours {over['ours']:.3f}, bare {over['bare']:.3f}, sharded {over['sharded']:.3f}",
        flush=True,
    )
    spread = max(abs(ratio - 1.0) for ratio in ratios(times, "ddp again", "ddp"))
    missed = [f"{kind} {name} x{workers} below DDP" for kind in BARS if gained[kind][-1] < 1.0 - spread]
    least = {"ours": 0.75 if name == "mlp" else 0.90, "sharded": 0.90}
    return missed + [
        f"{kind} {name} x2 is {over[kind]:.3f} of compute only, a bare mix {over['bare']:.3f}"
        for kind in BARS
        if workers == 2 and over[kind] < least[kind]
    ]


if __name__ == "__main__":
    main()
