"""Bad input to `rehearse`: exit code 2, one clear line, no traceback, and nothing played."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.ask import refused


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is written by mistake is written here."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["localsgd"], "nearest that works: local_sgd"),
        (["--strategy", "dgc(density=2)"], "density must lie above 0 up to 1"),
        (["allreduce", "sgp"], "--compare 'allreduce' 'sgp'"),
        (["--compare"], "needs strategies"),
        (["--compare", "allreduce", "nonsense("], "never closed"),
        (["--workers", "-2"], "workers must be from 1"),
        (["--workers", "0"], "workers must be from 1"),
        (["sgp", "--workers", "1"], "gossip needs company"),
        (["--seed", "-1"], "seed must be"),
        (["--rate", "nan"], "rate must lie"),
        (["--rate", "-0.1"], "rate must lie"),
        (["--rate", "inf"], "rate must lie"),
        (["--momentum", "1"], "momentum must lie"),
        (["--decay", "-1"], "decay must lie"),
        (["--optimizer", "lion"], "nearest that works: sgd"),
        (["--optimizer", "adam", "--momentum", "0.9"], "adam has its own momentum"),
        (["dgc", "--momentum", "0.9"], "keeps the momentum itself"),
        (["dgc", "--optimizer", "adam"], "keeps the momentum itself"),
        (["--batch", "0"], "batch must be from 1"),
        (["--batch", "1000"], "nearest that works: a batch of 149 per worker"),
        (["--steps", "0"], "steps must be from 1"),
        (["--epochs", "nan"], "epochs must lie"),
        (["--epochs", "1", "--steps", "1"], "both say how long"),
        (["--target", "1.5"], "target must lie"),
        (["--target", "nan"], "target must lie"),
        (["--evaluate-every", "0"], "evaluate-every must be from 1"),
        (["--compute", "soon"], "not a number with a unit"),
        (["--compute", "10ms,"], "not a number with a unit"),
        (["--compute", "-1"], "compute must lie"),
        (["--jitter", "nan"], "jitter must lie"),
        (["--link", "1parsec"], "1Gbit, 100Mbit/s or 125MB/s"),
        (["--link", "0"], "nearest that works: 1Gbit or 8bit/s"),
        (["--link", "1e40B/s"], "nearest that works: 1Gbit or 8bit/s"),
        (["--link", "10"], "does not say of what"),
        (["--link", "quick"], "not a number with a unit"),
        (["--link", "-1Gbit"], "rate must lie"),
        (["--latency", "1h"], "no unit I know"),
        (["--trouble", "explode(rank=1)"], "there is no 'explode'"),
        (["--trouble", "slow(rank=1)"], "slow(rank, factor, start=0, stop=None)"),
        (["--trouble", "slow(rank=1, factor=0.5)"], "factor must lie"),
        (["--trouble", "fail(rank=8, step=1)"], "the ranks are 0 to 7"),
        (["--task", "nothing"], "nearest that works: digits, characters, idx"),
        (["--task", "no_such_module:make"], "cannot be found"),
        (["--task", "json:make"], "has no function 'make'"),
        (
            ["--task", "idx"],
            "missing a required argument: 'path'; nearest that works: idx(path, model='mlp', hidden=128)",
        ),
        (["--task", "idx", "--task-option", "path=nowhere"], "holds neither train-images-idx3-ubyte"),
        (["--task-option", "model=vgg"], "mlp, cnn or resnet"),
        (["--task-option", "depth=3"], "unexpected keyword argument 'depth'"),
        (["--task-option", "model"], "is not key=value"),
        (["--task-option", "seed=3"], "the seed is given by --seed"),
        (["--task-option", "model=mlp", "--task-option", "model=cnn"], "given twice"),
        (["--task-option", "hidden=99999999"], "nearest that works: hidden=8192"),
        (["--task", "characters", "--task-option", "context=4096", "--task-option", "hidden=8192"], "hidden=2048"),
        (["--workers", "100000"], "nearest that works: 149 workers"),
        (["--workers", "100000", "--batch", "5000"], "nearest that works: 1 worker with a batch of 1198"),
        (["--plot", "."], "nearest that works: plot.png"),
        (["--plot", ""], "nearest that works: plot.png"),
        (["--plot", "plot.bmp"], "nearest that works: plot.png"),
        (["--journal", "a.jsonl", "--no-journal"], "contradict"),
    ],
)
def test_bad_input(words: list[str], said: str, tmp_path: Path) -> None:
    lines = refused("rehearse", *words)
    assert said in lines
    assert list(tmp_path.iterdir()) in ([], [tmp_path / "runs"])


@pytest.mark.parametrize("option", ["--plot", "--journal"])
def test_a_path_that_cannot_be_written_is_refused_before_the_run(option: str, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    for path in (file / "out.png", tmp_path, Path("/proc/no/out.png")):
        lines = refused("rehearse", option, str(path), "--steps", "1")
        assert len(lines.splitlines()) == 1


def test_more_replicas_than_memory_are_refused() -> None:
    lines = refused(
        "rehearse", "--task", "characters", "--task-option", "hidden=8192", "--workers", "30000", "--batch", "1"
    )
    assert "replicas need" in lines and "workers" in lines
