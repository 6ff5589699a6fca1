"""The clusters that are shipped: each reads, says where its figures come from, and has the links of its name."""

from __future__ import annotations

from pathlib import Path

import pytest

from gossamer.sim.cluster import Cluster
from gossamer.sim.description import names

SURE = ("read", "told", "derived", "memory", "ours")  # how a figure is known
SEATS = {
    "laptop": 8, "lan-1gbit": 4, "t4-50gbit": 64, "dell-a100": 128, "a100-pod": 8192, "h100-pod": 16384, "abci": 4352,
    "k80-10gbit": 512, "tpu-pod": 1024, "internet": 256, "p100-50gbit": 512, "p100-25gbit": 512, "p100-fdr": 1024,
    "p40-100gbit": 2048,
}  # fmt: skip


def test_there_is_one_of_every_kind() -> None:
    assert {name: Cluster.load(name).seats for name in names("cluster")} == SEATS


@pytest.mark.parametrize("name", sorted(SEATS))
def test_every_file_says_what_it_is_and_how_it_is_known(name: str) -> None:
    cluster = Cluster.load(name)
    assert cluster.name and any(word in cluster.source for word in (*SURE, "line rate"))
    assert (cluster.hosts > 1) == (cluster.across is not None)
    assert cluster.used(cluster.seats) == cluster.hosts
    if cluster.inside and cluster.across and name != "tpu-pod":  # of a torus, both directions are alike
        assert cluster.inside.rate > cluster.nics * cluster.across.rate / cluster.per_host
        assert cluster.inside.latency <= cluster.across.latency or name == "dell-a100"


def test_tcp_gets_a_tenth_of_the_label_and_rdma_most_of_it() -> None:
    tcp, rdma = Cluster.load("t4-50gbit").across, Cluster.load("a100-pod").across
    assert tcp is not None and rdma is not None
    assert 3e9 <= 8 * tcp.rate <= 6e9 and rdma.achieved == 0.8
    assert 8 * rdma.bandwidth == 200e9


def test_machines_are_as_fast_as_the_runs_they_were_read_off() -> None:
    """Images a second of ResNet-50 on one device, from 4.6 + 0.296 b ms on an A100 and the speed."""
    seen = {"t4-50gbit": (200, 200 / 0.9235), "k80-10gbit": (64, 52.4), "dell-a100": (256, 3003.0)}
    for name, (batch, images) in seen.items():
        told = Cluster.load(name).speed * batch / (0.0046 + 0.000296 * batch)
        assert told == pytest.approx(images, rel=0.08)


def test_a_folder_hides_no_cluster_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "abci").mkdir()
    monkeypatch.chdir(tmp_path)
    assert Cluster.load("abci").seats > 1
    (tmp_path / "laptop").write_text("per_host = 3\n[inside]\nlatency = 0\nbandwidth = 1e9\n")
    assert Cluster.load("laptop").per_host == 3
