"""A worker that dies or a host whose link is cut: all hosts stop soon, with the rank or the host by name."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest
from tests.hosts.launching import training
from tests.processes.living import none_runs, pids

from gossamer.lab import Lab, missing

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))


def test_a_killed_worker_ends_all_hosts_and_is_named(tmp_path: Path) -> None:
    """Rank 0 is killed: the store goes on, so the other host learns who it was and why."""
    with Lab(hosts=2) as lab:
        here, there = training(lab, tmp_path)
        found = pids(tmp_path)
        os.kill(found[0], signal.SIGKILL)
        assert none_runs(found, 5.0)
        first, second = here.ended(10.0), there.ended(10.0)
        address = lab.hosts[0].address
    words = "rank 0 was killed by SIGKILL, and all others were stopped"
    assert first[0] == second[0] == 137
    assert f"gossamer: {words}" in first[1].splitlines()[-1]
    assert f"gossamer: host 0 ({address}, ranks 0-1): {words}" in second[1].splitlines()[-1]


@pytest.mark.parametrize("gone", [0, 1])
def test_a_cut_link_is_told_by_both_sides_in_time(gone: int, tmp_path: Path) -> None:
    with Lab(hosts=2) as lab:
        runs = training(lab, tmp_path)
        found, began = pids(tmp_path), time.monotonic()
        lab.cut(gone)
        assert none_runs(found, 14.0)
        took = time.monotonic() - began
        ends = [each.ended(10.0) for each in runs]
        addresses = [host.address for host in lab.hosts]
    assert 5.0 < took < 13.0  # ten seconds, and the time to end
    for host, (code, text) in enumerate(ends):
        other, ranks = 1 - host, ("0, 1", "2, 3")[1 - host]
        assert code == 1, text
        assert f"gossamer: host {other} ({addresses[other]}): its 2 workers {ranks} have not been heard of for " in text
        assert "Traceback" not in text
