"""The range test: the rate it finds trains, one ten thousand times larger does not, and what cannot be is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tests.cli.ask import ask, refused
from torch import nn

from gossamer.parts.refusal import Refused
from gossamer.recipes.find import range_test


def test_it_finds_a_rate_that_trains_the_digits(tmp_path: Path) -> None:
    drawn = tmp_path / "lr.png"
    found = json.loads(ask("lr-find", "--json", "--plot", str(drawn)).stdout)
    assert 0.02 < found["steepest"] < 2.0 and found["steepest"] <= found["lowest"]
    assert len(found["rates"]) == len(found["losses"]) and drawn.read_bytes().startswith(b"\x89PNG")
    assert "falls fastest at a rate of" in ask("lr-find", "--steps", "30").stdout


def test_it_tests_the_optimizer_that_a_run_has() -> None:
    """LARS with the trust it is given; what becomes SGD as that, which it is for most of the run."""
    words = ("lr-find", "--json", "--steps", "20", "--task-option", "hidden=8")
    losses = {
        said: json.loads(ask(*words, "--optimizer", *said.split()).stdout)["losses"]
        for said in ("lars", "lars --trust 0.01", "rmsprop_to_sgd", "sgd --momentum 0.9")
    }
    assert losses["lars"] != losses["lars --trust 0.01"]
    assert losses["rmsprop_to_sgd"] == pytest.approx(losses["sgd --momentum 0.9"], rel=1e-4)


def test_of_a_bowl_it_is_below_what_diverges() -> None:
    """Gradient descent on 5 x^2 diverges beyond a rate of 0.2; the model stays as it was."""
    model = nn.Linear(1, 1, bias=False)
    nn.init.ones_(model.weight)
    found = range_test(
        model, lambda held: torch.optim.SGD(held, lr=1.0), lambda tried, _: 5 * tried.weight.square().sum() + 1e-3,
        low=1e-4, high=10.0, steps=200,
    )  # fmt: skip
    assert found.diverged and found.rates[-1] > 0.2
    assert 0.001 < found.steepest < 0.2
    assert model.weight.item() == 1.0


def test_a_loss_that_diverges_at_once_says_so() -> None:
    found = range_test(
        nn.Linear(1, 1), lambda held: torch.optim.SGD(held, lr=1.0), lambda tried, _: tried.weight.sum() * float("nan")
    )
    assert found.diverged
    with pytest.raises(Refused, match="diverged at once"):
        _ = found.steepest


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--low", "0"], "low must lie above 0"),
        (["--low", "1", "--high", "0.5"], "high must lie above 1"),
        (["--steps", "3"], "steps must be from 10"),
        (["--optimizer", "lion"], "there is no 'lion'"),
        (["--batch", "5000"], "there are 1198"),
        (["--plot", "lr.txt"], "does not end in .png"),
        (["--task", "nothing"], "nearest that works: digits"),
    ],
)
def test_bad_input(words: list[str], told: str) -> None:
    assert told in refused("lr-find", *words)
