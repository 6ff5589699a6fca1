"""ResNet-18 between hosts: what codecs make of a step on slow links and on fast ones, and of accuracy on MNIST.

    python benchmarks/compressed.py MNIST_FOLDER [--hosts 4] [--rate 100mbit] [--seeds 0 1 2] [--images 10000]
                                    [--epochs 1] [--rows "prepared, one bit" ...] [--only times|accuracy] [--out FILE]
                                    [--table FILE]

Hosts are network namespaces (`gossamer.lab`), so this needs root; each has one worker of one thread, with 16 images a
step and memory in large pages, as `gossamer run` starts it, SGD of rate 0.02, which falls to 0, with momentum 0.9 (DGC:
its own). `prepared` is `gossamer.prepare`, `hook` is `gossamer.as_comm_hook` in DDP, `DDP` is torch alone with its own
hooks. First steps are timed, on links held to the rate and on links as fast as they are: the median over steps of when
the last worker had ended it, the first six apart; MB are what the busiest host's interface sent in such a step, headers
included. Then every row trains the same epochs of the same images with every seed, on fast links, and each worker tests
its replica on its share of the test images. DGC warms up for 80 steps where it trains, and is timed without. Torch's
PowerSGD hook has one bucket (over gloo it stands still with two), and torch has no hooks of 8 bits, 1 bit or DGC that
run on a CPU.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from links_worker import pictures, whole
from models import MODELS
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

BATCH, RATE, MOMENTUM = 16, 0.02, 0.9
EARLY, TIMED = 6, 10  # steps that are not counted, and those that are on slow links
PATIENCE = 1200.0  # seconds until a run is given up
ONE = 1000  # megabytes: one bucket


@dataclass(frozen=True)
class Row:
    """Who trains and with which codec; `timed`: the strategy on slow links, where that is another one."""

    name: str
    kind: str
    strategy: str = ""
    timed: str = ""
    momentum: float = MOMENTUM
    once: bool = False  # its accuracy is that of another row


ROWS = (
    Row("DDP, dense", "ddp"),
    Row("prepared, dense", "prepared", "allreduce"),
    Row("DDP, half", "ddp", "half"),
    Row("prepared, half", "prepared", "half"),
    Row("prepared, 8 bits", "prepared", "eight_bits"),
    Row("prepared, one bit", "prepared", "one_bit"),
    Row("hook, one bit", "hook", "one_bit", once=True),
    Row("prepared, DGC 0.1 %", "prepared", "dgc(warmup=80)", "dgc", momentum=0.0),
    Row("DDP, PowerSGD 2", "ddp", "powersgd"),
    Row("prepared, PowerSGD 2", "prepared", "powersgd"),
    Row("hook, PowerSGD 2", "hook", "powersgd", once=True),
)


def images(folder: Path, part: str, count: int | None = None) -> tuple[Tensor, Tensor]:
    """Pictures of three equal colours, and what they show."""
    raw, labels = (torch.from_numpy(np.load(folder / f"{part}-{what}.npy")[:count]) for what in ("x", "y"))
    return pictures(raw).view(-1, 1, 28, 28).expand(-1, 3, -1, -1), labels


def wrapped(model: nn.Module, optimizer: torch.optim.Optimizer, kind: str, strategy: str, seed: int) -> nn.Module:
    """The model as a row trains it."""
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

    import gossamer

    if kind == "prepared":
        gossamer.prepare(model, optimizer, strategy=strategy, seed=seed)
        return model
    dist.init_process_group("gloo", timeout=timedelta(minutes=10))
    found = DistributedDataParallel(model, bucket_cap_mb=ONE if strategy == "powersgd" else 25, broadcast_buffers=False)
    if kind == "hook":
        found.register_comm_hook(None, gossamer.as_comm_hook(strategy, seed=seed))
    elif strategy == "half":
        found.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif strategy == "powersgd":
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2)
        found.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    return found


def worker(asked: dict[str, Any]) -> None:
    """Train as asked, and leave when each step had ended and how many test images were right."""
    torch.set_num_threads(1)
    rank, size, folder = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), Path(asked["folder"])
    torch.manual_seed(asked["seed"])
    model, _, _ = MODELS["resnet18"]()
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE, momentum=asked["momentum"])
    inputs, labels = images(Path(asked["data"]), "train", asked["images"])
    called = wrapped(model, optimizer, asked["kind"], asked["strategy"], asked["seed"])
    (folder / f"ready-{rank}").touch()
    while not (folder / "go").exists():
        time.sleep(0.01)
    laps: list[float] = []
    each = len(labels) // (size * BATCH)
    for step in range(asked["steps"]):
        draw = np.random.default_rng((asked["seed"], step // each))  # another order in every epoch, for all the same
        order = draw.permutation(len(labels))[rank::size]
        some = torch.from_numpy(order[step % each * BATCH :][:BATCH])
        for group in optimizer.param_groups:
            group["lr"] = RATE * (1.0 - step / asked["steps"])
        optimizer.zero_grad()
        nn.functional.cross_entropy(called(inputs[some]), labels[some]).backward()
        optimizer.step()
        laps.append(time.monotonic())
        if step + 1 == EARLY:
            whole(folder / f"early-{rank}.json", True)
    whole(folder / f"laps-{rank}.json", laps)
    right = tested(model, *images(Path(asked["data"]), "test"), rank, size) if asked["tests"] else 0
    whole(folder / f"right-{rank}.json", right)
    while not (folder / "over").exists():
        time.sleep(0.01)
    os._exit(0)


@torch.no_grad()
def tested(model: nn.Module, inputs: Tensor, labels: Tensor, rank: int, size: int) -> int:
    """How many of this worker's share are right."""
    model.eval()
    mine = range(rank, len(labels), size)
    cuts = [torch.tensor(mine[start : start + 250]) for start in range(0, len(mine), 250)]
    return sum(int((model(inputs[cut]).argmax(1) == labels[cut]).sum()) for cut in cuts)


