"""Savers killed at any moment leave the old checkpoint or the new one, never a mixture; so do full disks."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.conftest import ROOT

from gossamer.engine.checkpoint import Draft, Keeper, Role, load, steps
from gossamer.parts.refusal import Refused


def killed(root: Path, how: str) -> list[dict[str, Any]]:
    """What savers left that were killed in this way; each look has been checked to be of one save."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "src")]), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.engine.saver", str(root), how]
    ran = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stderr
    looks = [json.loads(line) for line in ran.stdout.splitlines()]
    for look in looks:
        assert len(look["values"]) == 1
        assert look["values"][0] >= look["before"]
        assert look["whole"][-2:] == ([look["step"] - 1, look["step"]] if look["step"] else [0])
    return looks


def test_savers_killed_at_random_leave_the_old_or_the_new(tmp_path: Path) -> None:
    looks = killed(tmp_path, "random")
    assert len(looks) == 30
    assert sum(bool(look["hidden"]) for look in looks) >= 5  # most were caught in the act
    assert looks[-1]["step"] > 0


@pytest.mark.parametrize("pace", [1, 0], ids=["new steps", "the same step again"])
def test_savers_killed_everywhere_leave_the_old_or_the_new(tmp_path: Path, pace: int) -> None:
    looks = killed(tmp_path, str(pace))
    assert looks[-1]["ended"]
    assert len(looks) > 18
    assert {look["values"][0] - look["before"] for look in looks} == {0, 1}
    assert sum(look["values"][0] > look["before"] for look in looks[:-1]) >= 2  # sealed, and killed clearing away


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """One megabyte of disk at `folder`; where nobody may mount one, files of half a megabyte at most."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(folder)]
    if os.geteuid() == 0 and subprocess.run(mount, capture_output=True, check=False).returncode == 0:
        try:
            yield
        finally:
            subprocess.run(["umount", str(folder)], check=True)
        return
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def floats(draft: Draft, count: int) -> Mapping[str, str]:
    """Put one file of this many floats."""
    name = f"member-{draft.member}"
    return {name: draft.put(name, {"x": torch.full((count,), float(draft.step))})}


FEW, MANY = 20_000, 1_000_000


def test_a_full_disk_costs_one_warning_and_no_checkpoint(tmp_path: Path) -> None:
    said: list[str] = []
    (tmp_path / "disk").mkdir()
    with small_disk(tmp_path / "disk"):
        root = tmp_path / "disk" / "saves"
        keeper = Keeper(root, warn=said.append)
        assert keeper.save(1, lambda draft: floats(draft, FEW), {}) == root / "step-1"
        assert keeper.save(2, lambda draft: floats(draft, MANY), {}) is None
        assert keeper.save(3, lambda draft: floats(draft, MANY), {}) is None
        assert os.listdir(root) == ["step-1"]
        assert load(root).tensors("member-0")["x"].tolist() == [1.0] * FEW
        assert len(said) == 1
        assert "step 2 is not saved" in said[0]
        assert "the newest is step 1" in said[0]
        assert keeper.save(4, lambda draft: floats(draft, FEW), {"after": True}) == root / "step-4"
        assert keeper.save(5, lambda draft: floats(draft, MANY), {}) is None
        assert len(said) == 2  # it worked in between, so this is news
        assert (steps(root), load(root).facts) == ([1, 4], {"after": True})


def test_a_disk_too_full_for_the_manifest(tmp_path: Path) -> None:
    said: list[str] = []
    (tmp_path / "disk").mkdir()
    with small_disk(tmp_path / "disk"):
        root = tmp_path / "disk"
        keeper = Keeper(root, warn=said.append)
        assert keeper.save(1, lambda draft: floats(draft, FEW), {}) is not None
        assert keeper.save(2, lambda draft: floats(draft, FEW), {"long": "x" * 2_000_000}) is None
        assert os.listdir(root) == ["step-1"]
        assert len(said) == 1


class Table:
    """Members of one process that tell each other words."""

    def __init__(self, size: int) -> None:
        self._words, self._all = [""] * size, threading.Barrier(size, timeout=20.0)

    def share(self, member: int, word: str) -> list[str]:
        self._words[member] = word
        self._all.wait()
        heard = list(self._words)
        self._all.wait()
        return heard


def test_one_members_trouble_is_everybodys(tmp_path: Path) -> None:
    said: list[tuple[int, str]] = []
    ended: dict[tuple[int, int], Path | None] = {}
    (tmp_path / "disk").mkdir()
    table, sizes = Table(3), {1: (FEW, FEW, FEW), 2: (FEW, MANY, FEW), 3: (MANY, MANY, FEW), 4: (FEW, FEW, FEW)}

    def play(member: int) -> None:
        keeper = Keeper(tmp_path / "disk", warn=lambda text: said.append((member, text)))
        for step, counts in sizes.items():
            ended[step, member] = keeper.save(
                step,
                lambda draft, count=counts[member]: floats(draft, count),
                {},
                Role(member),
                lambda word: table.share(member, word),
            )

    with small_disk(tmp_path / "disk"):
        players = [threading.Thread(target=play, args=(member,)) for member in range(3)]
        for player in players:
            player.start()
        for player in players:
            player.join()
        assert steps(tmp_path / "disk") == [1, 4]
        assert load(tmp_path / "disk").names == ["member-0", "member-1", "member-2"]
    for step in sizes:
        folder = tmp_path / f"disk/step-{step}" if step in (1, 4) else None
        assert [ended[step, member] for member in range(3)] == [folder] * 3
    assert [member for member, _ in said] == [0]
    assert "member 1: " in said[0][1]


def test_a_place_that_is_no_folder(tmp_path: Path) -> None:
    said: list[str] = []
    (tmp_path / "file").write_text("mine")
    for root in (tmp_path / "file", tmp_path / "file" / "below"):
        assert Keeper(root, warn=said.append).save(1, lambda draft: floats(draft, FEW), {}) is None
    assert len(said) == 2
    assert all("there is no earlier one" in text for text in said)
    with pytest.warns(UserWarning, match="training goes on"):
        Keeper(tmp_path / "file").save(1, lambda draft: floats(draft, FEW), {})


def test_a_mistake_is_no_trouble_with_the_disk(tmp_path: Path) -> None:
    keeper = Keeper(tmp_path)
    with pytest.raises(Refused, match="is no name"):
        keeper.save(1, lambda draft: {"x": draft.put("../x", {})}, {})
    with pytest.raises(Refused, match="keep must be"):
        Keeper(tmp_path, keep=0)
