"""Checkpoints on disk: what is written is read, what is kept is kept, and names are names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tests.engine.specimen import write
from torch import nn

from gossamer.engine.checkpoint import Draft, latest, load, steps
from gossamer.parts.refusal import Refused


def test_what_is_written_is_read(tmp_path: Path) -> None:
    facts = {"strategy": "allreduce()", "world": 4, "rates": [0.1, 1e-300, True, None], "ünï": {"a": {}}}
    folder = write(tmp_path / "deep" / "root", 7, facts)
    assert sorted(path.name for path in folder.iterdir()) == [
        "manifest.json",
        "member-0.safetensors",
        "member-1.safetensors",
        "model.safetensors",
    ]
    for saved in (load(folder.parent), load(folder), load(folder.parent, 7)):
        assert (saved.step, saved.facts, saved.skipped) == (7, {"step": 7, **facts}, [])
        assert saved.names == ["member-0", "member-1", "model"]
        assert torch.equal(saved.tensors("model.safetensors")["layer.weight"], torch.full((5, 2), 7.0))
        assert saved.tree("member-1")[0] == (7,)
    assert list(load_file(folder / "model.safetensors")) == ["layer.weight"]  # any safetensors reader reads it


def test_the_newest_are_kept_and_later_ones_are_not_touched(tmp_path: Path) -> None:
    assert (steps(tmp_path / "nowhere"), latest(tmp_path)) == ([], None)
    for step in (9, 10, 100, 30):
        write(tmp_path, step)
    assert (steps(tmp_path), latest(tmp_path)) == ([10, 30, 100], 100)  # 9 is older than the two newest up to 30
    write(tmp_path, 200, keep=4)
    assert steps(tmp_path) == [10, 30, 100, 200]
    assert [load(tmp_path, step).step for step in (10, 30, 100, 200)] == [10, 30, 100, 200]
    with pytest.raises(Refused, match="keep must be from 2"):
        write(tmp_path, 300, keep=1)


def test_a_step_saved_again_replaces_the_first(tmp_path: Path) -> None:
    write(tmp_path, 1)
    write(tmp_path, 2, {"try": 1})
    write(tmp_path, 2, {"try": 2})
    assert load(tmp_path).facts["try"] == 2
    assert sorted(os.listdir(tmp_path)) == ["step-1", "step-2"]


def test_leavings_of_killed_runs_go_at_the_next_save(tmp_path: Path) -> None:
    killed = Draft.begin(tmp_path, 5, 0)
    killed.put("model", {"w": torch.ones(3)})
    (tmp_path / ".step-3.gone").mkdir()
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / ".hidden").mkdir()
    assert (steps(tmp_path), killed.folder.exists()) == ([], True)
    write(tmp_path, 6)
    assert sorted(os.listdir(tmp_path)) == [".hidden", "notes.txt", "step-6"]


def test_tied_overlapping_and_strided_tensors_are_written(tmp_path: Path) -> None:
    flat = torch.arange(12.0)
    tied = nn.Linear(3, 3)
    tensors = {"head": flat[:8], "tail": flat[4:], "turned": flat.view(3, 4).t(), "a": tied.weight, "b": tied.weight}
    tensors |= {"none": torch.empty(0, 2), "half": flat.bfloat16(), "one": torch.tensor(3.0), "every": flat[::2]}
    draft = Draft.begin(tmp_path, 0, 0)
    draft.seal({}, {"m": draft.put("m", tensors)})
    back = load(tmp_path).tensors("m")
    assert back.keys() == tensors.keys()
    assert all(torch.equal(back[name], tensors[name]) and back[name].dtype == tensors[name].dtype for name in tensors)
    assert torch.equal(flat, torch.arange(12.0))


@pytest.mark.parametrize("name", ["../model", "a/b", "", ".hidden", "a\0b", "manifest.json/..", "x" * 200, "é", "a\n"])
def test_a_name_is_never_a_path(tmp_path: Path, name: str) -> None:
    draft = Draft.begin(tmp_path, 0, 0)
    with pytest.raises(Refused, match="is no name for a file"):
        draft.put(name, {})


def test_misuse_is_refused(tmp_path: Path) -> None:
    draft = Draft.begin(tmp_path, 0, 0)
    digest = draft.put("model", {"w": torch.ones(1)})
    with pytest.raises(Refused, match="put twice"):
        draft.put("model.safetensors", {})
    with pytest.raises(Refused, match="cannot hold 'z' of torch"):
        draft.put("other", {"z": torch.ones(1, dtype=torch.complex128)})
    with pytest.raises(Refused, match="digest without put: other"):
        draft.seal({}, {"model": digest, "other": digest})
    with pytest.raises(Refused, match="put without digest"):
        draft.seal({}, {})
    for facts in ({"a": (1,)}, {"a": {1: 2}}, {"a": float("nan")}, {"a": torch.ones(1)}, {"a": object()}):
        with pytest.raises(Refused, match="facts"):
            draft.seal(facts, {"model": digest})
    with pytest.raises(Refused, match="step must be from 0"):
        Draft.begin(tmp_path, -1, 0)
    assert steps(tmp_path) == []
    (draft.folder / ".left-by-a-file-system").touch()
    assert draft.seal({}, {"model": digest}).name == "step-0"
