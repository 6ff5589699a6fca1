"""Every entry that is not a dense all-reduce at each step trains the digits as well as that does, on real processes.

Same samples, same budget, the mean of three seeds. Members of a free run are kept about equally fast, as machines of
their own would be; what they then make of each other's numbers is theirs.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import torch
from tests.processes.abreast import digits
from torch import Tensor
from torch.nn.utils import vector_to_parameters

from gossamer.engine.crew import Crew, Result
from gossamer.strategy import CATALOG, AnyStrategy, Entry, parse, position, slots
from gossamer.tasks import evaluate

SEEDS, STEPS, BATCH, HIDDEN, RATE = (0, 1, 2), 400, 32, 64, 0.2
NEAR = 0.015  # of all samples that all-reduce gets right more, at most
FLOOR = 0.955  # what all-reduce itself must come to, or nothing is compared


def relaxed(strategy: AnyStrategy) -> bool:
    """Whether it is anything else than the gradients of all, averaged among all, at every step."""
    stands = position(strategy)
    return (stands.scheduling, stands.pattern, stands.exchanged) != ("synchronous", "all-reduce", "gradients")


def coded(strategy: AnyStrategy) -> bool:
    """Whether it is that, written in fewer bytes."""
    return not relaxed(strategy) and any(exchange.codec.lossy for exchange in slots(strategy))


FAMILY = [entry for entry in CATALOG if relaxed(entry.make())]
CODED = [entry for entry in CATALOG if coded(entry.make())]
RATES = {  # where an entry's own numbers change how long a step is
    "eamsgd": 0.005,  # a momentum of 0.99 counts every gradient a hundred times
    "dgc": 0.1,  # it has a momentum, which masking takes off what is sent
}
MILDER = {  # where the entry's own share is for millions of parameters: here there are 4,810
    "dgc": "dgc(density=0.01)",  # 0.001 are five elements: 0.935 to 0.957, rehearsed
    "random_k": "random_k(keep=0.1)",  # at 0.01 each is heard of every hundredth step: 0.780 of 0.966
}
USUAL = {"downpour", "local_sgd", "gossip_pull", "one_bit"}  # one of each kind
CALMER = {  # all-reduce, too, takes twice the steps of half the length beside them
    "softsync",  # three of four gradients are one update old, which rings at the usual rate: 0.88 and 0.96 in turn
    "backup_workers",  # averages fewer gradients, so that one step's chance counts for more
}


def free(strategy: AnyStrategy) -> bool:
    """Whether some members get on without others, so that it matters who is how fast."""
    return any(ex.synchrony.staleness != 0 or ex.synchrony.quorum is not None for ex in slots(strategy))


def model(result: Result, strategy: AnyStrategy) -> Tensor:
    """The exact average of the replicas by mass; where a hub steps the parameters, its centre."""
    exchanges = slots(strategy)
    for slot, exchange in enumerate(exchanges):
        if exchange.updates_at_hub:
            return torch.cat([member[f"hub {slot}"] for member in result.members if f"hub {slot}" in member])
        if exchange.carries_mass:
            masses = torch.stack([member[f"mass {slot}"] for member in result.members])
            return (masses / masses.sum() @ result.replicas.double()).float()
    return result.replicas.double().mean(0).float()


def accuracy(crew: Crew, name: str, seed: int, folder: Path, calm: int) -> float:
    """The share of the held-out digits that are right after four workers ran, in `calm` times more, shorter steps."""
    strategy, counts = parse(MILDER.get(name, name)), folder / f"{name}-{seed}"
    counts.write_bytes(bytes(8 * crew.size))
    options = {"hidden": HIDDEN, "steps": str(counts) if free(strategy) else ""}
    rate, steps = RATES.get(name, RATE) / calm, STEPS * calm
    result = crew.run(
        strategy=repr(strategy), task="tests.processes.abreast:digits", options=options, rate=rate, batch=BATCH,
        steps=steps, seed=seed, fabric="auto",
    )  # fmt: skip
    assert len(result.steps) == steps * crew.size
    task = digits(seed, HIDDEN)
    vector_to_parameters(model(result, strategy), task.model.parameters())
    return evaluate(task, task.model)[1]


@pytest.fixture(scope="session")
def mean(crews, tmp_path_factory):  # type: ignore[no-untyped-def]
    """The mean accuracy of an entry over the seeds; each is trained once."""

    @cache
    def of(name: str, calm: int = 1) -> float:
        folder = tmp_path_factory.mktemp("counts")
        found = [accuracy(crews(4), name, seed, folder, calm) for seed in SEEDS]
        print(name, [f"{each:.4f}" for each in found])
        return sum(found) / len(found)

    return of


@pytest.mark.parametrize(
    "entry",
    [pytest.param(entry, marks=() if entry.name in USUAL else pytest.mark.long) for entry in (*FAMILY, *CODED)],
    ids=lambda entry: entry.name,
)
def test_it_comes_as_far_as_all_reduce(mean, entry: Entry) -> None:  # type: ignore[no-untyped-def]
    calm = 2 if entry.name in CALMER else 1
    wanted, found = mean("allreduce", calm), mean(entry.name, calm)
    assert wanted > FLOOR
    assert found > wanted - NEAR, f"{entry.name}: {found:.4f}, all-reduce {wanted:.4f}"


def test_every_entry_is_of_one_family_and_tables_name_only_such() -> None:
    rest = [entry for entry in CATALOG if entry not in FAMILY]
    for entry in rest:
        for exchange in slots(entry.make()):
            assert (
                exchange.synchrony.every == 1
                and not exchange.hub
                and not exchange.meets
                and not exchange.synchrony.delay
            )
    assert {"allreduce", "dgc", "sony"} <= {entry.name for entry in rest} and len(FAMILY) > 20
    assert RATES.keys() | CALMER | MILDER.keys() | USUAL <= {entry.name for entry in (*FAMILY, *CODED)}
