"""A strategy that needs what the world does not have is refused at every door, before any process starts."""

from __future__ import annotations

import sys
from pathlib import Path
from time import monotonic

import pytest
from tests.cli.ask import refused

from gossamer.cli import train_play

ALONE = "gossip needs company, and there is 1 worker; nearest that works: 2 workers, or allreduce()"
WORLDS = [
    ("gossip_pull", 1, f"RandomPeer: {ALONE}"),
    ("adpsgd", 1, f"RandomPair: {ALONE}"),
    ("gossip_pga", 1, f"Cycle: {ALONE}"),
    ("backup_workers(4)", 4, "4 backups of 4 workers leave nobody to wait for; nearest that works: AllBut(3), or 5 w"),
    (
        "backup_workers",
        1,
        "1 backup of 1 worker leaves nobody to wait for; nearest that works: no quorum, or 2 workers",
    ),
    ("softsync(8)", 4, "one in 8 of 4 workers is nobody; nearest that works: OneIn(4), or 8 workers"),
    (
        "dpsgd(Grid())",
        5,
        "5 workers make a torus of 5 x 1, which is a circle; nearest that works: Cycle(), or 6 workers",
    ),
    ("dpsgd(Grid(x=3))", 4, "4 workers do not fill rows of 3; nearest that works: Grid()"),
    ("Exchange(PARAMETERS, topology=Graph(((0, 1), (1, 0))))", 1, f"Graph: {ALONE}"),
]
WAYS = {
    "train": ("train", "--strategy", "{}", "--workers", "{}"),
    "dry run": ("train", "--strategy", "{}", "--workers", "{}", "--dry-run"),
    "run file": ("train", "run.toml"),
    "run": ("run", "--strategy", "{}", "--nproc-per-node", "{}", "script.py"),
    "rehearse": ("rehearse", "{}", "--workers", "{}"),
    "show": ("show", "{}", "--workers", "{}"),
}
HERE = {"script.py", "run.toml"}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where whoever is started leaves a trace."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(train_play, "COMMAND", [str(tmp_path / "nobody_starts_me.py")])
    (tmp_path / "script.py").write_text("from pathlib import Path; Path('started').touch()")


@pytest.mark.parametrize(("strategy", "workers", "said"), WORLDS)
@pytest.mark.parametrize("way", WAYS)
def test_it_is_one_line_in_seconds_and_nobody_starts(
    way: str, strategy: str, workers: int, said: str, tmp_path: Path
) -> None:
    (tmp_path / "run.toml").write_text(f'strategy = "{strategy}"\nworkers = {workers}\n')
    given, began = iter((strategy, str(workers))), monotonic()
    line = refused(*(next(given) if word == "{}" else word for word in WAYS[way]))
    assert line.startswith("gossamer: ") and said in line and len(line.splitlines()) == 1
    assert monotonic() - began < 10.0
    assert {each.name for each in tmp_path.iterdir()} == HERE


def test_all_reduce_of_one_is_fine() -> None:
    """And so is a hub of one; it is gossip that needs company."""
    from tests.cli.ask import ask

    for strategy in ("allreduce", "local_sgd", "parameter_server", "hogwild"):
        assert ask("train", "--strategy", strategy, "--workers", "1", "--dry-run").exit_code == 0
