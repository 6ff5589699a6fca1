"""How rate and batch go, as `train` resolves it: what is refused says what works, and that does; the plan is whole."""

from __future__ import annotations

import re
from pathlib import Path
from shlex import split

import pytest
from tests.cli.ask import ask, refused, told

from gossamer.cli.train_folder import make, unfinished
from gossamer.cli.train_request import check
from gossamer.cli.train_settings import resolve
from gossamer.parts.refusal import Refused

OWN = (
    "import torch\nfrom gossamer.tasks import Task\nfrom gossamer.tasks.task import classified\n"
    "def tiny(seed=0, samples=50):\n    x = torch.randn(samples, 3)\n    data = (x, (x[:, 0] > 0).long())\n"
    "    return Task(torch.nn.Linear(3, 2), data, data, classified)\n"
)
TINY = ["--task", "tiny_task:tiny"]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    (tmp_path / "tiny_task.py").write_text(OWN)


def applied(words: list[str], nearest: str) -> list[str]:
    """The words, with what a refusal says instead."""
    first = nearest.partition(", or ")[0].replace(" and ", " ")
    run = re.fullmatch(r"a run of (\d+) epochs", first)
    if run:
        return [*words, "--epochs", run[1]]
    for said in re.findall(r"^(\w+)=(\S+)", first):
        at = words.index("--recipe") + 1
        words = [*words[:at], re.sub(rf"{said[0]}=[\d.]+", "=".join(said), words[at]), *words[at + 1 :]]
        first = first.partition(" ")[2]
    return words + split(first)


@pytest.mark.parametrize(
    "words",
    [
        ["--batches", "0:32, 1:2000", "--epochs", "3"],
        ["--batches", "0:1198"],
        ["--batches", "0:30, 1:1197", "--workers", "5"],
        ["--batches", "0:64, 50:128"],
        ["--batches", "0:64, 50:128", "--schedule", "Warmup(epochs=45)"],
        ["--batches", "0:64", "--workers", "700"],
        ["--batches", "0:64", "--at-once", "8", "--no-accumulate"],
        ["--batches", "0:1200", "--at-once", "8", "--no-accumulate"],
        ["--schedule", "Cosine()", "--at-once", "8", "--no-accumulate"],
        ["--schedule", "Cosine()", "--batch", "400"],
        ["--schedule", "Warmup(epochs=10, then=Steps(), after=True)", "--epochs", "85"],
        ["--schedule", "Warmup(epochs=5, then=Steps())", "--epochs", "4"],
        ["--schedule", "Warmup(epochs=41.5)"],
        ["--recipe", "goyal(warmup=100)"],
        ["--recipe", "sony(grow=2)"],
        ["--recipe", "sony(grow=0)"],
        ["--recipe", "sony(base_batch=62)"],
        ["--recipe", "sony(base_batch=1000)"],
        ["--recipe", "sony", "--batch", "250"],
        ["--recipe", "sony", "--batch", "64", "--at-once", "9", "--no-accumulate"],
        ["--recipe", "sony", "--at-once", "1", "--no-accumulate"],
        [*TINY, "--recipe", "sony", "--workers", "26"],
        [*TINY, "--recipe", "sony(base_batch=80)", "--workers", "40"],
        [*TINY, "--batches", "0:16, 1:64"],
    ],
    ids=" ".join,
)
def test_what_is_said_to_work_does(words: list[str]) -> None:
    words = words if TINY[0] in words else [*TINY, "--task-option", "samples=1198", *words]
    line = refused("train", "--dry-run", *words)
    nearest = line.strip().rpartition("nearest that works: ")[2]
    again = ask("train", "--dry-run", *applied(words, nearest))
    assert again.exit_code == 0, (line, again.stderr)


def test_a_recipe_that_names_no_batch_finds_one_that_fits() -> None:
    assert told("train", "--dry-run", *TINY, "--recipe", "sony")["settings"]["batches"].startswith("0:24, ")


@pytest.mark.parametrize(
    ("text", "words", "said"),
    [
        ('recipe = "sony(base_batch=256, epochs=30)"\nepochs = 60\n', [], "says 30 epochs, and run.toml epochs 60"),
        (
            'recipe = "sony(base_batch=256)"\nbatch = 8\n',
            [],
            "says base_batch=256, and run.toml batch 8 on 4 workers 32",
        ),
        ('recipe = "sony(base_batch=256)"\nbatch = 8\nbatches = "0:64"\n', [], "batch and batches both say"),
        ('batch = 8\nbatches = "0:64"\nepochs = 3\n', [], "batch and batches both say"),
        ('recipe = "sony"\n', ["--batch", "8", "--batches", "64"], "batch and batches both say"),
        ("accumulate = 1\n", [], "run.toml, line 1: accumulate must be true or false, not 1"),
    ],
)
def test_a_file_may_not_contradict_itself_either(text: str, words: list[str], said: str) -> None:
    Path("run.toml").write_text(text)
    assert said in refused("train", "run.toml", "--dry-run", *words)


