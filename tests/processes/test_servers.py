"""Servers: processes of their own that keep hubs. What they compute, who outlives whom, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tests.processes.test_run import HERE, ended
from tests.processes.test_train_survives import TARGET, steps
from tests.processes.test_train_survives import train as trained

from gossamer.engine.checkpoint import load
from gossamer.engine.loop.checkpoints import members

SCRIPT = str(HERE / "serving.py")


def test_a_synchronous_server_is_one_worker_with_the_whole_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the server's own model was: the first worker's counts; and the rates are those of the workers then."""
    words = ["--nproc-per-node=2", "--servers=2", "--strategy", "parameter_server()", SCRIPT, str(tmp_path)]
    code, _, err = ended(*words, folder=tmp_path)
    assert code == 0, err
    assert err.count("gossamer: server 0 keeps shard 0 of 2 of the hub of slot 0") == 1
    monkeypatch.setattr("sys.argv", ["serving", str(tmp_path)])
    monkeypatch.setenv("RANK", "0")
    from tests.processes import serving

    model, optimizer = serving.made()
    whole = [torch.cat([serving.batch(step, rank) for rank in range(2)]) for step in range(serving.STEPS)]
    serving.train(model, optimizer, whole)
    for rank in range(2):
        found = torch.load(tmp_path / f"after-{rank}.pt", weights_only=True)
        for mine, theirs in zip(model.parameters(), found, strict=True):
            torch.testing.assert_close(theirs, mine.detach(), rtol=0, atol=1e-12)
    still, same = serving.made()
    for each in same.param_groups:
        each["lr"] = 0.2
    serving.train(still, same, whole[:3])
    assert not torch.equal(next(still.parameters()), next(model.parameters())), "something is compared"


def train(folder: Path, *words: str) -> tuple[int, str]:
    """How `gossamer train` ended, and all that it said."""
    done = trained(folder, *words)
    return done.returncode, done.stdout + done.stderr


CASES = [
    pytest.param(strategy, rank, rate, marks=() if (strategy, rank) == ("downpour(every=1)", 0) else pytest.mark.long)
    for strategy, rate in (("downpour(every=1)", "0.05"), ("parameter_server", "0.2"))
    for rank in range(4)
]


@pytest.mark.parametrize(("strategy", "rank", "rate"), CASES)
def test_the_others_finish_and_have_learnt(strategy: str, rank: int, rate: str, tmp_path: Path) -> None:
    words = ["--strategy", strategy, "--servers", "1", "--steps", "300", "--batch", "32", "--rate", rate]
    code, said = train(tmp_path, *words, "--trouble", f"fail(rank={rank}, step=30)")
    assert code == 0, said
    (run,) = (tmp_path / "runs").iterdir()
    assert [steps(run, member) for member in range(4)] == [30 if member == rank else 300 for member in range(4)]
    assert said.count(f"rank {rank} was killed by SIGKILL in step 30; the others go on") == 1
    assert said.count("is gone") == 0, "a death is told once"
    seen = [json.loads(line) for path in run.glob("journal-*.jsonl") for line in path.read_text().splitlines()]
    assert max(each["accuracy"] for each in seen if each["kind"] == "evaluation") >= TARGET
    kept = load(run / "checkpoints")
    assert (kept.step, members(kept)) == (300, [member for member in range(4) if member != rank])


@pytest.mark.long
def test_a_run_goes_on_with_other_servers(tmp_path: Path) -> None:
    """To the bit: a hub is the same however it is cut."""
    words = ["--strategy", "parameter_server", "--momentum", "0.9", "--workers", "2", "--save-every", "10"]
    ends = []
    for name, lots in (("one", [("20", "1")]), ("another", [("10", "2"), ("20", "0")])):
        folder = tmp_path / name
        folder.mkdir()
        for number, (until, servers) in enumerate(lots):
            start = ["--resume"] if number else words
            code, said = train(folder, *start, "--steps", until, "--servers", servers)
            assert code == 0, said
        (run,) = (folder / "runs").iterdir()
        (kept,) = (run / "checkpoints").glob("step-20*")
        ends.append((kept / "model.safetensors").read_bytes())
    assert ends[0] == ends[1]


def test_a_push_that_only_some_servers_have_is_told(tmp_path: Path) -> None:
    words = ["--nproc-per-node=2", "--servers=2", "--strategy", "downpour(every=1)", SCRIPT, str(tmp_path), "halves"]
    code, _, err = ended(*words, folder=tmp_path)
    assert code == 0 and (tmp_path / "after-0.pt").exists(), err
    halves = "is in shard 0 of 2 of the hub of slot 0, and not in shard 1 of 2 of the hub of slot 0"
    assert err.count(f"gossamer: rank 1 died in the midst of a push: its push 5 {halves}; the others go on") == 1


def test_nobody_goes_on_without_a_server(tmp_path: Path) -> None:
    words = ["--nproc-per-node=2", "--servers=1", "--strategy", "downpour", str(HERE / "surviving.py"), str(tmp_path)]
    code, _, err = ended(*words, "starts and dies", "2", folder=tmp_path)
    assert code == 137, err
    assert "gossamer: server 0 was killed by SIGKILL, and all others were stopped" in err.splitlines()[-1]


def test_what_servers_cannot_do_is_refused(tmp_path: Path) -> None:
    code, said = train(tmp_path, "--servers", "1")
    assert code == 2 and "a server, but nobody pushes to a hub in" in said and "Traceback" not in said
    code, _, err = ended(
        "--nproc-per-node=2", "--servers=1", "--strategy", "gossip_pull", SCRIPT, str(tmp_path), folder=tmp_path
    )
    assert code == 2 and "a server, but nobody pushes to a hub in" in err and "Traceback" not in err
    words = ["--nproc-per-node=2", "--servers=1", "--strategy", "hogwild", SCRIPT, str(tmp_path), "scarce"]
    code, _, err = ended(*words, folder=tmp_path)
    assert code == 2 and "Traceback" not in err
    assert "server 0: its shards need 8 MB, with all that is remembered of them, and there are 1 MB" in err
