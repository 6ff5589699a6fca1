"""A worker is lost under `gossamer run`: where nobody waits for it the others train to their end, else all stop."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.processes.test_run import HERE, ended

from gossamer.engine.checkpoint import load
from gossamer.engine.loop.checkpoints import members

SCRIPT = str(HERE / "surviving.py")


def run(folder: Path, strategy: str, fabric: str, how: str, who: int, size: int = 3) -> tuple[int, str]:
    """The launcher's code, and what it and its workers said."""
    words = [f"--nproc-per-node={size}", "--strategy", strategy, "--fabric", fabric, SCRIPT, str(folder), how, str(who)]
    code, _, err = ended(*words, folder=folder)
    return code, err


def finished(folder: Path) -> list[int]:
    """The ranks that made all their steps, and have learnt."""
    found = {int(path.name.removeprefix("done-")): path.read_text().split() for path in folder.glob("done-*")}
    assert all(int(steps) == 120 and float(loss) < 10.0 for steps, loss in found.values()), found
    return sorted(found)


def told(who: int, end: str, size: int = 3) -> str:
    """The one line that a launcher says of a loss that the others survive."""
    return f"gossamer: rank {who} on host 0 (127.0.0.1, ranks 0-{size - 1}) {end} in step 40; the others go on\n"


@pytest.mark.parametrize(
    ("strategy", "fabric"), [("gossip_push", "messages"), pytest.param("gossip_pull", "auto", marks=pytest.mark.long)]
)
def test_the_others_train_to_their_end(strategy: str, fabric: str, tmp_path: Path) -> None:
    code, said = run(tmp_path, strategy, fabric, "raises", 2)
    assert code == 0, said
    assert finished(tmp_path) == [0, 1]
    assert said.count(told(2, "ended with code 1")) == 1, said
    assert said.count("gossamer: member 2 ") == said.count("lost") == 0, "a death is told once"
    assert said.count("ValueError: the numbers of this rank went wrong") == said.count("Traceback") == 1


@pytest.mark.parametrize(
    ("strategy", "fabric", "size"),
    [pytest.param(*case, marks=pytest.mark.long) for case in (("adpsgd", "messages", 4), ("ssp(4)", "auto", 3))],
)
def test_an_average_is_that_of_those_who_are_left(strategy: str, fabric: str, size: int, tmp_path: Path) -> None:
    """The first member dies when all have met for it; in shared memory nobody takes even a hub along."""
    code, said = run(tmp_path, strategy, fabric, "dies in an average", 0, size)
    assert code == 0 and "Traceback" not in said, said
    left = list(range(1, size))
    assert finished(tmp_path) == left
    assert said.count(told(0, "was killed by SIGKILL", size)) == 1, said
    assert said.count("gossamer: member 0 ") == said.count("lost") == 0, "a death is told once"
    one, *others = (torch.load(tmp_path / f"average-{rank}", weights_only=True) for rank in left)
    assert all(torch.equal(*pair) for other in others for pair in zip(one, other, strict=True))
    assert not (tmp_path / "average-0").exists()
    kept = load(tmp_path / "kept")
    assert members(kept) == left and kept.step == 40


@pytest.mark.parametrize(
    ("strategy", "fabric"), [pytest.param("gossip_pull", "torch", marks=pytest.mark.long), ("local_sgd", "messages")]
)
def test_where_the_others_cannot_go_on_all_stop(strategy: str, fabric: str, tmp_path: Path) -> None:
    """Torch's own connections break for all when one does, and an average waits for all."""
    code, said = run(tmp_path, strategy, fabric, "dies", 1)
    assert code == 137 and "the others go on" not in said
    assert said.splitlines()[-1].startswith("gossamer: rank 1 was killed by SIGKILL, and all others were stopped")
    assert finished(tmp_path) == []
