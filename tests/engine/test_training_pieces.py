"""A worker's own loop: pieces of a step weigh what they hold, and whoever goes on reads the samples that come next."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.processes.resuming import job

from gossamer.engine.training import Training
from gossamer.parts.refusal import Refused

DIGITS = {"workers": 1, "task": "digits", "options": {"hidden": 8}, "momentum": 0.9, "evaluate_every": 99}


def trained(folder: Path, **said: object) -> Training:
    training = Training(job(folder, **{**DIGITS, **said}))
    try:
        training.run()
    finally:
        training.session.close()
    return training


def weights(training: Training) -> torch.Tensor:
    return torch.nn.utils.parameters_to_vector(training.model.parameters()).detach()


@pytest.mark.parametrize("at_once", [30, 10, 1])
def test_pieces_have_the_gradient_of_the_whole_share(tmp_path: Path, at_once: int) -> None:
    """31 samples as 16 and 15, and so on."""
    said = {"batches": "0:31", "epochs": 1.0, "steps": 3}
    whole = trained(tmp_path / "whole", **said)
    pieces = trained(tmp_path / "pieces", **said, at_once=at_once)
    assert weights(pieces).tolist() == pytest.approx(weights(whole).tolist(), rel=1e-4, abs=1e-6)
    assert pieces.loss == pytest.approx(whole.loss, rel=1e-5)


def test_a_run_without_a_pace_goes_on_with_the_sample_that_comes_next(tmp_path: Path) -> None:
    trained(tmp_path, batch=4, steps=5)
    kept = str(tmp_path / "checkpoints")
    more = trained(tmp_path, batch=6, steps=7, resume=kept)
    assert [more.stream.cuts.start(step) for step in (5, 6, 7)] == [20, 26, 32]
    again = trained(tmp_path, batch=4, steps=9, resume=kept)
    assert again.stream.cuts.start(7) == 32


def test_a_run_with_a_pace_does_not_go_on_with_steps_of_other_sizes(tmp_path: Path) -> None:
    said = {"schedule": "Cosine()", "epochs": 1.0}
    trained(tmp_path, **said, batch=4, steps=5)
    kept = str(tmp_path / "checkpoints")
    with pytest.raises(Refused, match="step 5 begins with sample 20 there, with 40 here") as caught:
        trained(tmp_path, **said, batch=8, steps=9, resume=kept)
    assert caught.value.nearest == "--batches '4'"
    assert trained(tmp_path, **said, batch=8, batches="4", steps=9, resume=kept).course.step == 9


def test_what_an_older_version_saved_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Training, "_read", lambda *_: {})
        trained(tmp_path, batch=4, steps=5)
    assert trained(tmp_path, batch=4, steps=6, resume=str(tmp_path / "checkpoints")).course.step == 6


def test_rmsprop_becomes_sgd_where_nothing_else_has_a_pace(tmp_path: Path) -> None:
    training = trained(tmp_path, optimizer="rmsprop_to_sgd", rate=0.02, batch=400, steps=6, epochs=2.0)
    assert training.optimizer.param_groups[0]["share"] == 1.0
