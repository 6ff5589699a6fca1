"""Training by a recipe, as a user does it: resolved and shown first, the batch grows, accumulation changes nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.ask import ask, process

from gossamer.recipes.famous import FAMOUS


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def trained(*words: str) -> tuple[dict[str, object], str]:
    ended = process("train", "--json", *words)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout), ended.stderr


def test_sony_trains_the_digits() -> None:
    """In a sixth of the epochs; the plan is shown before the first step, the growth of the batch is in the journal."""
    found, said = trained("--recipe", "sony", "--epochs", "15")
    assert found["accuracy"] >= 0.97  # type: ignore[operator]
    assert found["epochs"] == pytest.approx(15.0, abs=0.1) and found["recipe"] == "sony"
    before = said[: said.index("step ")]
    assert "batch 32 -> 64 = 4 x 8 -> 16" in before and "labels smoothed by 0.1" in before
    assert "epochs" in before and "per worker" in before and "rate" in before
    (grown,) = [event["what"] for event in found["events"]]  # type: ignore[attr-defined]
    assert grown.startswith("a step has 64 samples from step 188 on, not 32")


def test_accumulation_changes_nothing_but_memory() -> None:
    words = ("--workers", "2", "--batches", "0:32, 2:64", "--epochs", "3", "--task-option", "hidden=16")
    whole, _ = trained(*words)
    parts, _ = trained(*words, "--at-once", "4")
    assert whole["steps"] == parts["steps"] == 94
    assert parts["loss"] == pytest.approx(whole["loss"], rel=1e-3)


@pytest.mark.long
def test_the_rate_follows_the_batch_by_the_rule() -> None:
    words = ("--workers", "2", "--batches", "0:32, 2:64", "--epochs", "3", "--task-option", "hidden=16")
    linear, constant = (trained(*words, "--rule", rule)[0] for rule in ("linear", "constant"))
    assert constant["loss"] != pytest.approx(linear["loss"], rel=1e-3)


def test_a_recipe_goes_on_where_it_was_stopped() -> None:
    words = ("--workers", "2", "--recipe", "sony(base_batch=64)", "--task-option", "hidden=8")
    first, _ = trained(*words, "--epochs", "3")
    ended = process("train", "--json", "--resume", "--epochs", "4")
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["steps"] > first["steps"]  # type: ignore[operator]


def test_a_batch_that_nobody_asked_for_is_not_too_large(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "import torch\nfrom gossamer.tasks import Task\nfrom gossamer.tasks.task import classified\n"
        "def tiny(seed=0):\n    x = torch.randn(20, 3)\n    data = (x, (x[:, 0] > 0).long())\n"
        "    return Task(torch.nn.Linear(3, 2), data, data, classified)\n"
    )
    trained("--workers", "2", "--task", "own:tiny", "--batches", "0:4", "--epochs", "3")


@pytest.mark.long  # test_prepare_scaler looks at what codecs see in the usual run
def test_a_threshold_means_in_16_bits_what_it_means_in_32() -> None:
    words = ("--workers", "2", "--epochs", "6", "--strategy", "strom(threshold=0.01)", "--rate", "0.2")
    wide, short = (trained(*words, "--precision", precision)[0] for precision in ("fp32", "fp16"))
    assert short["accuracy"] == pytest.approx(wide["accuracy"], abs=0.03)


@pytest.mark.parametrize("name", FAMOUS)
def test_every_recipe_says_what_it_comes_to(name: str) -> None:
    ended = ask("train", "--recipe", name, "--dry-run", "--workers", "2")
    assert ended.exit_code == 0, ended.output
    assert f"recipe {name}" in ended.stdout and "per worker" in ended.stdout
    said = json.loads(ask("train", "--recipe", f"{name}(base_batch=64)", "--dry-run", "--json").stdout)
    assert said["settings"]["batches"].startswith("0:64") and said["from"]["batches"] == f"recipe {name}(base_batch=64)"
    own = json.loads(ask("train", "--recipe", name, "--rate", "0.5", "--dry-run", "--json").stdout)
    assert own["settings"]["rate"] == 0.5 and own["from"]["rate"] == "--rate"


def test_blocks_begin_as_the_identity_where_the_model_has_any() -> None:
    for options, wanted in (([], None), (["--task-option", "model=resnet"], "Residual")):
        said = json.loads(ask("train", "--recipe", "goyal", *options, "--dry-run", "--json").stdout)
        assert said["settings"]["zero_gamma"] == wanted
        assert said["from"]["zero_gamma"].startswith("recipe goyal" if wanted else "default: the model has no")


def test_linear_scaling_goes_down_as_well() -> None:
    said = json.loads(ask("train", "--recipe", "goyal(base_batch=64)", "--dry-run", "--json").stdout)
    assert said["settings"]["rate"] == pytest.approx(0.1 * 64 / 256)


def test_the_published_table() -> None:
    found = json.loads(ask("recipes", "--json").stdout)
    runs = {run["work"]: run for run in found["runs"]}
    first, second = (runs[f"Mikami et al. (Sony), {version}"] for version in ("v1", "v2"))
    assert first["updates_per_epoch"] == [37, 19] and second["updates_per_epoch"] == [24]
    assert first["images_per_second"] == pytest.approx(0.51e6, rel=0.02)
    assert second["images_per_second"] == pytest.approx(0.95e6, rel=0.02)
    assert all(len(run["sure"]) == 6 and run["source"] for run in found["runs"])
    assert [each["name"] for each in found["recipes"]] == list(FAMOUS)
    told = ask("recipes").stdout
    assert "~34K -> 68K" in told and "? hardly so: no paper's word" in told and "not the paper's" in told
    assert "Published: Goyal" in ask("recipes", "goyal").stdout


def test_an_unknown_recipe_is_refused() -> None:
    ended = ask("recipes", "sonny")
    assert ended.exit_code == 2 and "nearest that works: sony" in ended.output
