"""Compose a strategy nobody has named, look at a step of it, and rehearse it against two that have names.

Run it with `python examples/compose.py`; it takes a few seconds on a laptop.
"""

from __future__ import annotations

import torch

import gossamer
from gossamer.records import summary
from gossamer.tasks import build

# All-reduce of the ten largest hundredths of each matrix's gradient, biases as they are, every step;
# and every ten steps an elastic pull of all parameters towards a hub, before the update.
MINE = gossamer.parse(
    "Exchange(where=Dims(least=2), codec=ErrorFeedback(codec=TopK(keep=0.1)))"
    " + Exchange(where=Dims(most=1))"
    " + Exchange(payload=PARAMETERS, topology=Hub(), synchrony=Synchrony(every=10), merge=Elastic(), order=BEFORE)"
)


def main() -> None:
    """Print the phases of one step and a small comparison."""
    torch.set_num_threads(1)  # the model is small: more threads would only wait for each other
    print("a step:", *gossamer.phases(MINE, step=10), sep="\n  ")
    print("position:", gossamer.position(MINE))
    links = gossamer.Machines(compute=(0.01,), rate=12.5e6, latency=1e-4, jitter=0.1)  # 100 Mbit/s
    print(f"{'strategy':<22}{'accuracy':>9}{'seconds':>9}{'MB sent':>9}")
    for name, strategy in {"mine": MINE, **{n: gossamer.parse(n) for n in ("allreduce", "local_sgd(every=8)")}}.items():
        plan = gossamer.Plan(
            task=build("digits", seed=0, options={}),
            strategy=strategy,
            world=gossamer.World(size=8),
            optimizer=gossamer.Optimizer(rate=0.1, momentum=0.9),
            batch=8,
            steps=150,
            machines=links,
        )
        outcome = gossamer.rehearse(plan)
        megabytes = summary.bytes_sent_per_member([*outcome.steps, *outcome.events], 8) / 1e6
        print(f"{name:<22}{outcome.evaluations[-1].accuracy:>9.3f}{outcome.seconds:>9.2f}{megabytes:>9.2f}")


if __name__ == "__main__":
    main()
