"""The simulator against runs of our own: calibrated on few hosts, held against more hosts and other links.

    python benchmarks/own_runs.py [--steps 24] [--rate 100] [--strategies EXPR ... | all] [--large]
                                  [--keep FOLDER] [--json FILE]

Hosts are network namespaces (`gossamer lab`), one worker each, so this needs root. Compute is padded: every worker
sleeps in forward and between the layers of backward, so that many of them fit on few cores, and what is measured are
exchanges and how they hide. The cluster is calibrated (`gossamer.sim.calibrate`) on all-reduce with 2 and 4 hosts at
--rate, and on one run of 4 hosts of each further family named in FAMILIES, whose wires travel another way; every other
run is foretold and then made: 8 hosts at that rate, 4 hosts at half and at twice the rate. Bars: mean error at most
10 %, and intervals hold 80 to 95 % of the runs.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

WIDTH, LAYERS = 360, 4  # of square layers: half a million parameters, 2 MB
FORWARD, BACKWARD = 0.05, 0.10  # seconds of padding in each
STRATEGIES = (
    "allreduce", "half", "local_sgd(every=4)", "diloco(every=4)", "dpsgd", "sgp", "parameter_server", "one_bit",
    "gossip_pull", "hogwild",
)  # fmt: skip
FAMILIES = ("sgp", "parameter_server", "gossip_pull")
DOOR = [sys.executable, "-c", "from gossamer.cli.main import main; main()"]


def work() -> None:
    """One worker: a plain loop whose compute is padded."""
    import torch
    from torch import Tensor, nn

    import gossamer

    class Pad(torch.autograd.Function):
        """Sleeps on the way there and on the way back."""

        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            time.sleep(FORWARD / LAYERS)
            return x.clone()

        @staticmethod
        def backward(ctx: Any, *grads: Tensor) -> Tensor:
            time.sleep(BACKWARD / LAYERS)
            return grads[0]

    class Padded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))

        def forward(self, x: Tensor) -> Tensor:
            for layer in self.layers:
                x = Pad.apply(torch.tanh(layer(x)))
            return x

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = Padded()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    model, optimizer = gossamer.prepare(model, optimizer)
    inputs = torch.randn(4, WIDTH)
    for _ in range(int(os.environ["OWN_STEPS"])):
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()


def run(strategy: str, hosts: int, rate: float, steps: int, folder: Path) -> Path:
    """Play a strategy on so many hosts with links of so many Mbit/s; the folder of its journals."""
    from gossamer.engine.messages.secret import made

    folder.mkdir(parents=True)
    made(folder / "key")
    command = [
        *DOOR, "lab", "--hosts", str(hosts), "--rate", f"{rate:g}mbit", "--workers", "1", "--",
        *DOOR, "run", "--strategy", strategy, "--journal", str(folder), str(Path(__file__).resolve()),
    ]  # fmt: skip
    done = subprocess.run(
        command,
        env={**os.environ, "OWN_STEPS": str(steps), "GOSSAMER_KEY_FILE": str(folder / "key")},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{strategy} on {hosts} hosts: {done.stdout[-2000:]}\n{done.stderr[-3000:]}")
    return folder


def padded() -> Any:
    """The same loop as a workload: a layer's share of compute is what it sleeps."""
    from gossamer.parts.selection import Tag
    from gossamer.sim.workload import Workload

    tags = [tag for n in range(LAYERS) for tag in (
        Tag(f"layers.{n}.weight", (WIDTH, WIDTH)), Tag(f"layers.{n}.bias", (WIDTH,)))]  # fmt: skip
    shares = (1.0, 0.0) * LAYERS
    total = FORWARD + BACKWARD
    return Workload(tuple(tags), shares, (1,), (total,), forward=FORWARD / total, name="padded")


def main() -> None:
    """Calibrate, foretell, run, compare."""
    if "RANK" in os.environ:
        work()
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=24)
    parser.add_argument("--rate", type=float, default=100.0, help="Mbit/s")
    parser.add_argument("--strategies", nargs="+", default=list(STRATEGIES), help="expressions, or `all` entries")
    parser.add_argument("--large", action="store_true", help="8 hosts only, no other rates")
    parser.add_argument("--keep", type=Path, default=None)
    parser.add_argument("--json", type=Path, default=None)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        compare(given, given.keep or Path(scratch))