def test_an_option_overrides_what_a_file_says_by_another_name() -> None:
    Path("run.toml").write_text('batch = 8\nrecipe = "sony"\n')
    found = told("train", "run.toml", "--batches", "0:64", "--dry-run")
    assert (found["settings"]["batches"], found["settings"]["batch"]) == ("0:64", None)
    found = told("train", "run.toml", "--workers", "2", "--dry-run")
    assert (
        found["settings"]["batches"] == "0:16, 30:32" and found["from"]["batch"] == "run.toml: in batches from here on"
    )
    Path("run.toml").write_text('batches = "0:64"\n')
    found = told("train", "run.toml", "--batch", "8", "--dry-run")
    assert (found["settings"]["batches"], found["settings"]["batch"]) == (None, 8)


def test_a_run_of_an_older_version_goes_on() -> None:
    """It wrote a batch beside batches."""
    run = make("runs", "allreduce")
    run.settings.write_text('batch = 16\nbatches = "0:64"\nepochs = 2.0\n')
    (run.checkpoints / "step-5").mkdir(parents=True)
    (run.checkpoints / "step-5" / "manifest.json").write_text("{}")
    assert told("train", "--dry-run", "--resume", run.name)["settings"]["batches"] == "0:64"


def test_accumulation_may_be_off() -> None:
    words = ("train", "--dry-run", "--batches", "0:64", "--at-once", "8")
    assert "64 = 4 x 16 (2 x 8)" in ask(*words).stdout
    line = refused(*words, "--no-accumulate")
    assert "64 on 4 workers is 16 for each, and 8 is the most at a time" in line
    assert line.endswith("nearest that works: --batches '0:32', or --accumulate\n")
    Path("run.toml").write_text("accumulate = false\n")
    assert refused("train", "run.toml", *words[1:]) == line


def test_the_plan_is_told_epoch_by_epoch() -> None:
    """In as many tables side by side as there is room for; as JSON with every number."""
    words = ("train", "--batches", "0:64, 16:128", "--schedule", "Cyclic(period=8)", "--epochs", "96", "--dry-run")
    narrow, wide = (ask(*words, columns=columns).stdout for columns in (80, 150))
    assert narrow.count("per worker") == 1 and wide.count("per worker") == 2
    assert all(len(line) <= 80 for line in narrow.splitlines())
    for shown in (narrow, wide):
        assert re.search(r" 0-1 +64 +16 +19 +0\.012 -> ", shown) and re.search(r" 95-96 +128 +32 +", shown)
    plan = told(*words)["plan"]
    assert len(plan) == 96 and plan[0]["per_worker"] == [16]
    assert max(row["rate_greatest"] for row in plan) == pytest.approx(0.24, rel=0.02)
    assert told("train", "--dry-run")["plan"] == []


def test_a_peak_within_a_row_is_told() -> None:
    shown = ask("train", "--schedule", "Cyclic(period=1)", "--epochs", "3", "--dry-run").stdout
    assert re.search(r"0-1 +64 +16 +19 +0\.012 -> [\d.]+, up to 0\.1", shown)


def test_an_optimizer_that_changes_over_the_run_has_a_pace() -> None:
    found = told("train", "--dry-run", "--optimizer", "rmsprop_to_sgd", "--steps", "100")
    assert found["settings"]["epochs"] == pytest.approx(100 * 64 / 1198) and found["settings"]["steps"] is None
    assert sum(row["steps"] for row in found["plan"]) == 100
    assert told("train", "--dry-run", "--optimizer", "rmsprop_to_sgd")["settings"]["epochs"] == pytest.approx(
        40, abs=0.1
    )


@pytest.mark.parametrize(
    ("said", "done", "longer"),
    [
        ({"steps": 20}, 26, "--steps 52"),
        ({"schedule": "Cosine()", "epochs": 0.5}, 10, "--epochs 1"),
        ({"schedule": "Cosine()", "epochs": 0.5}, 28, "--epochs 3"),
        ({"recipe": "sony(base_batch=32, epochs=2)", "epochs": 2.0}, 50, "--epochs 4"),
    ],
)
def test_a_run_that_is_done_goes_on_by_what_it_is_told(said: dict[str, object], done: int, longer: str) -> None:
    """What a folder says is all resolved: nothing of its recipe is left to contradict."""
    first = check(resolve(("run.toml", said)), [])
    run = make("runs", "allreduce")
    (run.checkpoints / f"step-{done}").mkdir(parents=True)
    (run.checkpoints / f"step-{done}" / "manifest.json").write_text("{}")
    with run.keeping(first.settings, []), pytest.raises(Refused) as caught:
        unfinished(run, first)
    assert caught.value.nearest == f"--resume {run.name} {longer}"
    assert ask("train", "--dry-run", "--resume", run.name, *longer.split()).exit_code == 0