class Bench:
    """Hosts on slow and on fast links, and the data."""

    def __init__(self, folder: Path, labs: dict[bool, Any], mnist: Path) -> None:
        from gossamer.engine.messages.secret import made
        from gossamer.tasks.idx import _find, read

        self.folder, self.labs, self.runs, self.hosts = folder, labs, 0, len(labs[True].hosts)
        made(folder / "key")
        for part, name in (("train", "train"), ("t10k", "test")):
            for what, (kind, dims) in {"x": ("images-idx3", 3), "y": ("labels-idx1", 1)}.items():
                array = read(_find(mnist, f"{part}-{kind}-ubyte"), dims)
                np.save(folder / f"{name}-{what}.npy", (array if what == "x" else array.long()).numpy())

    def play(self, row: Row, seed: int, slow: bool, images: int, steps: int | None = None) -> dict[str, Any]:
        """One run of some steps, of which those after the first are timed, or of `steps`, with a test in the end."""
        self.runs += 1
        lab, folder, here = self.labs[slow], self.folder / f"run-{self.runs}", range(self.hosts)
        folder.mkdir()
        tests, steps = steps is not None, steps or EARLY + (TIMED if slow else 3 * TIMED)
        strategy = row.strategy if tests else row.timed or row.strategy
        asked = asdict(row) | {
            "seed": seed, "folder": str(folder), "data": str(self.folder), "images": images, "steps": steps,
            "strategy": strategy, "tests": tests,
        }  # fmt: skip
        command = [sys.executable, str(Path(__file__)), "--worker", json.dumps(asked), "-"]
        with (folder / "heard").open("w") as heard:
            started = [lab.start(h, command, env=self._env(lab, h), stdout=heard, stderr=heard) for h in here]

            def until(name: str) -> None:
                over = time.monotonic() + PATIENCE
                while missing := [r for r in here if not (folder / name.format(r)).exists()]:
                    if time.monotonic() > over or any(started[r].poll() is not None for r in missing):
                        raise SystemExit(f"{name}: {missing} missing\n{(folder / 'heard').read_text()[-4000:]}")
                    time.sleep(0.02)

            until("ready-{}")
            (folder / "go").touch()
            until("early-{}.json")
            before = lab.traffic()
            until("laps-{}.json")
            sent = max((b - a).sent for a, b in zip(before, lab.traffic(), strict=True)) / (steps - EARLY)
            until("right-{}.json")
            (folder / "over").touch()
            for process in started:
                process.wait(60.0)
        laps, right = (
            [json.loads((folder / f"{what}-{r}.json").read_text()) for r in here] for what in ("laps", "right")
        )
        ends = [max(each) for each in zip(*laps, strict=True)]
        taken = [b - a for a, b in zip(ends[EARLY - 1 :], ends[EARLY:], strict=False)]
        found = {"row": row.name, "seed": seed, "slow": slow, "step": statistics.median(taken), "sent": sent}
        return found | ({"accuracy": sum(right) / 10_000} if tests else {"least": min(taken), "most": max(taken)})

    def _env(self, lab: Any, host: int) -> dict[str, str]:
        from gossamer.engine.freed import large_pages

        here = lab.hosts[host]
        return {
            "RANK": str(host), "WORLD_SIZE": str(self.hosts), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
            "GROUP_RANK": str(host), "MASTER_ADDR": lab.hosts[0].address, "MASTER_PORT": str(29500 + self.runs),
            "GLOO_SOCKET_IFNAME": here.interface, "OMP_NUM_THREADS": "1", "GOSSAMER_KEY_FILE": str(self.folder / "key"),
            **large_pages(os.environ),
        }  # fmt: skip


