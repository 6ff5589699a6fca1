"""Seconds of a training step under stock DDP with its own compressing hooks, with ours, and under `gossamer.prepare`.

Run `python benchmarks/hooks.py` on a quiet machine: two processes over gloo on loopback, one thread each, variants in
shuffled turns within one run. `half` and `PowerSGD` (rank 2) are torch's hooks, `ours ...` the same codecs by
`gossamer.as_comm_hook`, `prepared ...` by `gossamer.prepare`. The bar: PowerSGD of ours at least as fast as torch's.
All have one bucket, as over gloo torch's own PowerSGD hook waits for ever with two: its callbacks wait for each other.
Loopback is no link: here compression can only lose against `dense`, and what it costs is what is seen.
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

import torch
import torch.distributed as dist
from step import Turn, made, ratios, timed
from torch.nn.parallel import DistributedDataParallel

VARIANTS = ("dense", "half", "ours half", "PowerSGD", "ours PowerSGD", "prepared PowerSGD", "ours one bit", "ours dgc")
ONE = 1000  # megabytes, more than any model here: with two buckets torch's PowerSGD hook stands still over gloo
OURS = {"ours half": "half", "ours PowerSGD": "powersgd", "ours one bit": "one_bit", "ours dgc": "dgc"}


def variant(name: str, kind: str) -> Turn:
    """One step of a variant."""
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    import gossamer

    model, optimizer, step, loop = made(name)
    if kind == "prepared PowerSGD":
        gossamer.prepare(model, optimizer, strategy="powersgd")
        return step
    wrapped = DistributedDataParallel(model, broadcast_buffers=False, bucket_cap_mb=ONE)
    if kind == "half":
        wrapped.register_comm_hook(None, default_hooks.fp16_compress_hook)
    if kind == "PowerSGD":
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2)
        wrapped.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    if kind in OURS:
        wrapped.register_comm_hook(None, gossamer.as_comm_hook(OURS[kind]))
    return loop(wrapped)


def worker(name: str, repeats: int, seconds: float) -> None:
    """Time the variants of one model in turns; rank 0 prints seconds per step as JSON."""
    torch.set_num_threads(1)
    store = dist.FileStore(os.environ["STORE"], 2)
    dist.init_process_group("gloo", store=store, rank=int(os.environ["RANK"]), world_size=2)
    turns = {kind: variant(name, kind) for kind in VARIANTS}
    for step in turns.values():
        for _ in range(4):
            step()
    count = torch.tensor([max(3, int(seconds / timed(turns["dense"], 4)))])
    dist.broadcast(count, 0)
    found: dict[str, list[float]] = {kind: [] for kind in VARIANTS}
    for repeat in range(repeats):
        for kind in random.Random(repeat).sample(VARIANTS, len(VARIANTS)):
            found[kind].append(timed(turns[kind], int(count)))
    if dist.get_rank() == 0:
        print(json.dumps(found), flush=True)
    dist.barrier()
    os._exit(0)


def measured(name: str, repeats: int, seconds: float) -> dict[str, list[float]]:
    """Start the workers of one case and read what rank 0 found."""
    with tempfile.TemporaryDirectory() as folder:
        env = {
            **os.environ, "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "STORE": f"{folder}/store",
            "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo",
        }  # fmt: skip
        command = [sys.executable, __file__, "--worker", name, "--repeats", str(repeats), "--seconds", str(seconds)]
        pipe = subprocess.PIPE
        started = [
            subprocess.Popen(command, env={**env, "RANK": str(rank)}, stdout=pipe, stderr=pipe, text=True)
            for rank in range(2)
        ]
        said = [process.communicate(timeout=1200) for process in started]
    if any(process.returncode for process in started):
        raise SystemExit("\n".join(err for _, err in said))
    found: dict[str, list[float]] = json.loads(said[0][0].splitlines()[-1])
    return found


def main() -> None:
    """Print milliseconds a step of every variant, and ours over torch's; 1 if the bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=["mlp", "resnet18"])
    parser.add_argument("--repeats", type=int, default=11)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        worker(given.worker, given.repeats, given.seconds)
    missed = []
    for name in given.models:
        times = measured(name, given.repeats, given.seconds)
        print(f"{name}: ms a step, median (least..most)")
        for kind in VARIANTS:
            low, middle, high = (1000 * f(times[kind]) for f in (min, statistics.median, max))
            print(f"  {kind:18} {middle:7.1f} ({low:.1f}..{high:.1f})")
        for kind in ("ours PowerSGD", "prepared PowerSGD"):
            gains = ratios(times, kind, "PowerSGD")
            print(f"  {kind} / torch's: {statistics.median(gains):.3f}x ({min(gains):.2f}..{max(gains):.2f})")
            missed += [f"{name}: {kind} {statistics.median(gains):.3f}x"] if statistics.median(gains) < 1.0 else []
    print("the bar is held" if not missed else "MISSED: " + "; ".join(missed))
    raise SystemExit(bool(missed))


if __name__ == "__main__":
    main()
