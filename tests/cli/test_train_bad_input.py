"""Bad input to `train`: exit code 2, one clear line, no traceback, no worker started and no folder made."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.ask import process, refused

from gossamer.cli import train_play


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(train_play, "COMMAND", [str(tmp_path / "nobody_starts_me.py")])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--strategy", "localsgd"], "^^^^^^^^"),
        (["--strategy", "dgc(density=2)"], "density must lie above 0 up to 1"),
        (["--strategy", "sgp", "--workers", "1"], "gossip needs company"),
        (["--workers", "two"], "gossamer: train: --workers must be a whole number, not 'two'"),
        (["--steps", "3", "--steps=1.5"], "gossamer: train: --steps must be a whole number, not '1.5'"),
        (["--rate", "fast"], "gossamer: train: --rate must be a number, not 'fast'"),
        (["--workers", "0"], "workers must be from 1 to 1024"),
        (["--workers", "100000"], "nearest that works: workers=1024"),
        (["--workers", "1000", "--batch", "2"], "nearest that works: a batch of 1 per worker"),
        (["--seed", "-1"], "seed must be"),
        (["--rate", "nan"], "rate must lie"),
        (["--momentum", "1"], "momentum must lie"),
        (["--decay", "-1"], "decay must lie"),
        (["--clip", "0"], "clip must lie above 0"),
        (["--clip", "nan"], "clip must lie above 0"),
        (["--optimizer", "lion"], "nearest that works: sgd"),
        (["--strategy", "dgc", "--momentum", "0.9"], "keeps the momentum itself"),
        (["--strategy", "dgc", "--optimizer", "adam"], "keeps the momentum itself"),
        (["--batch", "0"], "batch must be from 1"),
        (["--batch", "1000"], "nearest that works: a batch of 299 per worker"),
        (["--steps", "0"], "steps must be from 1"),
        (["--epochs", "nan"], "epochs must lie"),
        (["--epochs", "1", "--steps", "1"], "both say how long"),
        (["--target", "1.5"], "target must lie"),
        (["--recipe", "sonny"], "there is no recipe 'sonny'; there are goyal, smith, you, akiba, jia, sony"),
        (["--recipe", "sony(base=64)"], "base_batch"),
        (["--recipe", "goyal(epochs=None)"], "epochs must"),
        (["--recipe", "sony(epochs=10)", "--epochs", "5"], "the recipe says 10 epochs, and --epochs 5"),
        (["--recipe", "sony", "--steps", "5"], "nearest that works: --epochs instead of --steps"),
        (
            ["--recipe", "sony(base_batch=62)"],
            "a batch of 62 cannot be shared by 4 workers; nearest that works: base_batch=64",
        ),
        (["--batches", "0:30"], "a batch of 30 cannot be shared by 4 workers; nearest that works: --batches '0:32'"),
        (["--batches", "0:32", "--batch", "4"], "both say how large a step is"),
        (["--batches", ""], "'' is no epoch and size"),
        (["--recipe", "sony(base_batch=256)", "--batch", "8"], "says base_batch=256, and --batch 8 on 4 workers 32"),
        (["--batches", "0:64, 2:4096"], "a step of 4,096 samples, and there are 1,198"),
        (["--batches", "0:64, 50:128"], "a size begins at epoch 50 of a run of 40; nearest that works: a run of 51"),
        (["--schedule", "Warmup(epochs=50)"], "epochs=50 is not over in a run of 40 epochs"),
        (["--schedule", "Cosin()"], "nearest that works: Cosine"),
        (["--schedule", "Cosine()", "--steps", "9"], "count in epochs"),
        (["--rule", "square", "--batches", "32"], "nearest that works: linear or constant"),
        (["--smoothing", "1"], "smoothing must lie"),
        (["--at-once", "0"], "at-once must be from 1"),
        (["--workers", "700", "--batches", "1400"], "a step of 1,400 samples, and there are 1,198"),
        (["--evaluate-every", "0"], "evaluate-every must be from 1"),
        (["--save-every", "0"], "save-every must be from 1"),
        (["--keep", "1"], "keep must be from 2"),
        (["--fabric", "share"], "there are auto, shared, hosts, torch, messages; nearest that works: shared"),
        (["--fabric", "x"], "there is no fabric 'x'"),
        (["--trouble", "explode(rank=1)"], "there is no 'explode'"),
        (["--trouble", "fail(rank=4, step=1)"], "the ranks are 0 to 3"),
        (["--task", "nothing"], "nearest that works: digits, characters, idx"),
        (["--task", "no_such_module:make"], "module 'no_such_module' cannot be found"),
        (["--task", "json:make"], "has no function 'make'"),
        (["--task", "idx"], "missing a required argument: 'path'"),
        (["--task-option", "model=vgg"], "mlp, cnn or resnet"),
        (["--task-option", "model"], "is not key=value"),
        (["--resume"], "there is no run in runs; nearest that works: gossamer train"),
        (["--resume", "--json"], "there is no run in runs"),
        (["--resume", "20200101-000000-allreduce"], "there is no run '20200101-000000-allreduce', here or in runs"),
        (["--resume", "."], "holds no run.toml"),
    ],
)
def test_bad_input(words: list[str], said: str, tmp_path: Path) -> None:
    lines = refused("train", *words)
    assert said in lines
    assert len(lines.splitlines()) == 1 or "^" in lines
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_refused_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for folder in ("file", "file/runs", "/proc/runs"):
        line = refused("train", "--steps", "1", "--folder", folder)
        assert line.startswith(f"gossamer: folder: {folder} ") and len(line.splitlines()) == 1


OWN = """
from torch import arange, nn, randn
from gossamer.tasks import Task
x, y = randn(64, 4), arange(64) % 2
def raises(seed=0): return 1 / 0
def raising(model, batch): return {}["no such key"]
def fails(seed=0): return Task(nn.Linear(4, 2), (x, y), (x, y), raising)
def still(seed=0): return Task(nn.ReLU(), (x, y), (x, y), lambda m, b: (m(b[0]).sum(), 2, {}))
def short(seed=0): return Task(nn.Linear(4, 2), (x, y), (x, y), lambda m, b: m(b[0]).sum())
"""


def test_tasks_that_cannot_train_are_refused(tmp_path: Path) -> None:
    (tmp_path / "owntask.py").write_text(OWN)
    for words, said in (
        (["--task", "owntask:still"], "the model of owntask:still has no parameter that trains"),
        (["--task", "owntask:short"], "the loss of owntask:short gave only a Tensor"),
        (["--task", "owntask:rases"], "has no function 'rases'; nearest that works: raises"),
        (["--task", "owntask:fails", "--path", "nowhere"], "path: there is no folder nowhere"),
    ):
        assert said in refused("train", "--steps", "1", *words)


def test_a_task_that_raises_shows_its_own_traceback_and_nothing_of_ours(tmp_path: Path) -> None:
    (tmp_path / "owntask.py").write_text(OWN)
    for name, last in (("raises", "ZeroDivisionError: division by zero"), ("fails", "KeyError: 'no such key'")):
        done = process("train", "--task", f"owntask:{name}", where=tmp_path)
        lines = done.stderr.splitlines()
        assert (done.returncode, done.stdout, lines[0], lines[-1]) == (
            1,
            "",
            "Traceback (most recent call last):",
            last,
        )
        assert [line.split('"')[1] for line in lines if line.startswith("  File")] == [str(tmp_path / "owntask.py")]


def run(name: str, *steps: int) -> Path:
    folder = Path("runs") / name
    for step in steps:
        (folder / "checkpoints" / f"step-{step}").mkdir(parents=True)
        (folder / "checkpoints" / f"step-{step}" / "manifest.json").write_text("{}")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "run.toml").write_text("steps = 20\nbatch = 8\n[options]\nhidden = 8\n")
    return folder


def test_runs_that_cannot_go_on_are_refused() -> None:
    done = run("20260101-000000-allreduce", 10, 20)
    assert "has done its 20 steps; nearest that works: --resume runs/20260101-000000-allreduce --steps 40" in refused(
        "train", "--resume"
    )
    empty = run("20260101-000001-sgp")
    (empty / "checkpoints" / "step-3").mkdir(parents=True)  # no manifest: it was being written
    assert f"has no checkpoint to go on from; nearest that works: {done}" in refused("train", "--resume")
    assert "nearest that works: 20260101-000001-sgp" in refused("train", "--resume", "20260101-000011-sgp")
    assert "both say what to run" in refused("train", str(done / "run.toml"), "--resume", str(done))
    torn = run("20260101-000002-torn", 5)
    (torn / "run.toml").write_text("steps = [")
    assert "is not TOML" in refused("train", "--resume", torn.name)
