"""A worker that dies or a host whose link is cut: all hosts stop soon, with the rank or the host by name."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path

import pytest
from tests.hosts.launching import launched, training, trains
from tests.processes.living import all_there, none_runs, pids

from gossamer.lab import Lab, missing

SCENE = str(Path(__file__).parent.parent / "processes" / "scene.py")
LASTING = str(Path(__file__).with_name("lasting.py"))
pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))


def test_a_killed_worker_ends_all_hosts_and_is_named(tmp_path: Path) -> None:
    """Rank 0 is killed: the store goes on, so the other host learns who it was and why."""
    with Lab(hosts=2) as lab:
        here, there = runs = training(lab, tmp_path)
        trains(runs, tmp_path)
        found = pids(tmp_path)
        os.kill(found[0], signal.SIGKILL)
        assert none_runs(found, 5.0)
        first, second = here.ended(10.0), there.ended(10.0)
        address = lab.hosts[0].address
    words = "rank 0 was killed by SIGKILL, and all others were stopped"
    assert (first[0], second[0]) == (137, 137), (first, second)
    assert f"gossamer: {words}" in first[1].splitlines()[-1]
    assert f"gossamer: host 0 ({address}, ranks 0-1): {words}" in second[1].splitlines()[-1]


@pytest.mark.long  # test_messages cuts a link in the usual run
def test_a_cut_link_is_told_by_both_sides_in_time(tmp_path: Path) -> None:
    """Two runs: one loses the host with the store, the other one the other host."""
    with Lab(hosts=4) as lab:
        folders, sizes = [tmp_path / "store", tmp_path / "other"], [1, 2]
        runs = [training(lab, folders[n], sizes[n], first=2 * n) for n in (0, 1)]
        for n in (0, 1):
            trains(runs[n], folders[n], sizes[n])
        found = {**pids(folders[0]), **{10 + rank: pid for rank, pid in pids(folders[1]).items()}}
        began = time.monotonic()
        lab.cut(0)
        lab.cut(3)
        assert none_runs(found, 60.0)
        took = time.monotonic() - began
        ends = [[each.ended(10.0) for each in both] for both in runs]
        addresses = [host.address for host in lab.hosts]
    assert took > 5.0  # how long it was silent is what is said: a process that stood still itself begins to count anew
    for n, who in (
        (0, ["its worker 0 has", "its worker 1 has"]),
        (1, ["its 2 workers 0, 1 have", "its 2 workers 2, 3 have"]),
    ):
        for host, (code, text) in enumerate(ends[n]):
            other = 1 - host
            assert code == 1 and "Traceback" not in text, text
            silent = re.escape(f"host {other} ({addresses[2 * n + other]}): {who[other]} not been heard of for ")
            assert (told := re.search(silent + r"(\d+) s", text)) and int(told[1]) <= 14, text


def test_where_a_loss_is_survived_the_others_finish(tmp_path: Path) -> None:
    with Lab(hosts=2) as lab:
        words = ["--nproc-per-node", "2", LASTING, str(tmp_path), "2"]
        ends = [run.ended(60.0) for run in [launched(lab, tmp_path, host, *words) for host in (0, 1)]]
        address = lab.hosts[1].address
    assert [code for code, _ in ends] == [0, 0], ends
    line = f"gossamer: rank 2 on host 1 ({address}, ranks 2-3) was killed by SIGKILL; the others go on"
    assert [text.count(line) for _, text in ends] == [0, 1]
    assert sorted(path.name for path in tmp_path.glob("done-*")) == ["done-0", "done-1", "done-3"]


def test_a_launcher_that_is_stopped_or_killed_ends_all_hosts(tmp_path: Path) -> None:
    """Two runs of scripts that know nothing of it: one is stopped on its second host, the other loses its first."""
    with Lab(hosts=4) as lab:
        folders = [tmp_path / "stopped", tmp_path / "killed"]
        runs = []
        for n, folder in enumerate(folders):
            folder.mkdir()
            words = [SCENE, str(folder), "sleeps", "9"]
            runs.append([launched(lab, folder, host, *words, first=2 * n) for host in (2 * n, 2 * n + 1)])
        found = [all_there(folder, 2) for folder in folders]
        time.sleep(1.0)  # torch sets its handlers after the workers are started
        runs[0][1].process.send_signal(signal.SIGTERM)
        runs[1][0].process.kill()
        assert none_runs(found[0]) and none_runs(found[1])
        stopped, killed = runs[0][0].ended(10.0), runs[1][1].ended(10.0)
        addresses = [host.address for host in lab.hosts]
    assert stopped[0] == 143
    assert stopped[1].endswith(f"gossamer: host 1 ({addresses[1]}, rank 1): stopped by SIGTERM\n")
    gone = f"gossamer: the launcher of host 0 ({addresses[2]}, rank 0) has ended, and all workers here were stopped\n"
    assert killed[0] == 1 and killed[1].endswith(gone), killed[1]
