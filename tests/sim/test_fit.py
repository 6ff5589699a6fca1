"""Fitting rows: others are foretold by the parameters that made them, and what is asked is never looked at."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from gossamer.parts.refusal import Refused
from gossamer.sim.cluster import Cluster
from gossamer.sim.described import described
from gossamer.sim.fit import Measured, fit
from gossamer.sim.formula import NAMES, seconds
from gossamer.sim.simulate import simulate
from gossamer.sim.workload import Workload

TRUE = {
    "fixed": 0.05, "sample": 0.004, "front": 0.36, "tail": 0.1, "inside": 0.03, "across": 0.2, "pair": 0.4,
    "crowd": 0.06, "jitter": 0.02, "hop_inside": 1.2e-3, "hop_across": 2.2e-3,
}  # fmt: skip
BATCHES = (16, 32, 64, 128)


def made(places: list[tuple[int, int]], noise: float, seed: int = 0) -> list[Measured]:
    """Rows that the law itself would give, each a little off."""
    theta, draw = np.log([TRUE[name] for name in NAMES]), np.random.default_rng(seed)
    rows = [Measured(hosts, per_host, float(batch), 1.0) for hosts, per_host in places for batch in BATCHES]
    true = seconds(theta, np.array([row.row for row in rows]), np.empty(0))
    return [
        replace(row, seconds=float(t * math.exp(noise * draw.standard_normal())))
        for row, t in zip(rows, true, strict=True)
    ]


FEW = [(1, 1), (1, 2), (1, 4), (2, 1), (2, 4), (3, 4), (4, 1), (4, 4)]
MANY = [(8, 4), (16, 1), (16, 4)]


def test_others_are_foretold_and_intervals_hold_most_of_them() -> None:
    errors, held = [], []
    for seed in range(4):
        found = fit(made(FEW, 0.03, seed))
        asked = made(MANY, 0.03, seed + 100)
        for row, likely in zip(asked, found.all_of(asked), strict=True):
            errors.append(abs(likely.value / row.seconds - 1))
            held.append(likely.low <= row.seconds <= likely.high)
    assert np.mean(errors) < 0.06
    assert np.mean(held) > 0.85
    assert found.largest == 16 and found.rows == len(FEW) * len(BATCHES)


def test_what_is_asked_is_not_looked_at() -> None:
    found = fit(made(FEW, 0.02))
    asked = made(MANY, 0.02)
    blind = [replace(row, seconds=1e6) for row in asked]
    assert found.all_of(asked) == found.all_of(blind)
    assert found.predict(16, 4, 64.0) == found.all_of([Measured(16, 4, 64.0, 5.0)])[0]


def test_the_same_rows_give_the_same_fit_and_other_rows_another() -> None:
    one, two, other = fit(made(FEW, 0.02)), fit(made(FEW, 0.02)), fit(made(FEW, 0.02, 7))
    assert one.values == two.values and one.values != other.values


def test_two_rows_are_enough_where_cluster_and_workload_are_known() -> None:
    """And then far worlds have wide intervals."""
    cluster, workload = Cluster.load("dell-a100"), Workload.load("resnet50")
    rows = [Measured(1, 4, 256.0, 0.0852), Measured(2, 4, 204.0, 0.0730)]
    found = fit(rows, cluster, workload, noise=0.01)
    near, far = found.predict(4, 4, 204.0), found.predict(512, 4, 204.0)
    assert 0.07 < near.value < 0.08
    assert far.high / far.low > 1.2 * near.high / near.low


def test_parameters_are_told_with_what_they_mean() -> None:
    told = fit(made(FEW, 0.02)).told()
    assert len(told) == len(NAMES) and any(line.startswith("across 0.") and "host's link" in line for line in told)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (lambda: Measured(0, 4, 8.0, 1.0), "hosts"),
        (lambda: Measured(2, 4, 8.0, 0.0), "seconds"),
        (lambda: Measured(2, 4, -1.0, 1.0), "batch"),
        (lambda: Measured(2, 4, 8.0, 1.0, 9), "members"),
        (lambda: fit([]), "no row"),
    ],
)
def test_rows_that_cannot_be_are_refused(row: object, words: str) -> None:
    assert callable(row)
    with pytest.raises(Refused, match=words):
        row()


def test_the_simulator_says_what_the_law_says() -> None:
    """A fit told as a cluster and a workload, and played: an all-reduce has the seconds of the law, within 12 %
    (the law rounds the corner where compute and exchanges are as long as each other)."""
    base, model = Cluster.load("t4-50gbit"), Workload.load("resnet50")
    found = fit(made(FEW, 0.01), base, replace(model, batches=(1,), seconds=(1.0,)))
    cluster, workload = described(found, base, model)
    assert cluster.measured == 16 and workload.batches == BATCHES
    for workers in (4, 8, 16, 32, 64):
        for batch in BATCHES:
            played = simulate("allreduce(ring)", cluster, workload, workers, batch=batch * workers, interval=False)
            likely = found.predict(-(-workers // 4), 4, float(batch))
            assert played.step.value == pytest.approx(likely.value, rel=0.12), (workers, batch)
