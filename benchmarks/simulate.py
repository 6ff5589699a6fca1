"""Seconds that simulations take on one core, and the memory they need, against the bars of the simulator.

Run `python benchmarks/simulate.py [name ...]`: every entry of the catalogue (or those named) at 4,096 members and 100
steps, some composed ones and some with a slow member, all-reduce at 65,536, and 500 candidates as a planner would ask
for them: strategies x workers x batches, each with its interval. Seconds are those of the process, so that others on
the machine count little. An entry that 4,096 workers do not suit is skipped by name.
"""

from __future__ import annotations

import resource
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from time import process_time

from gossamer.parts.refusal import Refused
from gossamer.parts.topology import Complete, Hub
from gossamer.parts.trouble import Script, Slow
from gossamer.sim.cluster import Cluster, Tier
from gossamer.sim.lockstep import in_step
from gossamer.sim.simulate import simulate
from gossamer.strategy import CATALOG, AnyStrategy, slots

WORKLOAD, MANY, STEPS = "resnet50", 4096, 100
ANY, SYMMETRIC, HUGE, SWEEP, MEMORY = 10.0, 1.0, 5.0, 60.0, 1e9  # seconds, and bytes
LARGE = Cluster(8192, 8, Tier(3e-6, 2.4e11, 0.8), Tier(1e-5, 2.5e10, 0.8), nics=8)
SWEPT = (
    "allreduce", "allreduce(ring)", "allreduce(halving_doubling)", "horovod", "sony", "half", "powersgd", "qsgd", "dgc",
    "parameter_server", "backup_workers", "ssp", "downpour", "hogwild", "local_sgd", "post_local_sgd", "easgd", "sgp",
    "gossip_pull", "adpsgd",
)  # fmt: skip
COMPOSED = (  # no entries, and not what entries are tuned on
    "Exchange(payload=PARAMETERS, topology=RandomPeer(pulls=8), synchrony=Synchrony(staleness=1000000))",
    "Exchange(topology=Hub(), synchrony=Synchrony(quorum=4000, late=APPLY), codec=ErrorFeedback(codec=TopK(0.01)))",
    "local_sgd(every=97) + Exchange(payload=PARAMETERS, topology=Cycle(), where=Dims(least=2))",
)
FREE = ("adpsgd", "gossip_pull", "hogwild")
SLOW = Script((Slow(rank=4000, factor=2.0),))
COUNTS, BATCHES = (8, 32, 128, 256, 512), (16, 32, 64, 128, 256)  # workers, and samples of each


def symmetric(strategy: AnyStrategy) -> bool:
    """Whether one member's step is everybody's: all mix with all, or with a hub that waits for all."""
    return in_step(strategy) and all(isinstance(ex.topology, Complete | Hub) for ex in slots(strategy))


def seconds(strategy: AnyStrategy | str, workers: int, steps: int = STEPS, trouble: Script = Script()) -> float:
    """Of the process, for one answer with its interval."""
    began = process_time()
    simulate(strategy, LARGE, WORKLOAD, workers, steps=steps, trouble=trouble)
    return process_time() - began


def sweep() -> float:
    """Of the process, for 500 candidates."""
    began = process_time()
    for strategy in SWEPT:
        for workers in COUNTS:
            for batch in BATCHES:
                simulate(strategy, "a100-pod", WORKLOAD, workers, batch=batch * workers, steps=20)
    return process_time() - began


def told(what: str, taken: float, bar: float) -> bool:
    """Print a row; whether the bar was held."""
    held = taken < bar
    print(f"{what:44}{taken:9.2f} s{bar:9.0f} s   {'held' if held else 'MISSED'}", flush=True)
    return held


def memory() -> bool:
    """The same for the most that the process ever had."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    held = peak < MEMORY and "torch" not in sys.modules
    print(f"{'peak memory, no torch':44}{peak / 1e6:8.0f} MB{MEMORY / 1e6:8.0f} MB   {'held' if held else 'MISSED'}")
    return held


def entries(names: list[str]) -> list[bool]:
    """Every entry at 4,096 members: which bars were held."""
    found = []
    for entry in CATALOG:
        if names and entry.name not in names:
            continue
        strategy = entry.make()
        kind, bar = ("symmetric", SYMMETRIC) if symmetric(strategy) else ("", ANY)
        try:
            found.append(told(f"{entry.name:22}{MANY:6,} x {STEPS}  {kind}", seconds(strategy, MANY), bar))
        except Refused as no:
            print(f"{entry.name:22}skipped: {no.reason}")
    return found


def main() -> int:
    """Measure; exit code 1 if a bar is missed."""
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="entries of the catalogue; all of them unless named")
    names = parser.parse_args().names
    seconds("allreduce", 8, 2)  # whatever is loaded once
    held = entries(names)
    if not names:
        held += [told(f"{text[:34]:34}{MANY:6,}", seconds(text, MANY), ANY) for text in COMPOSED]
        held += [told(f"{name:12}rank 4,000 slow  {MANY:6,}", seconds(name, MANY, trouble=SLOW), ANY) for name in FREE]
        held.append(told(f"{'allreduce':22}65,536 x {STEPS}", seconds("allreduce", 65536), HUGE))
        count = len(SWEPT) * len(COUNTS) * len(BATCHES)
        held.append(told(f"{count} candidates, up to {max(COUNTS)} workers", sweep(), SWEEP))
    held.append(memory())
    print(f"\n{sum(held)} of {len(held)} bars held")
    return 0 if all(held) else 1


if __name__ == "__main__":
    sys.exit(main())
