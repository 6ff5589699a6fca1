"""A worker is lost under `gossamer run`: where nobody waits for it the others train to their end, else all stop."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tests.processes.test_run import HERE, ended

SCRIPT = str(HERE / "surviving.py")


def run(folder: Path, strategy: str, fabric: str, how: str, who: int) -> tuple[int, str]:
    """The launcher's code, and what it and its workers said."""
    words = ["--nproc-per-node=3", "--strategy", strategy, "--fabric", fabric, SCRIPT, str(folder), how, str(who)]
    code, _, err = ended(*words, folder=folder)
    return code, err


def finished(folder: Path) -> list[int]:
    """The ranks that made all their steps, and have learnt."""
    found = {int(path.name.removeprefix("done-")): path.read_text().split() for path in folder.glob("done-*")}
    assert all(int(steps) == 120 and float(loss) < 10.0 for steps, loss in found.values()), found
    return sorted(found)


@pytest.mark.parametrize(("strategy", "how", "who"), [("gossip_push", "raises", 2), ("adpsgd", "dies", 0)])
def test_the_others_train_to_their_end(strategy: str, how: str, who: int, tmp_path: Path) -> None:
    code, said = run(tmp_path, strategy, "messages", how, who)
    assert code == 0, said
    assert finished(tmp_path) == [rank for rank in range(3) if rank != who]
    end = "was killed by SIGKILL" if how == "dies" else "ended with code 1"
    line = f"gossamer: rank {who} on host 0 (127.0.0.1, ranks 0-2) {end} in step 40; the others go on\n"
    assert said.count(line) == 1, said
    assert said.count(f"gossamer: member {who} ") == 0, "a death is told once"
    assert said.count("ValueError: the numbers of this rank went wrong") == said.count("Traceback") == (how == "raises")


@pytest.mark.parametrize(("strategy", "how", "who"), [("gossip_pull", "raises", 2), ("ssp(4)", "dies", 0)])
def test_in_shared_memory_nobody_takes_even_a_hub_along(strategy: str, how: str, who: int, tmp_path: Path) -> None:
    code, said = run(tmp_path, strategy, "auto", how, who)
    assert code == 0, said
    assert finished(tmp_path) == [rank for rank in range(3) if rank != who]
    end = "was killed by SIGKILL" if how == "dies" else "ended with code 1"
    line = f"gossamer: rank {who} on host 0 (127.0.0.1, ranks 0-2) {end} in step 40; the others go on\n"
    assert said.count(line) == 1, said
    assert said.count("lost") == 0, "a death is told once"


@pytest.mark.parametrize(
    ("strategy", "fabric", "who"), [("gossip_pull", "auto", 1), ("gossip_pull", "messages", 0), ("ssp(4)", "auto", 2)]
)
def test_an_average_is_that_of_those_who_are_left(strategy: str, fabric: str, who: int, tmp_path: Path) -> None:
    code, said = run(tmp_path, strategy, fabric, "dies in an average", who)
    assert code == 0 and "Traceback" not in said, said
    left = [rank for rank in range(3) if rank != who]
    assert finished(tmp_path) == left
    one, other = (torch.load(tmp_path / f"average-{rank}", weights_only=True) for rank in left)
    assert all(map(torch.equal, one, other)) and not (tmp_path / f"average-{who}").exists()


@pytest.mark.parametrize(("strategy", "fabric"), [("gossip_pull", "torch"), ("local_sgd", "messages")])
def test_where_the_others_cannot_go_on_all_stop(strategy: str, fabric: str, tmp_path: Path) -> None:
    """Torch's own connections break for all when one does, and an average waits for all."""
    code, said = run(tmp_path, strategy, fabric, "dies", 1)
    assert code == 137 and "the others go on" not in said
    assert said.splitlines()[-1].startswith("gossamer: rank 1 was killed by SIGKILL, and all others were stopped")
    assert finished(tmp_path) == []
