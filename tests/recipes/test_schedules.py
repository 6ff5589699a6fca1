"""Rates of every iteration against closed forms, in our pace and in a torch scheduler; what cannot be is refused."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from tests.papers.recipe_oracles import CLOSED

from gossamer.parts.refusal import Refused
from gossamer.recipes import (
    SLOW_START,
    Batches,
    Constant,
    Cosine,
    Cyclic,
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
        (lambda: Warmup(5.0).check(4), "epochs=5 is not over in a run of 4 epochs", "a run of 5 epochs"),
        (lambda: Warmup(5.0, then=Steps()).check(4), "epochs=5 is not over in a run of 4", "a run of 81 epochs"),
        (lambda: Warmup(10.0, then=Steps(), after=True).check(85), "a run of 75 epochs after", "a run of 91 epochs"),
        (lambda: Warmup(5.0, after=True).check(5), "not over in a run of 5 epochs", "a run of 6 epochs"),
        (
            lambda: Pace(Batches(((0, 4), (7.5, 8))), Warmup(5.0), 100, 4, 0.1),
            "not over in a run of 4",
            "run of 8 epochs",
        ),
        (lambda: Warmup(1e6, after=True).check(5), "not over in a run of 5 epochs", None),
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


def test_a_warm_up_may_last_as_long_as_the_run() -> None:
    pace = Pace(Batches(((0, 10),)), Warmup(5.0), 100, 5, 0.1)
    assert pace.rate(49) == pytest.approx(0.1 * 4.9 / 5)
    Warmup(90.0 * (7.1 / 90.0)).check(7.1)  # stretched, and off by a rounding


def test_a_schedule_of_ones_own() -> None:
    class Halves(Schedule):
        def factor(self, epoch: float, epochs: float) -> float:
            return 0.5 ** int(epoch)

    assert Warmup(2.0, 0.0, Halves()).factor(3.5, 9) == 0.125


def test_a_plan_has_a_row_for_every_epoch_in_which_anything_changes() -> None:
    """Goyal's drop at 30 and the end of the warm-up begin rows of their own."""
    told = Pace(Batches(((0, 50),)), Warmup(5.0, 0.1, Steps()), 1000, 90, 0.1).told()
    assert [(each.begins, each.ends) for each in told] == [
        *((e, e + 1) for e in range(5)), (5, 30), (30, 60), (60, 80), (80, 90),
    ]  # fmt: skip
    assert [each.steps for each in told] == [20] * 5 + [500, 600, 400, 200]
    assert told[5].rates == told[5].bounds == (0.1, 0.1) and told[6].rates == pytest.approx((0.01, 0.01))
    assert len(Pace(Batches(((0, 50),)), Cosine(), 1000, 90, 0.1).told()) == 90


@pytest.mark.parametrize(
    ("epochs", "period", "rows"), [(96, 8.0, 96), (5, 0.5, 5), (1000, 8.0, 112), (9999.5, 8.0, 120)]
)
def test_no_peak_is_hidden(epochs: float, period: float, rows: int) -> None:
    told = Pace(Batches(((0, 50),)), Cyclic(0.1, period), 1000, epochs, 0.12).told()
    assert len(told) == rows
    assert max(each.bounds[1] for each in told) == pytest.approx(0.12)
    assert min(each.bounds[0] for each in told) == pytest.approx(0.012, rel=0.1)
    assert sum(each.steps for each in told) == epochs * 20
    for one, other in pairwise(told):
        assert one.ends == other.begins and one.step + one.steps == other.step


def test_a_drop_within_an_epoch_is_told() -> None:
    (row, _) = Pace(Batches(((0, 10),)), Stairs(((0.0, 1.0), (0.3, 0.1), (0.6, 1.0))), 1000, 2, 0.1).told()
    assert row.rates == (0.1, 0.1) and row.bounds == pytest.approx((0.01, 0.1))
