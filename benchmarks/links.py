"""Time to 97 % on MNIST between hosts with slow links: every relaxed family, next to DDP and hivemind's averager.

    python benchmarks/links.py MNIST_FOLDER [--hosts 4] [--rate 100mbit] [--seeds 0 1 2] [--hivemind PYTHON]
                               [--rows "local SGD, overlapped" ...] [--quick] [--both] [--out FILE] [--table FILE]

Hosts are network namespaces (`gossamer.lab`), so this needs root; each has one worker of one thread with the MLP of
5.8 M parameters, batch 64, SGD with momentum 0.9. Rows are played on links held to the rate with every seed, and on
links as fast as they are with the first (--both: with all). Workers copy their parameters to memory every ten steps
(some milliseconds, which count, in all rows alike). Afterwards the exact average of the replicas is tested on the
10,000 test images: the time is when the last worker had done the step of the earliest snapshot that is right on 97 %
(none is looked at before step 150). Nobody has paid for that average, so where replicas differ `in hand` adds what one
all-reduce of them takes at the rate, 2 (H-1)/H x bytes / rate, and bars are held with it. `own` is the time of worker
0's replica by itself, with the first seed, and `alone` a control: workers that never speak until they are tested.
Rows marked * are calculated: steps to the target on fast links x seconds of a step on slow ones, of 30.
MB/step is what the busiest host's interface sent; it counts only if all links together carried what records say.

Settings come from single tries with seed 0 on fast links (--tune), judged by the same test images, not from a full
grid; so seed 0 flatters who was tuned, and other seeds are the evidence. Tried, as interval @ rate: local SGD 50 and
80 @ 0.05, 50 @ 0.03, 50 @ 0.1; overlapped 80 @ 0.05; overlapped in 16 bits 40 @ 0.07; with PowerSGD(8) 8 @ 0.05.
DiLoCo overlapped: outer (0.7, 0.9) 80 @ 0.03, outer (1, 0.5) 60 @ 0.05. Async server: summed 80 @ 0.02, shared 80 @
0.05, shared with TopK 20 @ 0.05. EASGD and gossip 40 @ 0.05, push-sum overlapped 60 @ 0.05. PowerSGD of rank 2 and 4 @
0.1. DDP's rate: 0.02, 0.05 and 0.1 in one process on the pooled batch. Intervals of 64 (a transfer of 2.8 s has to
hide in it), of EASGD (60) and of gossip (80, fewer bytes) were set by arithmetic, untried.
Hivemind was not tuned: its DecentralizedAverager averages parameters among all, in the background, at the interval and
rate of our overlapped rows; what it moved is added when it is there; matchmaking lasts 1 second. It has no outer
optimizer here, so its like is `local SGD, overlapped`; DiLoCo's lead over it is the outer optimizer's.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from links_table import kept, row_of, told, verdict, written
from links_worker import pictures, whole
from models import MODELS
from torch import nn

TARGET = 0.97
FIRST, APART, MOST = 150, 10, 30  # steps before the first snapshot and between two; how many there are room for
SOME, NEAR = 5, 0.012  # one image in so many is looked at first; how near the target that must come
TIMED, SKIPPED = 32, 2  # steps of a marked row on slow links; of them not counted
PATIENCE = 900.0  # seconds until a run is given up


@dataclass(frozen=True)
class Row:
    """Who trains, how, for how many steps, and at which rate; marked: the time on slow links is calculated."""

    name: str
    strategy: str
    rate: float = 0.1
    steps: int = 400
    kind: str = "ours"
    marked: bool = False
    momentum: float = 0.9
    every: int = 0  # of hivemind's averager
    waits: bool = False  # for it, instead of stepping on meanwhile
    once: bool = False  # with the first seed only
    differ: bool = True  # replicas, so that an average is to be made in the end


SERVER = (
    "Exchange(DELTAS, topology=Hub(), synchrony=Synchrony(80, staleness=None, quorum=1, late=APPLY), merge=Share())"
)
ROWS = (
    Row("DDP", "", kind="ddp", marked=True, steps=340, differ=False),
    Row("all-reduce", "allreduce", marked=True, steps=340, differ=False),
    Row("alone", "local_sgd(every=1000000)", 0.05, marked=True, once=True),
    Row("all-reduce, PowerSGD", "powersgd(rank=4)", marked=True, steps=340, differ=False),
    Row("async server", SERVER, 0.05),
    Row("async EASGD", "async_easgd(rate=0.9, every=60)", 0.05, steps=440),
    Row("gossip", "gossip_pull(every=80)", 0.05),
    Row("local SGD, overlapped", "Exchange(PARAMETERS, synchrony=Synchrony(every=64, delay=63))", 0.05),
    Row("DiLoCo, overlapped", "Exchange(DELTAS, synchrony=Synchrony(every=64, delay=63), merge=Outer(1.0, 0.5))", 0.05),
    Row("hivemind", "", 0.05, kind="hivemind", every=64),
)
QUICK = ("DDP", "all-reduce, PowerSGD", "DiLoCo, overlapped", "hivemind")


class Bench:
    """A folder with data and room for snapshots, hosts on slow and on fast links, and what tests snapshots."""

    def __init__(self, folder: Path, labs: dict[bool, Any], python: str | None, mnist: Path) -> None:
        self.folder, self.labs, self.python, self.runs = folder, labs, python, 0
        self.model, _, _ = MODELS["mlp"]()
        self.count = sum(p.numel() for p in self.model.parameters())
        self.hosts = len(labs[True].hosts)
        self._lay(mnist)
        from gossamer.engine.messages.secret import made

        made(folder / "key")

    def _lay(self, mnist: Path) -> None:
        from gossamer.tasks.idx import _find, read

        for part, names in (("train", "xy"), ("t10k", "uv")):
            images, labels = (
                read(_find(mnist, f"{part}-{n}-ubyte"), d) for n, d in (("images-idx3", 3), ("labels-idx1", 1))
            )
            np.save(self.folder / f"{names[0]}.npy", images.flatten(1).numpy())
            np.save(self.folder / f"{names[1]}.npy", labels.long().numpy())
        self.inputs = pictures(torch.from_numpy(np.load(self.folder / "u.npy")))
        self.labels = torch.from_numpy(np.load(self.folder / "v.npy"))
        self.shots = [
            np.memmap(self.folder / f"shots-{r}", np.float32, "w+", shape=(MOST, self.count)) for r in range(self.hosts)
        ]
        for shots in self.shots:
            shots[:] = 0.0  # all pages are there before anybody measures

    def play(self, row: Row, seed: int, slow: bool) -> dict[str, Any]:
        """One run: when each worker had ended each step, what hosts sent, and what workers say."""
        self.runs += 1
        lab, folder = self.labs[slow], self.folder / f"run-{self.runs}"
        folder.mkdir()
        for name in ("x.npy", "y.npy"):
            (folder / name).symlink_to(self.folder / name)
        asked = asdict(row) | {
            "seed": seed,
            "batch": 64,
            "folder": str(folder),
            "first": FIRST,
            "apart": APART,
            "most": MOST,
        }
        whole(folder / "asked.json", asked | {"shots": [str(self.folder / f"shots-{r}") for r in range(self.hosts)]})
        command = [
            self.python or "" if row.kind == "hivemind" else sys.executable,
            str(Path(__file__).with_name("links_worker.py")),
        ]
        with (folder / "heard").open("w") as heard:
            started = [
                lab.start(h, command, env=self._env(lab, h, folder), stdout=heard, stderr=heard)
                for h in range(self.hosts)
            ]
            self._until(folder, "ready", started)
            before = lab.traffic()
            whole(folder / "go.json", time.monotonic() + 0.1)
            self._until(folder, "done", started)
            after = lab.traffic()
            whole(folder / "all.json", True)
            self._until(folder, "said", started)
            for process in started:
                process.wait(60.0)
        laps = [json.loads((folder / f"done-{r}.json").read_text()) for r in range(self.hosts)]
        said = [json.loads((folder / f"said-{r}.json").read_text()) for r in range(self.hosts)]
        sent = [(b - a).sent for a, b in zip(before, after, strict=True)]
        return {"laps": laps, "said": said, "sent": sent}

    def _env(self, lab: Any, host: int, folder: Path) -> dict[str, str]:
        here = lab.hosts[host]
        return {
            "RANK": str(host), "WORLD_SIZE": str(self.hosts), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
            "GROUP_RANK": str(host), "MASTER_ADDR": lab.hosts[0].address, "MASTER_PORT": str(29500 + self.runs),
            "GLOO_SOCKET_IFNAME": here.interface, "OMP_NUM_THREADS": "1", "GOSSAMER_KEY_FILE": str(self.folder / "key"),
            "LINKS": str(folder / "asked.json"), "LINKS_ADDRESS": here.address,
            "HIVEMIND_MEMORY_SHARING_STRATEGY": "file_descriptor",  # a run that is cut off leaves nothing behind
        }  # fmt: skip

    def _until(self, folder: Path, what: str, started: Sequence[subprocess.Popen[Any]]) -> None:
        """Wait until all workers have written a file; what they said, if one has failed."""
        over = time.monotonic() + PATIENCE
        while missing := [r for r in range(self.hosts) if not (folder / f"{what}-{r}.json").exists()]:
            if time.monotonic() > over or any(started[r].poll() is not None for r in missing):
                raise SystemExit(f"{what}: workers {missing} are missing\n{(folder / 'heard').read_text()[:4000]}")
            time.sleep(0.05)

    def accuracy(self, shot: int, whose: Sequence[int], among: int = 1) -> float:
        """How much the mean of some workers' snapshots gets right, of every so many test images."""
        mean = torch.zeros(self.count)
        for rank in whose:
            mean.add_(torch.from_numpy(self.shots[rank][shot]), alpha=1.0 / len(whose))
        nn.utils.vector_to_parameters(mean, self.model.parameters())
        with torch.no_grad():
            right = self.model(self.inputs[::among]).argmax(1) == self.labels[::among]
        return float(right.float().mean())

    def reached(self, row: Row, whose: Sequence[int]) -> tuple[int | None, float]:
        """Steps of the earliest snapshot that reaches the target, and the accuracy of the last one.

        Only those are tested on all images that are near the target on some of them.
        """
        most = (row.steps - FIRST) // APART + 1
        near = (shot for shot in range(most) if self.accuracy(shot, whose, SOME) >= TARGET - NEAR)
        first = next((shot for shot in near if self.accuracy(shot, whose) >= TARGET), None)
        return None if first is None else FIRST + first * APART, self.accuracy(most - 1, whose)


