"""Batch norm as a user asks for it: by option, by run file, by recipe; what the model has not is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.ask import ask, process

from gossamer.recipes.famous import FAMOUS

RESNET = ("--task-option", "model=resnet")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def trained(*words: str) -> dict[str, object]:
    ended = process("train", "--json", *words)
    assert ended.returncode == 0, ended.stderr
    found: dict[str, object] = json.loads(ended.stdout)
    return found


def planned(*words: str) -> tuple[dict[str, object], dict[str, str]]:
    found = json.loads(ask("train", "--dry-run", "--json", *words).stdout)
    return found["settings"], found["from"]


def test_fresh_norms_read_digits() -> None:
    words = ("--workers", "2", "--epochs", "8", *RESNET, "--norms", "fresh", "--zero-gamma", "Residual")
    assert trained(*words)["accuracy"] >= 0.97  # type: ignore[operator]


def test_shared_norms_are_those_of_one_worker_with_the_whole_batch() -> None:
    words = ("--steps", "12", *RESNET, "--task-option", "hidden=8", "--momentum", "0.5", "--evaluate-every", "12")
    one = trained(*words, "--workers", "1", "--batch", "16")
    shared, moving = (trained(*words, "--workers", "2", "--batch", "8", "--norms", n) for n in ("shared", "moving"))
    assert shared["loss"] == pytest.approx(one["loss"], rel=1e-3)
    assert moving["loss"] != pytest.approx(one["loss"], rel=1e-3)


def test_a_run_file_says_it_too(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text('norms = "fresh"\ndecays = "weights"\n[options]\nmodel = "resnet"\n')
    settings, said = planned("run.toml")
    assert (settings["norms"], settings["decays"]) == ("fresh", "weights") and said["norms"] == "run.toml"
    assert planned("run.toml", "--norms", "moving")[0]["norms"] == "moving"


@pytest.mark.parametrize("name", FAMOUS)
def test_a_recipe_asks_for_what_the_model_has(name: str) -> None:
    """Of a model without batch norm it asks for nothing."""
    asked = "fresh" if name in ("akiba", "sony") else "moving"
    with_norms, said = planned("--recipe", name, *RESNET)
    assert with_norms["norms"] == asked and said["norms"] == f"recipe {name}"
    without, said = planned("--recipe", name)
    assert without["norms"] == "moving"
    assert said["norms"] == ("default: the model has no batch norm" if asked == "fresh" else f"recipe {name}")
    assert planned("--recipe", name, *RESNET, "--norms", "shared")[0]["norms"] == "shared"


def test_the_plan_shows_norms_and_is_resumed_with_them() -> None:
    assert "norms fresh" in ask("train", "--recipe", "sony", "--dry-run", *RESNET).stdout
    assert "norms fresh" not in ask("train", "--recipe", "sony", "--dry-run").stdout
    trained("--recipe", "sony(base_batch=64)", "--workers", "2", "--epochs", "1", *RESNET)
    (folder,) = Path("runs").iterdir()
    assert 'norms = "fresh"' in (folder / "run.toml").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--norms", "fresh"], "norms fresh, but the model of digits has no batch norm"),
        (["--norms", "shared"], "norms shared, but the model of digits has no batch norm"),
        (["--recipe", "sony", "--norms", "fresh"], "nearest that works: norms moving, or --task-option model=resnet"),
        (["--norms", "still"], "there are no norms 'still'; nearest that works: moving or fresh or shared"),
        (["--decays", "none"], "there are no decays 'none'; nearest that works: all or weights"),
        ([*RESNET, "--norms", "shared", "--strategy", "gossip_pull"], "does not; nearest that works: norms fresh"),
        ([*RESNET, "--norms", "shared", "--strategy", "backup_workers"], "backup_workers does not"),
        ([*RESNET, "--zero-gamma", "Block"], "no part 'Block' with a norm in it; nearest that works: Residual"),
        (["--zero-gamma", "BasicBlock"], "no part 'BasicBlock' with a norm in it"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(words: list[str], said: str) -> None:
    ended = ask("train", *words)
    assert ended.exit_code == 2 and said in ended.output.replace("\n", " ")
