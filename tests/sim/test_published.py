"""Published tables: every row says who says so, fits what is shipped, and tells the figures of its source."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from gossamer.parts.refusal import Refused
from gossamer.parts.world import World
from gossamer.recipes.published import IMAGES
from gossamer.sim.cluster import Cluster
from gossamer.sim.published import SURE, Row, published, tables
from gossamer.sim.workload import Workload
from gossamer.strategy import fits, parse

ROWS = {"famous": 7, "p100-roce": 7, "mlperf-resnet50": 6, "tensorflow-servers": 10}


def test_these_are_shipped() -> None:
    assert {name: len(published(name)) for name in tables()} == ROWS


@pytest.mark.parametrize("row", [row for name in ROWS for row in published(name)], ids=lambda row: row.system[:12])
def test_a_row_can_be_played(row: Row) -> None:
    cluster = Cluster.load(row.cluster)
    assert cluster.per_host == row.per_host and cluster.used(row.workers) == row.hosts
    assert Workload.load(row.workload).tags
    fits(parse(row.strategy), World(row.workers))
    assert row.sure in SURE and row.source
    assert row.throughput is not None or row.efficiency is not None
    assert row.run is None or row.run.count is None or row.workers <= row.run.count
    assert row.local == int(row.local)


def test_figures_are_those_of_the_sources() -> None:
    """Images a second and accelerator of MLPerf, as they were derived by others."""
    seen = [3003, 2793, 2732, 2386, 3257, 2593]
    for row, images in zip(published("mlperf-resnet50"), seen, strict=True):
        assert row.throughput is not None and row.throughput / row.workers == pytest.approx(images, rel=3e-3)
        assert row.epoch == IMAGES
    first = published("tensorflow-servers")[0]
    assert first.throughput == 52.4 and first.step == pytest.approx(64 / 52.4)


def test_sonys_efficiencies_are_those_of_their_rates() -> None:
    """Of 2,565 images a second on four GPUs."""
    for row in published("famous"):
        if row.rate is not None:
            assert row.efficiency == pytest.approx(row.rate / (row.workers / 4 * 2565), abs=1e-3)


def test_small_rows_are_to_fit_and_larger_ones_to_test() -> None:
    for name in ("mlperf-resnet50", "tensorflow-servers"):
        rows = published(name)
        assert any(row.fit for row in rows) and not all(row.fit for row in rows)
        assert all(row.workers <= 8 for row in rows if row.fit and "DGX" not in row.system)


def test_a_blind_row_keeps_everything_but_what_was_seen() -> None:
    row = published("famous")[-1]
    told = {f.name for f in fields(row) if getattr(row, f.name) != getattr(row.blind(), f.name)}
    assert told == {"rate", "efficiency"} and row.blind().throughput is None and row.blind().step is None


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "rows is missing"),
        ("rows = []", "not an empty one"),
        ("batsh = 3\nrows = [{}]", "there is no field batsh; nearest that works: batch"),
        ("rows = [{ workers = 3 }]", "row 0: system is missing"),
        ("workers = 0\nrows = [{}]", "row 0: x x 0: workers must be from 1"),
        ("workers = 4\nrows = [{ rate = -1.0 }]", "rate must lie above 0"),
        ('workers = 4\nrows = [{ sure = "surely" }]', "how sure is it"),
        ('workers = 4\nrows = [{ work = "Nobody" }]', "there is no run 'Nobody'"),
        ("workers = 4\nrows = [{ fit = 1 }]", "fit must be True or False"),
    ],
)
def test_bad_tables(text: str, said: str, tmp_path: Path) -> None:
    common = 'system = "x"\ncluster = "c"\nworkload = "w"\nstrategy = "s"\nper_host = 1\nbatch = 8\nsource = "me"\n'
    path = tmp_path / "table.toml"
    path.write_text(
        (common if "workers = 3" not in text else "") + ("" if "sure" in text else 'sure = "ours"\n') + text
    )
    with pytest.raises(Refused) as refused:
        published(path)
    assert said in str(refused.value)


def test_a_table_that_is_not_there() -> None:
    with pytest.raises(Refused, match="neither a file nor one of ours; nearest that works: famous"):
        published("famus")