def measured(bench: Bench, row: Row, seed: int, slow: bool, own: bool = False) -> dict[str, Any]:
    """One line of results: seconds to the target, those of a step, bytes, accuracies; worker 0's own, if asked for."""
    marked = slow and row.marked
    played = bench.play(replace(row, steps=TIMED) if marked else row, seed, slow)
    ends = [max(each) for each in zip(*played["laps"], strict=True)]
    found: dict[str, Any] = {"row": row.name, "seed": seed, "slow": slow, "marked": marked, "settings": asdict(row)}
    skipped = SKIPPED if len(ends) > SKIPPED + 1 else 0
    found["step"] = (ends[-1] - ends[skipped - 1]) / (len(ends) - skipped) if skipped else ends[-1] / len(ends)
    found["average"] = 2 * (bench.hosts - 1) / bench.hosts * 32 * bench.count / bench.labs[True].bits
    found["sent"] = [sent / len(ends) for sent in played["sent"]]
    found |= {"said": played["said"], "steps played": len(ends)}
    if not marked:
        for name, whose in (("", range(bench.hosts)), ("own ", [0]))[: 1 + own]:
            steps, last = bench.reached(row, whose)
            found |= {f"{name}steps": steps, f"{name}last": last, f"{name}seconds": ends[steps - 1] if steps else None}
    return found


