"""The run file: what it says, what it may not say, who overrides whom, and the one that is written back."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.cli.ask import ask, refused, told

from gossamer.cli.train_file import read, written
from gossamer.cli.train_settings import NAMES, Settings, resolve
from gossamer.parts.refusal import Refused

OWN = """
import torch
from torch import nn
from gossamer.tasks.task import Task, classified

def make(seed=0, width=4):
    x, y = torch.randn(64, width), torch.randint(0, 2, (64,))
    return Task(nn.Linear(width, 2), (x, y), (x, y), classified)
"""


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "beside_the_file", raising=False)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("workers = 2\nbatchs = 3\n", "run.toml, line 2: there is no field 'batchs'"),
        ("batchs = 3\n", "nearest that works: batch"),
        ("stratgy = 'sgp'\n", "nearest that works: strategy; the fields are strategy, workers, servers, seed"),
        (
            "qqqqqq = 1\n",
            "there is no field 'qqqqqq'; nearest that works: the fields are strategy, workers, servers, seed",
        ),
        ("seed = 0\nworkers = 'four'\n", "run.toml, line 2: workers must be a whole number, not 'four'"),
        ("workers = 4.5\n", "run.toml, line 1: workers must be a whole number, not 4.5"),
        ("workers = true\n", "workers must be a whole number, not True"),
        ("rate = '0.1'\n", "rate must be a number, not '0.1'"),
        ("strategy = 4\n", "strategy must be text, not 4"),
        ("options = 'model=cnn'\n", "options must be a table"),
        ("evaluate_every = 1\nevaluate-every = 2\n", "line 2: evaluate_every is given twice"),
        ("epochs = 1\nsteps = 2\n", "epochs and steps both say how long"),
        ("workers = \n", "is not TOML: Invalid value (at line 1, column 11)"),
        ("workers = 2\nworkers = 3\n", "is not TOML: Cannot overwrite a value"),
        (
            "[options]\nseed = 3\n",
            "the seed of a task is that of the run; nearest that works: seed = 3 above [options]",
        ),
        ("[options]\nsince = 2020-01-01\n", "options.since is 2020-01-01, which cannot be handed to workers"),
        ("[options]\nsizes = [1.0, inf]\n", "options.sizes is inf, which cannot be handed to workers"),
        ("strategy = 'localsgd'\n", "nearest that works: local_sgd"),
        ("batch = 0\n", "batch must be from 1"),
        ("workers = 2\n[options]\nmodel = 'vgg'\n", "mlp, cnn or resnet"),
        ("a = '" + "x" * 2_000_000 + "'\n", "that is no run file"),
    ],
)
def test_a_wrong_file_is_refused_in_one_line(text: str, said: str, tmp_path: Path) -> None:
    Path("run.toml").write_text(text)
    lines = refused("train", "run.toml")
    assert said in lines
    assert len(lines.splitlines()) == 1 or "^" in lines  # an expression also gets its caret
    assert [each.name for each in tmp_path.iterdir()] == ["run.toml"]


def test_no_file_a_folder_and_no_text_are_refused(tmp_path: Path) -> None:
    assert "No such file or directory" in refused("train", "nowhere.toml")
    assert "nearest that works: --strategy 'local_sgd(every=8)'" in refused("train", "local_sgd(every=8)")
    assert "is a folder, not a run file" in refused("train", str(tmp_path))
    Path("run.toml").write_bytes(b"workers = 4 # \xff")
    assert "is not a text in UTF-8: byte 14" in refused("train", "run.toml")


def test_options_override_the_file_and_the_file_the_defaults() -> None:
    Path("run.toml").write_text("workers = 2\nrate = 0.5\nepochs = 3\n[options]\nmodel = 'mlp'\nhidden = 8\n")
    words = ("train", "run.toml", "--dry-run", "--rate", "0.25", "--steps", "7", "--task-option", "hidden=16")
    found = told(*words)
    said, origin = found["settings"], found["from"]
    assert (said["workers"], origin["workers"]) == (2, "run.toml")
    assert (said["rate"], origin["rate"]) == (0.25, "--rate")
    assert (said["steps"], said["epochs"], origin["steps"]) == (7, None, "--steps")
    assert said["options"] == {"model": "mlp", "hidden": 16}
    assert (said["batch"], origin["batch"]) == (16, "default")
    assert (said["evaluate_every"], origin["evaluate_every"]) == (1, "default: 20 times")
    screen = ask(*words).stdout
    assert "run.toml" in screen and "--task-option" in screen and "batch 32 = 2 x 16" in screen
    assert list(Path().iterdir()) == [Path("run.toml")]


def test_epochs_become_steps_and_say_so() -> None:
    found = told("train", "--dry-run", "--epochs", "2", "--workers", "3", "--batch", "10")
    assert found["settings"]["steps"] == 80
    assert found["from"]["steps"] == "--epochs: 2 epochs of 1,198 samples"
    assert (found["settings"]["epochs"], found["from"]["epochs"]) == (None, "--epochs: in steps from here on")


def test_a_dry_run_shows_every_setting_also_those_nobody_set() -> None:
    rows = {line.split()[0]: line.split()[1:] for line in ask("train", "--dry-run").stdout.splitlines()}
    assert set(NAMES) <= set(rows)
    for name in ("clip", "trouble", "path"):
        assert rows[name] == ["not", "set", "default"]


def test_a_module_lies_beside_the_file(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "beside_the_file.py").write_text(OWN)
    (tmp_path / "there" / "run.toml").write_text("task = 'beside_the_file:make'\nbatch = 8\n[options]\nwidth = 3\n")
    found = told("train", "there/run.toml", "--dry-run")["settings"]
    assert found["options"] == {"width": 3}


WORDS = st.text(st.characters(exclude_categories=["Cs"]))
PLAIN = WORDS | st.integers(-(2**63), 2**63 - 1) | st.booleans() | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner), max_leaves=6)


@given(st.dictionaries(WORDS.filter(lambda key: key != "seed"), VALUES), st.floats(1e-9, 1e4))
def test_what_is_written_is_read_back(options: dict[str, object], rate: float) -> None:
    settings = replace(Settings(), options=options, rate=rate, strategy='a "quoted"\nline\x7f\t\\', trouble=None)
    found = tomllib.loads(written(settings))
    assert Settings(**found) == settings


def test_a_written_file_is_a_run_file(tmp_path: Path) -> None:
    settings = Settings(workers=3, rate=1e-5, steps=10, options={"model": "cnn", "sizes": [1, 2.5]})
    path = tmp_path / "run.toml"
    path.write_text(written(settings), encoding="utf-8")
    assert resolve((str(path), read(path))).settings == settings
    path.write_text("keep = 'x'")
    with pytest.raises(Refused, match="keep must be a whole number"):
        read(path)
