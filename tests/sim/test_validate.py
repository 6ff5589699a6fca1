"""Predictions beside published rows: bars held, and nothing published is needed to make them."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli.ask import ask, refused, told
from tests.sim.test_fit import FEW, MANY, made

from gossamer.parts.refusal import Refused
from gossamer.sim import validate
from gossamer.sim.forecast import Interval
from gossamer.sim.published import Row, published
from gossamer.sim.traces import pollux
from gossamer.sim.validate import Bar, Check


def gone(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """The same, with the published columns of every tested row deleted."""
    return tuple(row if row.fit else row.blind() for row in rows)


def shipped(rows: Callable[[str], tuple[Row, ...]]) -> list[Check]:
    """Every table that is shipped, from such rows of it."""
    served, known = validate.servers(rows("tensorflow-servers")), validate.famous(rows("famous"))
    return [served, known, *validate.mlperf(rows("mlperf-resnet50"))]


def told_of(check: Check) -> list[tuple[str, int, Interval]]:
    """All that is said without what was seen."""
    return [(line.what, line.workers, line.predicted) for line in (*check.lines, *check.beside)]


def test_predictions_do_not_change_when_the_published_column_is_deleted() -> None:
    """Nor does which of them count; there is nothing left that a bar could be missed by."""
    for one, other in zip(shipped(published), shipped(lambda table: gone(published(table))), strict=True):
        assert told_of(one) == told_of(other) and len(one.lines) == len(other.lines) > 0
        assert one.held and one.off.mean and other.off == Bar() and other.held
        assert [line.seen for line in one.seen] and not other.seen and other.lines[0].error is None


def test_other_figures_would_miss_the_bars() -> None:
    """The predictions are not the published figures: those decide."""
    for check in shipped(published):
        doubled = tuple(replace(line, seen=2.0 * line.seen) for line in check.seen if line.seen)
        assert check.held and not replace(check, lines=doubled).held


def test_a_row_that_is_fitted_to_is_not_tested() -> None:
    """Lines are the tested rows, one by one; what was seen tells each of them from all others."""
    servers, mlperf = published("tensorflow-servers"), published("mlperf-resnet50")
    rates = [(row.fit, row.workers, row.throughput) for row in servers]
    steps = [(row.fit, row.workers, row.step) for row in mlperf]
    for checks, rows in (([validate.servers(servers)], rates), (validate.mlperf(mlperf), steps)):
        assert len({seen for _, _, seen in rows}) == len(rows)
        lines = [(False, line.workers, line.seen) for check in checks for line in check.lines]
        assert lines == [row for row in rows if not row[0]]


def traces(folder: Path, factor: float = 1.0, *, seen: bool = True) -> Path:
    """Rows of the law itself, laid down as the traces are; with or without what is to be predicted."""
    home = folder / "model"
    home.mkdir(parents=True)
    with (home / "placements.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("placement", "local_bsz", "step_time", "sync_time"))
        rows.writerows((str(row.per_host) * row.hosts, row.batch, row.seconds, 0.0) for row in made(FEW, 0.02))
    with (home / "scalability.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(("num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time")[: 5 if seen else 3])
        for row in made(MANY, 0.02, 3):
            told = (row.hosts, row.hosts * row.per_host, row.batch, factor * row.taken, 0.0)
            rows.writerow(told[: 5 if seen else 3])
    return folder


def test_many_hosts_are_foretold_without_a_column_of_their_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the command says so where figures would stand."""
    one, other = (
        validate.traced("model", *pollux(traces(tmp_path / str(seen), seen=seen) / "model")) for seen in (True, False)
    )
    assert told_of(one) == told_of(other) and one.coverage and other.coverage is None and not other.seen
    half = replace(one, lines=(*one.lines[:6], *other.lines[6:]))
    monkeypatch.setattr("gossamer.sim.validate.checks", lambda _: [one, other, half])
    shown = ask("validate", "--rows")
    assert shown.exit_code == 0 and "predictions alone: nothing is published" in shown.stdout
    assert "rows, 6 more rows are predictions alone" in " ".join(shown.stdout.split())
    last = told("validate")["tables"][1]
    assert last["error_mean"] is None and last["rows"][0]["published"] is last["rows"][0]["error"] is None


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