@contextmanager
def bench(given: argparse.Namespace) -> Iterator[Bench]:
    """Everything that runs need, while they last."""
    from gossamer.lab import Lab

    with tempfile.TemporaryDirectory() as folder, Lab(given.hosts, given.rate) as slow, Lab(given.hosts) as fast:
        yield Bench(Path(folder), {True: slow, False: fast}, given.mnist)


def table(lines: Sequence[dict[str, Any]]) -> None:
    """Print it as the documentation has it."""
    print("| who | s a step, slow links | MB | s a step, fast links | accuracy, % |")
    print("|---|---:|---:|---:|---:|")
    for name in dict.fromkeys(line["row"] for line in lines):
        mine = [line for line in lines if line["row"] == name]
        slow, fast = (
            [line["step"] for line in mine if line["slow"] == is_slow and "accuracy" not in line]
            for is_slow in (True, False)
        )
        sent = [line["sent"] / 1e6 for line in mine if line["slow"]]
        right = [100 * line["accuracy"] for line in mine if "accuracy" in line]
        told = f"{statistics.mean(right):.2f} ({min(right):.2f}..{max(right):.2f})" if right else "-"
        cells = [_middle(slow, "{:.2f}"), _middle(sent, "{:.2f}"), _middle(fast, "{:.3f}"), told]
        print(f"| {name} | {' | '.join(cells)} |")


def _middle(found: Sequence[float], form: str) -> str:
    return form.format(statistics.median(found)) if found else "-"


def asked() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mnist", type=Path, metavar="MNIST_FOLDER")
    parser.add_argument("--hosts", type=int, default=4)
    parser.add_argument("--rate", default="100mbit")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--images", type=int, default=10_000)
    parser.add_argument("--epochs", type=float, default=1.0)
    parser.add_argument("--rows", nargs="+", choices=[row.name for row in ROWS])
    parser.add_argument("--only", choices=["times", "accuracy"])
    parser.add_argument("--out", type=Path, help="every run's results are added to it as a line of JSON")
    parser.add_argument("--table", type=Path, help="print the table of such a file, and play nothing")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    """Play all rows, and print the table."""
    given = asked()
    if given.worker:
        worker(json.loads(given.worker))
    if given.table is not None:
        table([json.loads(line) for line in given.table.read_text().splitlines()])
        return
    rows = [row for row in ROWS if given.rows is None or row.name in given.rows]
    lines: list[dict[str, Any]] = []
    with bench(given) as made:
        for found in played(made, rows, given):
            lines.append(found)
            print(json.dumps(found), flush=True)
            if given.out is not None:
                with given.out.open("a") as file:
                    file.write(json.dumps(found) + "\n")
    table(lines)


def played(made: Bench, rows: Sequence[Row], given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """All rows: their times, each twice, in two rounds; then what they learn, seed by seed."""
    if given.only != "accuracy":
        for slow, row in [(slow, row) for _ in range(2) for row in rows for slow in (True, False)]:
            yield made.play(row, given.seeds[0], slow, given.images)
    if given.only != "times":
        steps = int(given.epochs * (given.images // (given.hosts * BATCH)))
        for seed, row in [(seed, row) for seed in given.seeds for row in rows if not row.once]:
            yield made.play(row, seed, False, given.images, steps)


if __name__ == "__main__":
    main()
