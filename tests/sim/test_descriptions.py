"""Descriptions that cannot be: each is refused by its file and its field, whatever is wrong with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gossamer.parts.refusal import Refused
from gossamer.sim.cluster import Cluster
from gossamer.sim.workload import Workload

CLUSTER = 'hosts = 4\n[across]\nlatency = "50us"\nbandwidth = "10Gbit/s"\n'
WORKLOAD = 'batches = [8]\nseconds = [0.1]\ntensors = [["first", [3], 1.0], ["weight", [100], 1.0]]\n#'
HUGE = f"[{', '.join(['1_000_000_000_000'] * 40)}]"


def cluster(old: str, new: str) -> Callable[[], object]:
    """A cluster whose file has one thing instead of another."""
    return lambda: (Path("it.toml").write_text(CLUSTER.replace(old, new)), Cluster.load("it.toml"))


def workload(old: str, new: str) -> Callable[[], object]:
    """The same of a workload."""
    return lambda: (Path("it.toml").write_text(WORKLOAD.replace(old, new)), Workload.load("it.toml"))


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (cluster("= 4", f"= {'9' * 5000}"), "cluster it.toml holds a number too long to read"),
        (cluster("= 4", f"= 0x{'f' * 5000}"), "cluster it.toml: hosts must be from 1 to"),
        (cluster("hosts = 4", f"name = 0x{'f' * 5000}"), "cluster it.toml: name must be text, not a number of"),
        (cluster("= 4", "= 4\nspeed = 0"), "cluster it.toml: speed must lie from 1e-06"),
        (cluster("= 4", "= 4\nspeed = 1e-320"), "cluster it.toml: speed must lie from 1e-06"),
        (cluster("= 4", '= 4\nname = "x"\nsingle = 1e-300'), "cluster it.toml: single must lie from 1e-06"),
        (cluster("[across]", "[across]\nachieved = 1e-300"), "cluster it.toml, [across]: achieved must lie from 1e-06"),
        (cluster("[across]", "[spread]\nspeeds = 1\n[across]"), "[spread]: there is no field speeds"),
        (cluster("= 4", "= 1\nper_host = 2"), "cluster it.toml: hosts of 2 members, and no tier inside"),
        (workload("[[", "[" * 5000), "workload it.toml is not TOML: it is nested too deeply"),
        (workload("[100]", HUGE), "it.toml: tensors are of 1e+15 bytes together at most; the largest is 'weight'"),
        (workload("[100]", "[1_000_000_000_000, 300]"), "the largest is 'weight'"),
        (workload("[0.1]", "[-1]"), "workload it.toml: seconds must lie"),
        (workload("[0.1]", f"[[0x{'f' * 5000}]]"), "it.toml: seconds is a list of numbers, not a list with a number"),
        (workload("[8]", "[8.0]"), "it.toml: batches is a list of whole numbers, not [8.0]"),
        (lambda: Workload.load("resnet50").noisy(-5.0), "simulate: noise scale must lie above 0"),
        (workload("#", "[goal]\nsamples = 0"), "workload it.toml, [goal]: samples must lie"),
        (workload("#", "[goal]\nsamples = 5\ncritical = 0"), "workload it.toml, [goal]: critical must lie above"),
        (lambda: Cluster.load("a" * 5000), f"cluster {'a' * 200}... cannot be read: File name too long"),
        (lambda: replace(Cluster(), speed=1e-320), "cluster: speed must lie"),
        (lambda: replace(Cluster(), spread={"jitters": 1.0}), "there is no parameter jitters; nearest that works: jit"),
        (lambda: replace(Cluster(), spread={"jitter": -1.0}), "cluster, [spread]: jitter must lie"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_by_its_place_and_its_field(
    made: Callable[[], object], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Refused) as refused:
        made()
    assert said in str(refused.value) and "\n" not in str(refused.value)
