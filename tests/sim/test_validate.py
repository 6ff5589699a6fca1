"""Predictions beside published rows: bars held, and nothing published is needed to make them."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli.ask import ask, refused, told
from tests.sim.test_fit import FEW, MANY, made

from gossamer.parts.refusal import Refused
from gossamer.sim import validate
from gossamer.sim.published import Row, published
from gossamer.sim.traces import pollux


def wrong(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """The same, with every tested row's figures replaced by others."""
    return tuple(
        row if row.fit else replace(
            row, rate=None if row.rate is None else 7.0 * row.rate,
            seconds=None if row.seconds is None else 7.0 * row.seconds,
            efficiency=None if row.efficiency is None else 0.5 * row.efficiency,
        )
        for row in rows
    )  # fmt: skip


def test_predictions_do_not_change_when_the_published_column_does() -> None:
    """Nor are they the published figures: those change."""
    for make, table in ((validate.servers, "tensorflow-servers"), (validate.famous, "famous")):
        one, other = make(published(table)), make(wrong(published(table)))
        assert [line.predicted for line in one.lines] == [line.predicted for line in other.lines]
        assert all(a.seen != b.seen for a, b in zip(one.lines, other.lines, strict=True))
        assert one.held and not other.held
    rows = published("mlperf-resnet50")
    for one, other in zip(validate.mlperf(rows), validate.mlperf(wrong(rows)), strict=True):
        assert [line.predicted for line in one.lines] == [line.predicted for line in other.lines]
        assert one.held and not other.held


def test_a_row_that_is_fitted_to_is_not_tested() -> None:
    for check in (*validate.mlperf(published("mlperf-resnet50")), validate.servers(published("tensorflow-servers"))):
        fitted = {row.step for row in (*published("mlperf-resnet50"), *published("tensorflow-servers")) if row.fit}
        assert check.lines and not fitted & {line.seen for line in check.lines}


def traces(folder: Path, factor: float = 1.0) -> Path:
    """Rows of the law itself, laid down as the traces are."""
    home = folder / "model"
    home.mkdir(parents=True)
    with (home / "placements.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("placement", "local_bsz", "step_time", "sync_time"))
        rows.writerows((str(row.per_host) * row.hosts, row.batch, row.seconds, 0.0) for row in made(FEW, 0.02))
    with (home / "scalability.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time"))
        for row in made(MANY, 0.02, 3):
            rows.writerow((row.hosts, row.hosts * row.per_host, row.batch, factor * row.seconds, 0.0))
    return folder


def test_traces_are_read_placement_by_placement(tmp_path: Path) -> None:
    few, many = pollux(traces(tmp_path) / "model")
    assert [(row.hosts, row.per_host) for row in few[::4]] == FEW
    assert [(row.hosts, row.members) for row in many[::4]] == [(hosts, hosts * each) for hosts, each in MANY]


def test_the_command_says_what_is_held(tmp_path: Path) -> None:
    found = told("validate", "--traces", str(traces(tmp_path)))
    assert found["held"] is True
    names = [table["name"] for table in found["tables"]]
    assert names[-1] == "traces of model" and len(names) >= 4
    last = found["tables"][-1]
    assert last["coverage"] > 0.8 and len(last["rows"]) == 12 and len(last["parameters"]) == 11
    shown = ask("validate", "--traces", str(tmp_path), "--rows", "--parameters")
    assert shown.exit_code == 0 and "MISSED" not in shown.stdout and "hop_across" in shown.stdout


def test_a_bar_that_is_missed_is_an_exit_code(tmp_path: Path) -> None:
    shown = ask("validate", "--traces", str(traces(tmp_path, 2.0)))
    assert shown.exit_code == 1 and "MISSED" in shown.stdout


def test_traces_that_are_none_are_refused(tmp_path: Path) -> None:
    assert "no folder" in refused("validate", "--traces", str(tmp_path / "nothing"))
    assert "placements.csv" in refused("validate", "--traces", str(tmp_path))
    home = traces(tmp_path) / "model"
    (home / "scalability.csv").write_text("a,b\n1,2\n")
    with pytest.raises(Refused, match="no column num_nodes"):
        pollux(home)


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("placements.csv", "1x,32,0.1,0"), ("placements.csv", ",32,0.1,0"), ("placements.csv", "11,,0.1,0"),
        ("placements.csv", "11"), ("placements.csv", "11,32,0,0"), ("scalability.csv", "0,0,32,0.1,0"),
        ("scalability.csv", "six,6,32,0.1,0"), ("scalability.csv", "6"), ("scalability.csv", "6,3,32,0.1,0"),
    ],
)  # fmt: skip
def test_a_row_that_is_none_is_named(name: str, row: str, tmp_path: Path) -> None:
    file = traces(tmp_path) / "model" / name
    number = len(file.read_text().splitlines())
    file.write_text(file.read_text() + row + "\n")
    assert f"{name}, row {number}" in refused("validate", "--traces", str(tmp_path))


def test_a_table_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (traces(tmp_path) / "model" / "placements.csv").write_bytes(b"placement,local_bsz,step_time\n\xff,1,1\n")
    assert "placements.csv cannot be read" in refused("validate", "--traces", str(tmp_path))
