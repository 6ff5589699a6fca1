"""Relaxed synchrony on one host: what visits in shared memory cost, and what slow workers cost whom.

    python benchmarks/relaxed.py [--workers 4] [--repeats 21] [--seconds 8] [--parts memory steady wandering]

memory: four workers with the MLP of 5.8 M parameters, variants in turns, in a shuffled order. A gossip pull against a
plain copy of a partner's parameters (bar 1.25): one after the other within a turn, in seconds of the processor, for
four workers share what cores there are and a call of two milliseconds may be set aside for ten; the clock's seconds are
shown beside them, and `copy own`, of this member's own parameters. A step at an asynchronous server (push, update,
pull) against a step of the shared-memory all-reduce (exchange, update), without and with the compute around them, by
the clock, for there one waits for others (bar 1.25).
steady, wandering: every step computes real gradients, then sleeps until it has lasted 100 ms; a slow one lasts 500 ms.
Worker-rates are steps of all workers a second, over those of one that is not slow: with one always slow, four can
give 3.2, and who waits for it gives 0.8. Wandering: each worker in turn is slow for four steps.
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
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import torch
import torch.distributed as dist
from models import MODELS
from torch import nn

STEP, SLOW, SPELL = 0.1, 5, 4  # seconds of a padded step; how many times slower; for how many steps
VISITS = ("copy", "pull", "copy again", "copy own")  # one after the other in a turn
VARIANTS = ("allreduce", "async server", "allreduce step", "async server step")
RATES = {
    "all-reduce": "allreduce", "async server": "hogwild", "ssp(8)": "ssp(8)", "gossip pull": "gossip_pull",
    "blocking gossip": "dpsgd",
}  # fmt: skip
EARLY = 6.0  # seconds that are not counted of who is free: as long as it takes until the slack of ssp is used up
FREE = ("async server", "gossip pull", "ssp(8)")  # end by the clock; the others all at the same step


class Loop:
    """A model in a loop with a strategy; parts of its step can be timed by themselves."""

    def __init__(self, strategy: str) -> None:
        import gossamer
        from gossamer.engine.loop.opening import open_session
        from gossamer.engine.loop.place import join

        torch.manual_seed(0)
        self.model, self.inputs, self.labels = MODELS["mlp"]()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4)
        self.session = open_session(join(), [self.model], [self.optimizer], gossamer.parse(strategy))
        self.stepper = self.session.courses[0].strands[0].stepper

    def backward(self) -> None:
        """Gradients, and their exchange where backward makes it."""
        self.optimizer.zero_grad()
        nn.functional.cross_entropy(self.model(self.inputs), self.labels).backward()

    def step(self) -> None:
        """A whole step."""
        self.backward()
        self.optimizer.step()


def memory(repeats: int) -> dict[str, list[float]]:
    """Seconds of each variant, turn by turn."""
    from gossamer.engine.reach import Reach

    pulls, mixes, pushes = Loop("gossip_pull"), Loop("allreduce"), Loop("hogwild")
    for loop in (pulls, mixes, pushes):
        for _ in range(3):
            loop.step()
    there, exchange = pulls.stepper.replica.parameters, pulls.stepper.exchanges[0]
    scratch, rank, world = torch.empty_like(there), dist.get_rank(), pulls.stepper.world

    def met() -> Iterator[tuple[int, int]]:
        """The steps in which this member draws another one, not itself, and whom."""
        for step in count():
            drawn = exchange.topology.mixing(rank, exchange.round(step), world, 0)
            yield from ((step, other) for other in drawn.weights if other != rank)

    rounds, visits = met(), pulls.stepper.visits
    assert isinstance(visits, Reach)

    def pull() -> None:
        visits.meet(0, next(rounds)[0], pulls.stepper.note)

    def copy() -> None:
        scratch.copy_(visits.shelf.replicas[next(rounds)[1]])

    paired: dict[str, Callable[[], object]] = {
        "copy": copy, "pull": pull, "copy again": copy, "copy own": lambda: scratch.copy_(there),
    }  # fmt: skip
    turns: dict[str, Callable[[], float]] = {
        "allreduce": lambda: exchanged(mixes),
        "async server": lambda: exchanged(pushes),
        "allreduce step": lambda: spent(mixes.step),
        "async server step": lambda: spent(pushes.step),
    }
    found: dict[str, list[float]] = {kind: [] for kind in (*VISITS, *(f"{each}, clock" for each in VISITS), *VARIANTS)}
    for repeat in range(repeats):
        order = [*VARIANTS, "visits"]
        random.Random(repeat).shuffle(order)
        for kind in order:
            dist.barrier()
            if kind == "visits":
                for each, taken in visited(paired).items():
                    found[each].append(taken)
                continue
            turns[kind]()
            found[kind].append(statistics.median(turns[kind]() for _ in range(9)))
    for loop in (pulls, mixes, pushes):
        loop.session.close()
    return found


def visited(visits: dict[str, Callable[[], object]]) -> dict[str, float]:
    """Medians of seconds of the processor, and of the clock, of calls that are made one after the other."""
    taken: dict[str, list[float]] = {kind: [] for each in visits for kind in (each, f"{each}, clock")}
    for turn in range(22):
        for kind, what in visits.items():
            began, busy = time.perf_counter(), time.thread_time()
            what()
            if turn:
                taken[kind].append(time.thread_time() - busy)
                taken[f"{kind}, clock"].append(time.perf_counter() - began)
    return {kind: statistics.median(each) for kind, each in taken.items()}


def spent(what: Callable[[], object]) -> float:
    """Seconds it took."""
    began = time.perf_counter()
    what()
    return time.perf_counter() - began


def exchanged(loop: Loop) -> float:
    """Seconds of a step, but for the forward and the backward: those of exchange, waiting for others, and update."""
    from gossamer.records.summary import EXCHANGE

    course = loop.session.courses[0]
    loop.optimizer.zero_grad()
    loss = nn.functional.cross_entropy(loop.model(loop.inputs), loop.labels)
    records: list[Any] = []
    loop.session.watches[:] = [lambda _, record: records.append(record)]
    loss.backward()
    before = time.perf_counter()
    loop.optimizer.step()
    update = time.perf_counter() - before
    spans = records[0].spans
    inside = sum(spans[name] for name in EXCHANGE)
    hub = any(ex.hub for ex in course.strands[0].stepper.exchanges)
    return update if hub else inside + update


def padded(kind: str, seconds: float, wandering: bool) -> dict[str, Any]:
    """Worker-rates of all workers together, and whom their records name as slow."""
    from gossamer.records.summary import slowest

    loop, rank, size = Loop(RATES[kind]), dist.get_rank(), dist.get_world_size()
    records: list[Any] = []
    loop.session.watches.append(lambda _, record: records.append(record))
    loop.step()
    dist.barrier()
    began, steps, slept, since, before = time.perf_counter(), 0, 0.0, 0.0, 0
    most = 10**9 if kind in FREE else int(seconds / (STEP * SLOW))
    while steps < most and (kind not in FREE or time.perf_counter() - began < EARLY + seconds):
        if kind in FREE and not since and time.perf_counter() - began >= EARLY:
            since, before = time.perf_counter() - began, steps
        slow = (steps // SPELL) % size == rank if wandering else rank == 1
        own = records[-1].spans["compute"] - slept  # of the last step, without its padding
        loop.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(loop.model(loop.inputs), loop.labels)
        slept = max(0.0, STEP * (SLOW if slow else 1) - own)
        time.sleep(slept)
        loss.backward()
        loop.optimizer.step()
        steps += 1
    rate = (steps - before) * STEP / (time.perf_counter() - began - since)
    loop.session.close()
    spans = {name: statistics.fmean(r.spans.get(name, 0.0) for r in records[1:]) for name in records[0].spans}
    mine = torch.tensor([rate, *(spans[name] for name in sorted(spans))], dtype=torch.float64)
    rows = [torch.empty_like(mine) for _ in range(size)]
    dist.all_gather(rows, mine)
    splits = {m: dict(zip(sorted(spans), row[1:].tolist(), strict=True)) for m, row in enumerate(rows)}
    found = slowest(splits)
    return {"rate": float(sum(row[0] for row in rows)), "slow": None if found is None else found.member}


def worker(part: str, repeats: int, seconds: float) -> None:
    """Play one part; rank 0 prints what was found as JSON."""
    torch.set_num_threads(1)
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = dist.FileStore(os.environ["STORE"], size)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)
    if part == "memory":
        found: Any = memory(repeats)
    else:
        found = {kind: padded(kind, seconds, part == "wandering") for kind in RATES}
    if rank == 0:
        print(json.dumps(found), flush=True)
    dist.barrier()
    os._exit(0)


def played(part: str, given: argparse.Namespace) -> Any:
    """Start the workers of one part and read what rank 0 found."""
    with tempfile.TemporaryDirectory() as folder:
        env = {
            **os.environ, "WORLD_SIZE": str(given.workers), "LOCAL_WORLD_SIZE": str(given.workers),
            "STORE": f"{folder}/store", "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo",
        }  # fmt: skip
        command = [sys.executable, __file__, "--worker", part]
        command += ["--repeats", str(given.repeats), "--seconds", str(given.seconds)]
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        started = [subprocess.Popen(command, env={**env, "RANK": str(rank)}, **pipes) for rank in range(given.workers)]
        said = [process.communicate(timeout=1200) for process in started]
    if any(process.returncode for process in started):
        raise SystemExit("\n".join(err for _, err in said))
    return json.loads(said[0][0].splitlines()[-1])


def told_memory(found: dict[str, list[float]]) -> list[str]:
    """Print what visits cost; which bars are missed."""
    missed = []
    for kind, base, bar in (
        ("copy again", "copy", None), ("copy own", "copy", None), ("pull", "copy", 1.25),
        ("copy again, clock", "copy, clock", None),
        ("pull, clock", "copy, clock", None), ("async server", "allreduce", 1.25),
        ("async server step", "allreduce step", 1.25),
    ):  # fmt: skip
        ratios = [a / b for a, b in zip(found[kind], found[base], strict=True)]
        ratio, spread = statistics.median(ratios), f"{min(ratios):.2f}..{max(ratios):.2f}"
        times = f"{1e3 * statistics.median(found[kind]):.2f} ms, {1e3 * statistics.median(found[base]):.2f} ms"
        print(f"{kind + ' / ' + base:36}{ratio:7.3f} ({spread})  {times}" + (f"  bar {bar}" if bar else ""))
        missed += [f"{kind} {ratio:.2f}"] if bar and ratio > bar else []
    return missed


def told_rates(part: str, found: dict[str, dict[str, Any]], workers: int) -> list[str]:
    """Print worker-rates; which bars are missed."""
    free, tied = workers - 1 + 1 / SLOW, workers / SLOW
    for kind, row in found.items():
        print(f"{part:10}{kind:16}{row['rate']:6.2f} worker-rates  slowest: member {row['slow']}")
    rates = {kind: row["rate"] for kind, row in found.items()}
    if part == "wandering":
        missed = [] if rates["ssp(8)"] >= 0.9 * rates["async server"] else ["ssp(8) below 0.9 of the async server"]
        return missed + (["all-reduce as quick"] if rates["all-reduce"] >= 0.9 * rates["async server"] else [])
    print(f"{part:10}members can give {free:.1f}; who waits for the slow one gives {tied:.1f}")
    missed = [f"{kind} {rates[kind]:.2f}" for kind in ("async server", "gossip pull") if rates[kind] < 0.9 * free]
    missed += [f"{k} {rates[k]:.2f}" for k in ("all-reduce", "ssp(8)", "blocking gossip") if rates[k] > 1.3 * tied]
    return missed + [f"{kind} names {row['slow']}" for kind, row in found.items() if row["slow"] != 1]


def main() -> None:
    """Run the parts, print the tables and whether the bars are held; 1 if one is not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--repeats", type=int, default=21)
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--parts", nargs="+", default=["memory", "steady", "wandering"])
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        worker(given.worker, given.repeats, given.seconds)
    missed = []
    for part in given.parts:
        found = played(part, given)
        missed += told_memory(found) if part == "memory" else told_rates(part, found, given.workers)
    print("all bars held" if not missed else "MISSED: " + "; ".join(missed))
    raise SystemExit(bool(missed))


if __name__ == "__main__":
    main()
