"""Bad input to `simulate`: the field named, exit code 2, no traceback, nothing written."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.ask import refused

CLUSTER = """
hosts = 4
per_host = 2
[inside]
latency = "5us"
bandwidth = "100Gbit/s"
[across]
latency = "50us"
bandwidth = "10Gbit/s"
"""
WORKLOAD = """
batches = [8, 16]
seconds = [0.1, 0.2]
tensors = [["weight", [100, 100], 1.0]]
"""


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster and a workload that are in order, in a folder of their own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.toml").write_text(CLUSTER)
    (tmp_path / "w.toml").write_text(WORKLOAD)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('[across]\nlatency = "50us"\nbandwidth = "10Gbit/s"\n', "", "[across]"),
        ('[inside]\nlatency = "5us"\nbandwidth = "100Gbit/s"\n', "", "[inside]"),
        ('"10Gbit/s"', '"0Gbit/s"', "[across]: bandwidth must lie"),
        ('"10Gbit/s"', "0", "[across]: bandwidth must lie"),
        ('"10Gbit/s"', '"10"', "[across]: bandwidth: link: '10' does not say of what"),
        ('bandwidth = "10Gbit/s"\n', "", "[across]: bandwidth is missing"),
        ('latency = "50us"', "latency = -1", "[across]: latency must lie"),
        ("hosts = 4", "hosts = 0", "hosts must be from 1"),
        ("hosts = 4", "host = 4", "there is no field host; nearest that works: hosts"),
        ("hosts = 4", "hosts = 4.5", "hosts must be a whole number"),
        ("hosts = 4", "hosts 4", "c.toml is not TOML"),
        ("hosts = 4", "hosts = 4\nspeed = nan", "speed must"),
        ("hosts = 4", "hosts = 3", "8 workers are more than the 6 seats"),
    ],
)
def test_a_cluster_that_cannot_be(old: str, new: str, said: str) -> None:
    Path("c.toml").write_text(CLUSTER.replace(old, new))
    lines = refused("simulate", "--cluster", "c.toml", "--workload", "w.toml", "--workers", "8")
    assert said in lines and len(lines.splitlines()) == 1


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('tensors = [["weight", [100, 100], 1.0]]', "", "tensors is missing"),
        ('[["weight", [100, 100], 1.0]]', "[]", "tensors is a list of [name, [sides], share]"),
        ('["weight", [100, 100], 1.0]', '["weight", [100, 0], 1.0]', "tensors[0], a side must be from 1"),
        ('["weight", [100, 100], 1.0]', '["weight", 100]', "tensors[0] is [name, [sides], share]"),
        ("seconds = [0.1, 0.2]", "seconds = [0.1]", "batches and seconds are as many as each other"),
        ("seconds = [0.1, 0.2]", "second = [0.1, 0.2]", "seconds is missing"),
        ("seconds = [0.1, 0.2]", 'seconds = [0.1, 0.2]\nupdate = "soon"', "update"),
        ("batches = [8, 16]", "batches = [16, 8]", "batches grow"),
        ("batches = [8, 16]", f"batches = [8, {10**400}]", "batches must lie"),
        ("seconds = [0.1, 0.2]", f"seconds = [0.1, {10**400}]", "seconds must lie"),
        ("batches", "batches = [8]\nbatches", "w.toml is not TOML"),
    ],
)
def test_a_workload_that_cannot_be(old: str, new: str, said: str) -> None:
    Path("w.toml").write_text(WORKLOAD.replace(old, new))
    lines = refused("simulate", "--cluster", "c.toml", "--workload", "w.toml", "--workers", "8")
    assert said in lines and len(lines.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--cluster", "abcy"], "nearest that works: abci"),
        (["--cluster", "none.toml"], "none.toml cannot be read"),
        (["--cluster", "."], "cannot be read"),
        (["--workload", "resnet5"], "nearest that works: resnet50"),
        (["--workload", "c.toml"], "workload c.toml: tensors is missing"),
        (["--cluster", ""], "--cluster is missing"),
        (["--strategy", "localsgd"], "nearest that works: local_sgd"),
        (["Exchange(where=Named('none'))"], "chooses none of the model's tensors"),
        (
            ["Exchange(payload=DELTAS, where=Named('*')) + Exchange(payload=DELTAS, where=Dims(2, 4))"],
            "Named(glob='*') and Dims(least=2, most=4) overlap",
        ),
        (["allreduce", "sgp"], "--compare 'allreduce' 'sgp'"),
        (["--compare", "allreduce"], "needs strategies to compare"),
        (["--compare", "allreduce", "allreduce"], "needs strategies to compare"),
        (["--compare", "allreduce", "nonsense("], "never closed"),
        (["--workers", "9"], "9 workers are more than the 8 seats"),
        (["--workers", "0"], "workers must be from 1"),
        (["--workers", "many"], "--workers must be a whole number"),
        (["--workers", "1", "sgp"], "gossip needs company"),
        (["--from", "9"], "from must be from 1 to 8"),
        (["--batch", "7"], "less than a sample each; nearest that works: 8 or more"),
        (["--batch", "0"], "batch must lie"),
        (["--batch", "nan"], "batch must lie"),
        (["--servers", "-1"], "servers must be from 0"),
        (["--steps", "0"], "steps must be from 1"),
        (["--seed", "-1"], "seed must be"),
        (["--trouble", "explode(rank=1)"], "there is no 'explode'"),
        (["--trouble", "fail(rank=8, step=1)"], "the ranks are 0 to 7"),
        (["--plot", "plot.bmp"], "nearest that works: plot.png"),
        (["--plot", "."], "nearest that works: plot.png"),
        (["--trace", "trace.txt"], "nearest that works: trace.json"),
        (["--trace", "c.toml/trace.json"], "is not a folder"),
    ],
)
def test_bad_input(words: list[str], said: str, tmp_path: Path) -> None:
    usual = ["--cluster", "c.toml", "--workload", "w.toml", "--workers", "8"]
    assert said in refused("simulate", *usual, *words)
    assert {path.name for path in tmp_path.iterdir()} == {"c.toml", "w.toml"}
