"""k synchronous workers are one process on the pooled batch, and each has touched only its own samples."""

from __future__ import annotations

import pytest
import torch
from tests.papers.problem import BATCH, RATE, WRONG, gap, in_one_process, played, small_digits, tiny, tiny_32, trained
from torch import Tensor

from gossamer.parts.world import World
from gossamer.recipes import Optimizer
from gossamer.sim import Plan, Rehearsal
from gossamer.strategy.catalog import allreduce, local_sgd, parameter_server
from gossamer.tasks import Stream, Task

SIZES = pytest.mark.parametrize("size", [2, 3, 4])
MOMENTA = pytest.mark.parametrize("mu", [0.0, 0.9])
TASKS = pytest.mark.parametrize("task", [tiny_32, small_digits])


@SIZES
@MOMENTA
@pytest.mark.parametrize("strategy", [allreduce(), parameter_server(), local_sgd(every=1)], ids=repr)
def test_workers_are_one_process_on_the_pooled_batch(strategy, size, mu):
    wanted = in_one_process(tiny(), size, 50, mu)
    assert gap(trained(tiny(), strategy, size, 50, mu), wanted) < 1e-10
    assert gap(trained(tiny(), strategy, size, 49, mu), wanted) > WRONG


@TASKS
@SIZES
@MOMENTA
@pytest.mark.parametrize("strategy", [allreduce(), parameter_server()], ids=repr)
def test_workers_are_one_process_in_single_precision(task, strategy, size, mu):
    wanted = in_one_process(task(), size, 10, mu)
    found = trained(task(), strategy, size, 10, mu)
    assert found.dtype == torch.float32
    assert (found - wanted).norm() / wanted.norm() < 1e-5
    assert (found - in_one_process(task(), size - 1, 10, mu)).norm() / wanted.norm() > 1e-3


@pytest.mark.parametrize(("size", "batch"), [(1, 7), (2, 4), (3, 5), (4, 24)])
def test_every_sample_comes_once_an_epoch_to_one_member(size, batch):
    stream, pooled = Stream(97, batch, World(size)), Stream(97, size * batch, World(1))
    steps = range(4 * 97 // (size * batch) + 1)
    read = torch.cat([stream.indices(member, step) for step in steps for member in range(size)])
    assert torch.equal(read, torch.cat([pooled.indices(0, step) for step in steps]))
    epochs = read[: 4 * 97].view(4, 97)
    assert torch.equal(epochs.sort(1).values, torch.arange(97).expand(4, 97))
    assert not torch.equal(epochs[0], epochs[1])


class Watched(Tensor):
    """Training samples that note down who asked for which: one row for each member that computes."""

    asked: list[Tensor]

    @staticmethod
    def over(samples: Tensor) -> Watched:
        watched = samples.as_subclass(Watched)
        watched.asked = []
        return watched

    def __getitem__(self, indices: Tensor) -> Tensor:
        self.asked.append(indices)
        return self.as_subclass(Tensor)[indices]


@SIZES
def test_each_member_asks_for_its_own_samples_only(size):
    plain, steps = tiny(), 6
    watched = Watched.over(plain.train[0])
    task = Task(plain.model, (watched, plain.train[1]), plain.test, plain.loss)
    trained(task, allreduce(), size, steps)
    stream = Stream(len(watched), BATCH, World(size))
    assert len(watched.asked) >= steps
    for step, rows in enumerate(watched.asked[:steps]):
        assert torch.equal(rows, torch.stack([stream.indices(member, step) for member in range(size)]))
        assert len(rows.unique()) == size * BATCH


@SIZES
def test_what_is_wrong_with_one_members_samples_stays_with_it(size):
    plain, steps, alone = tiny(), 5, local_sgd(every=10**6)
    spoilt = plain.train[0].clone()
    stream = Stream(len(spoilt), BATCH, World(size))
    spoilt[torch.cat([stream.indices(1, step) for step in range(steps)])] = float("nan")
    task = Task(plain.model, (spoilt, plain.train[1]), plain.test, plain.loss)
    found = Rehearsal(Plan(task, alone, World(size), Optimizer("sgd", RATE), BATCH, steps)).run().replicas
    assert found[1].isnan().all()
    others = [member for member in range(size) if member != 1]
    assert torch.equal(found[others], played(alone, size, steps).outcome.replicas[others])