@contextmanager
def bench(given: argparse.Namespace) -> Iterator[Bench]:
    """Everything that runs need, while they last."""
    from gossamer.lab import Lab

    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with (
        tempfile.TemporaryDirectory(dir=memory) as folder,
        Lab(given.hosts, given.rate) as slow,
        Lab(given.hosts) as fast,
    ):
        yield Bench(Path(folder), {True: slow, False: fast}, given.hivemind, given.mnist)


def played(made: Bench, rows: Sequence[Row], given: argparse.Namespace) -> list[dict[str, Any]]:
    """All rows, seed by seed, so that what disturbs the machine disturbs all; the rows of the table."""
    lines: dict[str, list[dict[str, Any]]] = {row.name: [] for row in rows}
    seeds = given.seeds[:1] if given.quick else given.seeds
    for seed, row, slow in ((seed, row, slow) for seed in seeds for row in rows for slow in (False, True)):
        first = seed == seeds[0]
        if not first and (row.once or (row.marked if slow else not (row.marked or given.both))):
            continue
        found = measured(made, row, seed, slow, own=first and slow != row.marked)
        lines[row.name].append(found)
        times = (
            f"{written(found.get('seconds'))} s, {found.get('steps') or '-'} steps, {1e3 * found['step']:.0f} ms a step"
        )
        print(f"seed {seed} {'slow' if slow else 'fast'} {row.name}: {times}", flush=True)
        if given.out is not None:
            with given.out.open("a") as file:
                file.write(json.dumps(found) + "\n")
    return [row_of(name, found) for name, found in lines.items()]


def asked() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mnist", type=Path, metavar="MNIST_FOLDER")
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--rate", default="100mbit")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--hivemind", metavar="PYTHON", help="a python that has hivemind; without it, no such row")
    parser.add_argument("--rows", nargs="+", choices=[row.name for row in ROWS], help="some of them")
    parser.add_argument("--quick", action="store_true", help="one seed, fewer rows")
    parser.add_argument("--both", action="store_true", help="all seeds on fast links, too")
    parser.add_argument("--out", type=Path, help="every run's results are added to it as a line of JSON")
    parser.add_argument("--table", type=Path, help="print the table of such a file, and play nothing")
    parser.add_argument("--tune", nargs="+", default=[], metavar="EXPRESSION@RATE", help="only these, on fast links")
    return parser.parse_args()


def main() -> None:
    """Play the rows, print the table and whether the bars are held; 1 if one is not."""
    given = asked()
    if given.table is not None:
        raise SystemExit(verdict(told(kept(given.table))))
    names = given.rows or (QUICK if given.quick else [row.name for row in ROWS])
    rows = [row for row in ROWS if row.name in names and (row.kind != "hivemind" or given.hivemind)]
    with bench(given) as made:
        for text in given.tune:
            strategy, rate = text.split("@")
            for seed in given.seeds:
                found = measured(made, Row(text, strategy, float(rate)), seed, False)
                print(f"{text} seed {seed}: {found['steps']} steps, {100 * found['last']:.2f} %", flush=True)
        if given.tune:
            return
        bars = told(played(made, rows, given))
    if not given.hivemind:
        print("hivemind: not played, as no python that has it was named (--hivemind PYTHON)")
    raise SystemExit(verdict(bars))


if __name__ == "__main__":
    main()