def compare(given: argparse.Namespace, folder: Path) -> None:
    """The whole table."""
    from gossamer.parts.refusal import Refused
    from gossamer.sim.calibrate import calibrate
    from gossamer.sim.cluster import Cluster, Tier
    from gossamer.sim.seen import seen
    from gossamer.sim.simulate import simulate
    from gossamer.strategy import CATALOG

    rate, label = given.rate, given.rate * 125e3
    strategies = [entry.name for entry in CATALOG] if given.strategies == ["all"] else given.strategies
    known = [("allreduce", 2), ("allreduce", 4), *((family, 4) for family in FAMILIES if family in strategies)]
    runs = []
    for strategy, hosts in known:
        runs.append(seen(run(strategy, hosts, rate, given.steps, folder / f"known-{len(runs)}")))
        print(f"known: {strategy}, {hosts} hosts: {1e3 * runs[-1].seconds:.1f} ms a step", flush=True)
    base = Cluster(hosts=8, per_host=1, across=Tier(2e-4, label, 0.9), jitter=0.01, name="namespaces")
    found = calibrate(runs, base, padded())
    across = found.cluster.across
    assert across is not None
    print(f"calibrated: {across.latency * 1e6:.0f} us a message, {across.achieved:.2f} of {rate:g} Mbit/s, "
          f"jitter {found.cluster.jitter:.3f}, compute {1e3 * found.workload.seconds[0]:.1f} ms; errors "
          + ", ".join(f"{each:+.1%}" for each in found.errors.values()), flush=True)  # fmt: skip
    rows, failed = [], list[str]()
    print(f"{'strategy':22}{'hosts':>6}{'Mbit/s':>8}{'simulated':>11}{'interval':>18}{'measured':>10}{'error':>8}")
    for strategy in strategies:
        for hosts, speed in ((8, 1.0),) if given.large else ((8, 1.0), (4, 0.5), (4, 2.0)):
            cluster = replace(found.cluster, across=replace(across, bandwidth=across.bandwidth * speed))
            try:
                likely = simulate(strategy, cluster, found.workload, hosts, batch=hosts, steps=40).step
            except Refused as refused:
                print(f"{strategy:22}{hosts:6} not played: {refused}", flush=True)
                continue
            name = f"{''.join(c for c in strategy if c.isalnum())}-{hosts}-{speed:g}"
            try:
                real = seen(run(strategy, hosts, rate * speed, given.steps, folder / name)).seconds
            except RuntimeError as why:
                failed.append(f"{why}")
                print(f"{strategy:22}{hosts:6}{rate * speed:8g}  the run failed", flush=True)
                continue
            rows.append({"strategy": strategy, "hosts": hosts, "mbit": rate * speed, "simulated": likely.value,
                         "low": likely.low, "high": likely.high, "measured": real})  # fmt: skip
            print(f"{strategy:22}{hosts:6}{rate * speed:8g}{1e3 * likely.value:9.1f}ms"
                  f"{f'{1e3 * likely.low:.0f}..{1e3 * likely.high:.0f}':>18}{1e3 * real:8.1f}ms"
                  f"{likely.value / real - 1:+8.1%}"
                  f"{'' if likely.low <= real <= likely.high else '  outside'}", flush=True)  # fmt: skip
    error = mean(abs(row["simulated"] / row["measured"] - 1) for row in rows)
    covered = mean(row["low"] <= row["measured"] <= row["high"] for row in rows)
    print(f"mean error {error:.1%} (bar 10 %: {'held' if error <= 0.1 else 'MISSED'}); intervals hold {covered:.0%} of "
          f"{len(rows)} runs (bar 80 to 95 %: {'held' if 0.8 <= covered <= 0.95 else 'MISSED'})")  # fmt: skip
    if given.json is not None:
        given.json.write_text(json.dumps(rows, indent=1))
    if failed:
        raise SystemExit("\n".join([f"{len(failed)} runs failed", *failed]))


if __name__ == "__main__":
    main()
