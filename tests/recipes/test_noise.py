"""The noise scale of gradients whose noise is known, and what it says of samples."""

from __future__ import annotations

import numpy as np
import pytest

from gossamer.parts.refusal import Refused
from gossamer.recipes import NoiseScale


def seen(true: np.ndarray, spread: float, small: int, workers: int, steps: int, seed: int = 0) -> NoiseScale:
    """Steps of workers whose gradients are the true one and the mean of so many samples' noise."""
    draw, found = np.random.default_rng(seed), NoiseScale(0.99)
    for _ in range(steps):
        own = true + draw.normal(size=(workers, len(true))) * spread / np.sqrt(small)
        found.saw(small, float((own**2).sum(1).mean()), small * workers, float((own.mean(0) ** 2).sum()))
    return found


@pytest.mark.parametrize(("small", "workers"), [(1, 8), (16, 2), (8, 16)])
@pytest.mark.parametrize("spread", [0.5, 3.0])
def test_it_finds_the_noise_that_is_there(small: int, workers: int, spread: float) -> None:
    true = np.random.default_rng(1).normal(size=400)
    wanted = 400 * spread**2 / float((true**2).sum())
    found = seen(true, spread, small, workers, 600).scale
    assert found == pytest.approx(wanted, rel=0.15)
    assert found != pytest.approx(2 * wanted, rel=0.15)


def test_what_a_batch_costs() -> None:
    noise = seen(np.ones(100), 20.0, 4, 8, 500)
    assert noise.scale == pytest.approx(400, rel=0.2)
    assert noise.cost(400) == pytest.approx(2.0, rel=0.2)
    assert noise.told(160).startswith("your batch of 160 costs 1.4x the samples (noise scale ")


def test_before_there_is_anything_nothing_is_said() -> None:
    noise = NoiseScale()
    assert noise.scale is None and noise.cost(8) is None and "not known yet" in noise.told(8)
    noise.saw(4, 1.0, 8, 1.0)  # no noise at all
    assert noise.scale is None


def test_one_worker_alone_cannot_tell() -> None:
    with pytest.raises(Refused, match="two workers or more"):
        NoiseScale().saw(8, 1.0, 8, 1.0)
