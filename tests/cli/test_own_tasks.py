"""A task of the user's own: what breaks the contract is refused, what breaks inside it is the user's to see."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from tests.cli.ask import ask, refused, told
from torch import nn

from gossamer import tasks
from gossamer.parts.refusal import Refused
from gossamer.tasks.task import Task, classified

OWN = """
import torch
from torch import nn
from gossamer.tasks.task import Task, classified

def alone(model, batch):
    return nn.functional.cross_entropy(model(batch[0]), batch[1])

def uncounted(model, batch):
    return alone(model, batch), None, {}

def unread(model, batch):
    return open("/no/such/batch")

def make(seed=0, kind="fine"):
    x, y = torch.randn(64, 4), torch.randint(0, 2, (64,))
    if kind == "adds":
        1 + "a"
    if kind == "opens":
        open("/no/such/data")
    test = (x[:0], y[:0]) if kind == "untested" else (x, y)
    train = (x, y[:-3]) if kind == "unequal" else [x, y] if kind == "listed" else (x, y)
    loss = {"alone": alone, "uncounted": uncounted, "unread": unread}.get(kind, classified)
    return 7 if kind == "seven" else Task(nn.Linear(4, 2), train, test, loss)

word = "not to be called"
"""
QUICK = ("--workers", "2", "--steps", "2", "--no-journal")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Stand where the task lies; forget its modules afterwards."""
    import sys

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    (tmp_path / "own_task.py").write_text(OWN)
    yield
    sys.modules.pop("own_task", None)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("untested", "test holds no samples"),
        ("unequal", "the tensors of train have 64, 61 rows"),
        ("listed", "nearest that works: train=(inputs, labels)"),
        ("alone", "gave only a Tensor; nearest that works: loss(model, batch) -> (loss, count, metrics)"),
        ("uncounted", "gave the count None"),
        ("seven", "gave a int, not a Task"),
    ],
)
def test_what_breaks_the_contract_is_refused(kind: str, said: str) -> None:
    assert said in refused("rehearse", "--task", "own_task:make", "--task-option", f"kind={kind}", *QUICK)


@pytest.mark.parametrize(
    ("kind", "error"), [("adds", TypeError), ("opens", FileNotFoundError), ("unread", FileNotFoundError)]
)
def test_what_breaks_inside_keeps_its_own_error(kind: str, error: type[Exception]) -> None:
    result = ask("rehearse", "--task", "own_task:make", "--task-option", f"kind={kind}", *QUICK)
    assert isinstance(result.exception, error), result.stderr
    assert "gossamer:" not in result.stderr


def test_options_the_function_does_not_take_are_refused_with_those_it_does() -> None:
    lines = refused("rehearse", "--task", "own_task:make", "--task-option", "sort=1", *QUICK)
    assert "unexpected keyword argument 'sort'; nearest that works: own_task:make(kind='fine')" in lines
    assert "is a str, and cannot be called" in refused("rehearse", "--task", "own_task:word", *QUICK)
    for name in (":make", "own_task:", ".own_task:make", "own task:make", "own_task:make()"):
        assert "is not module:function" in refused("rehearse", "--task", name, *QUICK)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("\ndef make(seed=0:\n", "torn.py:2: SyntaxError: "),
        ("import os\n\nraise TypeError('no luck')\n", "torn.py:3: TypeError: no luck"),
        ("import no_such_thing\n", "torn.py:1: ModuleNotFoundError: No module named 'no_such_thing'"),
        ("x = open('/no/such/file')\n", "torn.py:1: FileNotFoundError: "),
        ("import sys\nsys.exit(0)\n", "torn.py:2: SystemExit: 0"),
    ],
)
def test_a_module_that_cannot_be_loaded_is_refused_with_place_and_reason(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "torn.py").write_text(text)
    lines = refused("rehearse", "--task", "torn:make", *QUICK)
    assert said in lines and len(lines.splitlines()) == 1


def images(folder: Path, part: str, shape: tuple[int, int, int]) -> None:
    pixels = bytes(place * 37 % 256 for place in range(shape[0] * shape[1] * shape[2]))
    folder.mkdir(exist_ok=True)
    (folder / f"{part}-images-idx3-ubyte").write_bytes(bytes((0, 0, 8, 3)) + struct.pack(">3I", *shape) + pixels)
    labels = bytes(place % 3 for place in range(shape[0]))
    (folder / f"{part}-labels-idx1-ubyte").write_bytes(bytes((0, 0, 8, 1)) + struct.pack(">I", shape[0]) + labels)


@pytest.mark.parametrize("model", ["mlp", "cnn", "resnet"])
def test_images_need_not_be_square(model: str, tmp_path: Path) -> None:
    for part in ("train", "t10k"):
        images(tmp_path / "wide", part, (32, 4, 6))
    words = ("rehearse", "--task", "idx", "--task-option", "path=wide", "--task-option", f"model={model}", *QUICK)
    assert told(*words)["steps"] == 2


def test_images_that_do_not_suit_are_refused(tmp_path: Path) -> None:
    for part in ("train", "t10k"):
        images(tmp_path / "dots", part, (32, 1, 1))
    words = ("rehearse", "--task", "idx", "--task-option", "path=dots", *QUICK)
    assert "nearest that works: mlp" in refused(*words, "--task-option", "model=cnn")
    assert told(*words)["steps"] == 2
    images(tmp_path / "dots", "t10k", (32, 1, 2))
    assert "images to train on are 1 x 1, those to test on 1 x 2" in refused(*words)


def test_evaluating_puts_dropout_and_statistics_to_rest_and_back() -> None:
    inputs, labels = torch.randn(64, 4, generator=torch.Generator().manual_seed(0)), torch.arange(64) % 2
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 2))
    model[3].eval()
    task = Task(model, (inputs, labels), (inputs, labels), classified)
    before = model[1].running_mean.clone()
    assert tasks.evaluate(task, model) == tasks.evaluate(task, model)
    assert torch.equal(model[1].running_mean, before)
    assert [part.training for part in model] == [True, True, True, False]
    with pytest.raises(Refused, match="must be a torch module"):
        Task(classified, (inputs,), (inputs,), classified)  # type: ignore[arg-type]
