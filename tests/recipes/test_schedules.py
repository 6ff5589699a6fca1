"""Rates of every iteration against closed forms, in our pace and in a torch scheduler; what cannot be is refused."""

from __future__ import annotations

import pytest
import torch
from tests.papers.recipe_oracles import CLOSED

from gossamer.parts.refusal import Refused
from gossamer.recipes import (
    SLOW_START,
    Batches,
    Constant,
    Cosine,
    Pace,
    Polynomial,
    Schedule,
    Stairs,
    Steps,
    Warmup,
    scaled,
)
from gossamer.recipes.recipe import schedule_of

EPOCHS, STEPS = 90, 37  # of a run, and of an epoch


@pytest.mark.parametrize("text", CLOSED)
def test_every_iteration_has_the_rate_of_the_closed_form(text: str) -> None:
    schedule = schedule_of(text)
    assert schedule_of(repr(schedule)) == schedule
    parameter = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([parameter], lr=3.2)
    scheduler = schedule.scheduler(optimizer, STEPS, EPOCHS)
    pace = Pace(Batches(((0, 100),)), schedule, 100 * STEPS, EPOCHS, 3.2)
    assert pace.steps == EPOCHS * STEPS
    for step in range(EPOCHS * STEPS):
        wanted = 3.2 * CLOSED[text](step / STEPS, EPOCHS)
        assert optimizer.param_groups[0]["lr"] == pytest.approx(wanted, rel=1e-9, abs=1e-12)
        assert pace.rate(step) == pytest.approx(wanted, rel=1e-9, abs=1e-12)
        parameter.grad = torch.zeros(1)
        optimizer.step()
        scheduler.step()


def test_a_closed_form_rejects_another_schedule() -> None:
    for text, closed in CLOSED.items():
        others = [schedule_of(other) for other in CLOSED if other != text]
        for other in others:
            assert any(abs(other.factor(e / 4, EPOCHS) - closed(e / 4, EPOCHS)) > 1e-6 for e in range(360)), other


def test_linear_scaling() -> None:
    assert scaled(0.1, 8192) == pytest.approx(3.2)
    assert scaled(0.1, 256) == 0.1


def test_slow_start_is_for_ninety_epochs() -> None:
    assert [SLOW_START.factor(e, 90) for e in (0, 39.9, 40, 70, 85, 89)] == [0.5, 0.5, 0.075, 0.01, 0.001, 0.001]


@pytest.mark.parametrize("growth", [2, 5])
def test_growing_the_batch_has_the_noise_of_a_falling_rate(growth: int) -> None:
    """C59: eta N / (B (1 - m)) of both runs is the same at every moment."""
    samples, moments = 4000, (10.0, 20.0)
    falling = Pace(Batches(((0, 40),)), Steps(moments, 1 / growth), samples, 30, 0.1)
    sizes = ((0.0, 40), (10.0, 40 * growth), (20.0, 40 * growth**2))
    growing = Pace(Batches(sizes), Constant(), samples, 30, 0.1, "constant")
    for epoch in (0, 5, 9, 11, 15, 19, 21, 29):
        noises = []
        for pace in (falling, growing):
            step = next(s for s in range(pace.steps) if pace.table.epoch(s) >= epoch)
            noises.append(pace.rate(step) * samples / (pace.table.size(step) * (1 - 0.9)))
        assert noises[0] == pytest.approx(noises[1])
    assert growing.steps < falling.steps


def test_by_the_linear_rule_the_rate_grows_with_the_batch() -> None:
    pace = Pace(Batches(((0, 50), (2, 100))), Cosine(), 1000, 4, 0.1)
    assert pace.rate(39) == pytest.approx(0.1 * Cosine().factor(39 / 20, 4))
    assert pace.rate(40) == pytest.approx(0.2 * Cosine().factor(2.0, 4))


@pytest.mark.parametrize(
    ("make", "told", "nearest"),
    [
        (lambda: Warmup(5.0).check(4), "epochs=5 is not over in a run of 4 epochs", "a run of 6 epochs"),
        (lambda: Pace(Batches(((0, 4),)), Warmup(5.0), 100, 5, 0.1), "not over in a run of 5 epochs", "epochs"),
        (lambda: Steps().check(60), "at=80 is not over", "81"),
        (lambda: Steps((3.0, 2.0)), "epochs must rise", "(2.0, 3.0)"),
        (lambda: Stairs(((1.0, 1.0),)), "begins at epoch 0", "stairs="),
        (lambda: Polynomial(0.0), "power must lie above 0", None),
        (lambda: Warmup(5.0, then="cosine"), "then must be a", None),  # type: ignore[arg-type]
        (lambda: schedule_of("Warmup(epoch=5)"), "epoch", "epochs"),
        (lambda: schedule_of("Cosin()"), "Cosin", "Cosine"),
        (lambda: schedule_of("Steps(at=30)"), "epochs must be several numbers, not 30", "(30.0, 60.0, 80.0)"),
        (lambda: schedule_of("Steps(at=())"), "epochs must be several numbers", "(30.0, 60.0, 80.0)"),
        (lambda: schedule_of("Steps(at=(1, None))"), "epoch must", None),
        (lambda: schedule_of("Stairs(stairs=(0, 1))"), "each stair is an epoch and a factor", "stairs="),
        (lambda: schedule_of("Stairs(stairs=((0, 1, 2),))"), "each stair is an epoch and a factor", "stairs="),
    ],
)
def test_what_cannot_be_is_refused(make: object, told: str, nearest: str | None) -> None:
    with pytest.raises(Refused) as caught:
        make()  # type: ignore[operator]
    assert told in caught.value.reason
    assert nearest is None or nearest in str(caught.value.nearest)


def test_a_schedule_of_ones_own() -> None:
    class Halves(Schedule):
        def factor(self, epoch: float, epochs: float) -> float:
            return 0.5 ** int(epoch)

    assert Warmup(2.0, 0.0, Halves()).factor(3.5, 9) == 0.125
