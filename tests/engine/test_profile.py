"""A profile: gradients come as backward does, seconds grow with the batch, and shares give the moments again."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from gossamer.engine.profile import Profile, Step, profile
from gossamer.parts.refusal import Refused
from gossamer.parts.selection import Tag
from gossamer.sim.workload import Workload
from gossamer.tasks.task import Batch, Task, classified


class Slow(torch.autograd.Function):
    """Nothing forward; backward sleeps 10 ms, and 1 ms a sample."""

    @staticmethod
    def forward(ctx: object, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: object, grad: Tensor) -> Tensor:
        time.sleep(0.010 + 0.001 * len(grad))
        return grad


class Three(nn.Module):
    """Three layers with a slow place between the first and the second; `idle` is never used, `still` never trained."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.idle, self.three = (nn.Linear(4, 4) for _ in range(4))
        self.still = nn.Linear(4, 4).requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.three(self.two(Slow.apply(self.one(x))))  # type: ignore[no-untyped-call]
        return found


def task(loss: Callable[..., tuple[Tensor, int, dict[str, Tensor]]] = classified) -> Task:
    data: Batch = (torch.randn(64, 4), torch.randint(0, 4, (64,)))
    return Task(Three(), data, data, loss)


def measured(batches: tuple[int, ...] = (4, 40)) -> Profile:
    made = task()
    return profile(made, torch.optim.SGD(made.model.parameters(), lr=1e-6), batches, 5)


def test_moments_are_those_of_backward() -> None:
    seen = measured()
    names = [tag.name for tag in seen.tags]
    assert names == [f"{layer}.{part}" for layer in ("one", "two", "idle", "three") for part in ("weight", "bias")]
    ready = dict(zip(names, seen.ready, strict=True))
    assert list(seen.ready) == sorted(seen.ready, reverse=True) and ready["one.weight"] == 1.0
    assert seen.forward <= ready["three.bias"] <= ready["two.weight"] < 0.4  # before the slow place
    assert ready["one.bias"] > 0.8 and ready["idle.bias"] == ready["three.weight"]
    assert sum(seen.shares) == pytest.approx(1.0) and min(seen.shares) >= 0


def test_seconds_are_medians_and_grow_with_the_batch() -> None:
    seen = measured()
    low, high = seen.spread(40)
    assert low <= seen.seconds(40) <= high and {len(steps) for steps in seen.steps.values()} == {5}
    assert 0.0139 < seen.seconds(4) < seen.seconds(40) < 0.3 and seen.seconds(40) > 0.0499
    assert 0 < seen.update < seen.seconds(4)


def test_a_workload_of_its_shares_has_its_moments() -> None:
    seen = measured()
    seconds = tuple(seen.seconds(batch) for batch in seen.batches)
    found = Workload(seen.tags, seen.shares, seen.batches, seconds, seen.forward, seen.update)
    assert found.ready() == pytest.approx(seen.ready)
    assert [found.compute(batch) for batch in seen.batches] == pytest.approx(seconds)


def test_a_moment_out_of_order_waits_for_those_behind_it() -> None:
    steps = [Step(1.0, 4.0, 0.1, {0: 3.0, 1: 3.5, 2: 2.0})]
    seen = Profile((Tag("a", (1,)), Tag("b", (1,)), Tag("c", (1,))), {8: steps})
    assert seen.ready == (1.0, 0.875, 0.5) and seen.forward == 0.25
    assert seen.shares == pytest.approx((1 / 6, 1 / 2, 1 / 3))


@pytest.mark.parametrize(
    ("batches", "repeats", "told"), [((65,), 5, "batch"), ((0,), 5, "batch"), ((4,), 1, "repeats")]
)
def test_what_cannot_be_measured_is_refused(batches: tuple[int, ...], repeats: int, told: str) -> None:
    made = task()
    with pytest.raises(Refused, match=told):
        profile(made, torch.optim.SGD(made.model.parameters(), lr=0.1), batches, repeats)


def test_hooks_are_taken_off_again() -> None:
    made = task()
    profile(made, torch.optim.SGD(made.model.parameters(), lr=0.1), (4,), 3)
    assert not any(p._post_accumulate_grad_hooks for p in made.model.parameters())
