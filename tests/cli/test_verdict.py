"""Runs that are no result: said plainly, never the best of a column, and exit code 1."""

from __future__ import annotations

from math import isfinite
from pathlib import Path

import pytest
from tests.cli.ask import ask, told

from gossamer.parts.units import told_share
from gossamer.records import Evaluation, StepRecord, read

QUICK = ("--workers", "4", "--steps", "6", "--task-option", "hidden=8", "--no-journal")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def rows(screen: str, *names: str) -> dict[str, str]:
    return {name: next(line for line in screen.splitlines() if line.startswith(name)) for name in names}


def test_a_run_that_stood_still_wins_no_column() -> None:
    words = ("rehearse", "--compare", "allreduce", "downpour", "gossip_pull", *QUICK)
    result = ask(*words, "--trouble", "fail(rank=1, step=1)")
    assert result.exit_code == 1
    lines = rows(result.stdout, "allreduce", "downpour", "gossip_pull")
    assert "*" not in lines["allreduce"]
    assert "*" in lines["downpour"] + lines["gossip_pull"]
    assert "! allreduce stood still: it is not ranked" in result.stdout
    assert "downpour stood still" not in result.stdout
    assert ask(*words).exit_code == 0


STEEP = """
import torch
from torch import nn
from gossamer.tasks.task import Task

def squared(model, batch):
    return (model(batch[0]) - 1.0).square().mean(), len(batch[0]), {}

def make(seed=0):
    torch.manual_seed(seed)
    data = (torch.randn(64, 4),)
    return Task(nn.Linear(4, 1), data, data, squared)
"""


def test_a_loss_that_left_the_numbers_is_said_and_dated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "steep.py").write_text(STEEP)
    monkeypatch.syspath_prepend(tmp_path)
    how = ("--task", "steep:make", "--workers", "2", "--steps", "20", "--rate", "1000")
    found = told("rehearse", "allreduce", *how, code=1)
    records = [
        r for r in read(Path(found["journal"])) if isinstance(r, StepRecord | Evaluation) and not isfinite(r.loss)
    ]
    first = min(r.step if isinstance(r, StepRecord) else r.steps // 2 - 1 for r in records)
    assert 3 < first < 19
    assert found["failure"] == f"diverged at step {first}"
    result = ask("rehearse", "allreduce", *how)
    assert result.exit_code == 1
    assert f"the run diverged at step {first}: these numbers are no result" in result.stdout
    both = ask("rehearse", "--compare", "allreduce", "local_sgd(every=2)", *how)
    assert both.exit_code == 1
    assert f"! allreduce diverged at step {first}: it is not ranked" in both.stdout
    assert not any("*" in line for line in rows(both.stdout, "allreduce", "local_sgd").values())
    assert told("rehearse", *how[:-1], "0.01")["failure"] is None


def test_losses_are_named_by_the_data_they_are_of() -> None:
    screen = ask("rehearse", "allreduce", *QUICK).stdout
    for words in ("on held-out data", "held-out loss", "training loss"):
        assert words in screen
    assert "held-out" in ask("rehearse", "--compare", "allreduce", *QUICK).stdout
    assert 0 < told("rehearse", "allreduce", *QUICK)["training_loss"] < 3


@pytest.mark.parametrize(
    ("share", "target", "words"),
    [
        (0.9499, 0.95, "0.9499"),
        (0.95, 0.95, "0.950"),
        (0.9502, 0.9501, "0.9502"),
        (0.5, 0.95, "0.500"),
        (1.0, 1.0, "1.000"),
    ],
)
def test_an_accuracy_is_never_rounded_across_the_target(share: float, target: float, words: str) -> None:
    assert told_share(share, target) == words


def test_hub_answers_and_the_unit_of_ages_are_told() -> None:
    hub, peer, none = (told("rehearse", name, *QUICK) for name in ("downpour", "gossip_pull", "allreduce"))
    assert [run["staleness"]["unit"] for run in (hub, peer, none)] == ["versions", "steps", "steps"]
    parameters = 64 * 8 + 8 + 8 * 8 + 8 + 8 * 10 + 10
    assert hub["bytes_answered_by_hub_per_member"] == 6 * 4 * parameters
    assert peer["bytes_answered_by_hub_per_member"] is None
    screen = ask("rehearse", "downpour", *QUICK).stdout
    assert "hub answers" in screen and "on top of what the members send" in screen
    assert "in versions of the hub: " in screen
    assert "in steps of a peer" in ask("rehearse", "gossip_pull", *QUICK, "--compute", "10ms,30ms").stdout
    table = ask("rehearse", "--compare", "downpour", "gossip_pull", *QUICK).stdout
    assert "answers" in table and "versions" in table and "steps" in table


def test_one_worker_is_one_worker() -> None:
    assert "1 worker x batch 8" in ask("rehearse", "--workers", "1", "--steps", "2", "--no-journal").stdout
    lone = ask("rehearse", "allreduce", "--workers", "2", "--steps", "4", "--trouble", "fail(rank=0, step=2)").stdout
    assert "member 1 waits for member 0, which died" in " ".join(lone.split())


def test_the_accuracy_panel_holds_every_curve() -> None:
    from types import SimpleNamespace as Thing

    from gossamer.cli.plot import floor_of

    def runs(*accuracies: float) -> list[Thing]:
        seen = [Thing(accuracy=accuracy) for accuracy in accuracies]
        return [Thing(outcome=Thing(evaluations=seen), request=Thing(target=0.95))]

    assert floor_of(runs(0.12, 0.6, 0.97)) == pytest.approx(0.1)  # type: ignore[arg-type]
    assert floor_of(runs(0.0, 0.6)) == 0.0  # type: ignore[arg-type]
    assert floor_of(runs(0.83, 0.97)) == pytest.approx(0.8)  # type: ignore[arg-type]
    assert floor_of(runs(1.0)) == pytest.approx(0.9)  # type: ignore[arg-type]


@pytest.mark.parametrize("columns", [60, 44])
def test_narrow_terminals_cut_nothing(columns: int) -> None:
    long = "Exchange(payload=PARAMETERS, synchrony=Synchrony(every=2))"
    for words in (
        ("list",),
        ("list", "--parts"),
        ("show", "powersgd", "--link", "1Gbit"),
        ("rehearse", "allreduce", *QUICK),
        ("rehearse", "--compare", "allreduce", long, "downpour", *QUICK),
    ):
        screen = ask(*words, columns=columns).stdout
        assert "…" not in screen, words
        assert max(map(len, screen.splitlines())) <= columns, words
    assert "no room for held-out loss, seconds, epochs to 0.95, hub answers" in " ".join(screen.split())
