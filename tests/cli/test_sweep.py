"""`gossamer rehearse --sweep`: every run once, the same samples each, and "best" only beyond the spread."""

from __future__ import annotations

import json
from math import inf
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.cli.ask import ask, refused, told
from tests.cli.test_verdict import STEEP

from gossamer.cli.sweep_case import Curve, Result, Setting
from gossamer.cli.sweep_plot import band
from gossamer.cli.sweep_report import sentences
from gossamer.cli.sweep_verdict import Cell, Spread, best, leaders, rows
from gossamer.strategy import parse

TINY = (
    "rehearse", "--sweep", "allreduce", "gossip_pull", "--sweep-workers", "2,4", "--rates", "0.5,0.1",
    "--seeds", "2", "--epochs", "0.2", "--task-option", "hidden=8", "--target", "0.1", "--jobs", "1",
)  # fmt: skip
RUNS = 2 * 2 * 2 * 2 * 2  # strategies, worker counts, rates, with and without a straggler, seeds


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Whatever is written is written here."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """One tiny sweep: its file, and what it said."""
    out = tmp_path_factory.mktemp("sweep") / "sweep.jsonl"
    return out, told(*TINY, "--out", str(out))


def test_every_place_has_every_strategy_with_every_seed(swept: tuple[Path, dict[str, Any]]) -> None:
    out, found = swept
    keys = {(r["strategy"], r["workers"], r["rate"], r["straggler"], r["seed"]) for r in found["runs"]}
    assert (len(found["runs"]), len(keys), len(out.read_text().splitlines())) == (RUNS, RUNS, RUNS)
    places = [(row["workers"], row["rate"], row["straggler"]) for row in found["rows"]]
    slow = "slow(rank=1, factor=5)"
    assert places == [(w, r, s) for w in (2, 4) for r in (0.5, 0.1) for s in (None, slow)]
    for row in found["rows"]:
        assert set(row["strategies"]) == {"allreduce", "gossip_pull"}
        assert all(cell["accuracy"]["of"] == 2 for cell in row["strategies"].values())
    assert found["seeds"] == [0, 1]
    assert len(found["sentences"]) == 2


def test_all_runs_train_the_same_samples(swept: tuple[Path, dict[str, Any]]) -> None:
    runs = swept[1]["runs"]
    assert {run["samples"] for run in runs} == {256}  # 0.2 x 1198 samples, up to whole steps of 2 and of 4 workers
    assert {run["workers"] * run["steps"] * 8 for run in runs} == {256}
    assert {run["curve"]["epochs"][-1] for run in runs} == {256 / 1198}
    assert min(len(run["curve"]["epochs"]) for run in runs) == 8  # a look at every step where there are few


def test_a_run_of_a_sweep_is_the_rehearsal_it_stands_for(swept: tuple[Path, dict[str, Any]]) -> None:
    alone = told(
        "rehearse", "gossip_pull", "--workers", "4", "--rate", "0.1", "--seed", "1", "--steps", "8", "--no-journal",
        "--task-option", "hidden=8", "--trouble", "slow(rank=1, factor=5)",
    )  # fmt: skip
    key = (repr(parse("gossip_pull")), 4, 0.1, "slow(rank=1, factor=5)", 1)
    names = ("strategy", "workers", "rate", "straggler", "seed")
    [run] = [run for run in swept[1]["runs"] if tuple(run[name] for name in names) == key]
    for name in ("accuracy", "loss", "seconds", "bytes_sent_per_member", "divergence"):
        assert run[name] == alone[name]


def test_a_sweep_goes_on_from_its_file(swept: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    lines, out = swept[0].read_bytes().splitlines(keepends=True), tmp_path / "half.jsonl"
    out.write_bytes(b"".join(lines[:30]) + lines[30][:40])  # killed as it wrote its 31st line
    result = ask(*TINY, "--out", str(out), "--json")
    assert result.exit_code == 0
    assert "30 of 32 runs are there already" in result.stderr
    assert result.stderr.count("allreduce,") + result.stderr.count("gossip_pull,") == 2
    again = out.read_bytes().splitlines(keepends=True)
    assert again[:30] == lines[:30]
    assert len(again) == RUNS
    same = [{**json.loads(line), "wall_seconds": 0} for line in lines]
    assert [{**json.loads(line), "wall_seconds": 0} for line in again] == same


def test_a_whole_file_is_only_reported(swept: tuple[Path, dict[str, Any]]) -> None:
    before = swept[0].read_bytes()
    found = told(*TINY, "--out", str(swept[0]), "--target", "0.99")
    assert swept[0].read_bytes() == before
    assert {run["seconds_to_target"] for run in found["runs"]} == {None}
    assert found["sentences"] == [f"{count} workers: nobody reached 0.99, all 4 times." for count in (2, 4)]


@pytest.mark.parametrize("columns", [40, 60, 120])
def test_the_table_fits(swept: tuple[Path, dict[str, Any]], columns: int) -> None:
    result = ask(*TINY, "--out", str(swept[0]), columns=columns)
    assert result.exit_code == 0
    assert max(map(len, result.stdout.splitlines())) <= columns
    assert "2 workers: " in result.stdout
    assert (" s to 0.1" in result.stdout) == (columns == 120)


def test_processes_side_by_side_give_the_same(swept: tuple[Path, dict[str, Any]], tmp_path: Path) -> None:
    words = (*TINY, "--jobs", "2", "--seeds", "1", "--straggler", "none", "--rates", "0.5", "--plot", "a.png")
    found = told(*words)
    first = {(r["strategy"], r["workers"]): r["curve"] for r in found["runs"]}
    assert len(first) == 4
    for run in swept[1]["runs"]:
        if (run["rate"], run["straggler"], run["seed"]) == (0.5, None, 0):
            assert first[run["strategy"], run["workers"]] == run["curve"]
    assert [Path(tmp_path / plot).read_bytes()[:4] for plot in found["plots"]] == [b"\x89PNG"] * 2


def test_a_diverged_run_is_told_and_ranks_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "steep.py").write_text(STEEP)
    monkeypatch.syspath_prepend(tmp_path)
    words = (
        "rehearse", "--sweep", "allreduce", "gossip_pull", "--task", "steep:make", "--epochs", "20", "--seeds", "2",
        "--sweep-workers", "2", "--rates", "1000,1e-6", "--straggler", "none", "--target", "0.5", "--jobs", "1",
    )  # fmt: skip
    found = told(*words, "--out", "steep.jsonl", code=1)
    assert found["failed"] == 4
    steep, gentle = found["rows"]
    assert steep["strategies"]["allreduce"]["failures"][1].startswith("seed 1 diverged at step ")
    assert (steep["best_accuracy"], steep["first_at_target"]) == (None, None)
    assert gentle["strategies"]["allreduce"]["failures"] == []
    shown = ask(*words, "--out", "steep.jsonl")
    assert (shown.exit_code, shown.stdout.count("2 of 2 failed"), shown.stdout.count("; not ranked")) == (1, 2, 4)


def test_a_run_that_stood_still_ranks_nowhere() -> None:
    words = (*TINY, "--sweep-workers", "2", "--rates", "0.5", "--straggler", "fail(rank=1, step=2)")
    found = told(*words, code=1)
    hurt = found["rows"][1]
    assert hurt["strategies"]["allreduce"]["failures"] == ["seed 0 stood still", "seed 1 stood still"]
    assert hurt["strategies"]["gossip_pull"]["failures"] == []
    assert hurt["best_accuracy"] is None  # nobody is left to be better than


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--sweep-workers", "4,x"], "sweep-workers: 'x' is not a number"),
        (["--sweep-workers", "4,4"], "sweep-workers: 4 is given twice"),
        (["--sweep-workers", "2.5"], "workers must be a whole number"),
        (["--sweep-workers", "0,4"], "workers must be from 1"),
        (["--sweep-workers", ""], "'' is not a number"),
        (["--sweep-workers", "1,4", "--straggler", "none"], "gossip needs company"),
        (["--sweep-workers", "3,5,7,11"], "come together only at 9,240 samples"),
        (["--sweep-workers", "4,1024"], "samples a step, and there are 1198"),
        (["--rates", "0.1,fast"], "rates: 'fast' is not a number"),
        (["--rates", "0.1,-1"], "rates must lie above 0"),
        (["--rates", "nan"], "rates must lie above 0"),
        (["--seeds", "0"], "seeds must be from 1"),
        (["--jobs", "0"], "jobs must be from 1"),
        (["--straggler", "slow(rank=9, factor=5)"], "the ranks are 0 to"),
        (["--straggler", "tired(rank=1)"], "there is no 'tired'"),
        (["--straggler", " "], "--straggler none"),
        (["--workers", "4"], "nearest that works: --sweep-workers"),
        (["--rate", "0.1"], "nearest that works: --rates"),
        (["--steps", "4"], "nearest that works: --epochs"),
        (["--trouble", "slow(rank=1, factor=5)"], "nearest that works: --straggler"),
        (["--journal", "a"], "nearest that works: --out"),
        (["--plot", "a.bmp"], "does not end in .png"),
        (["--out", "."], "is a folder"),
        (["--out", "notes.txt"], "line 1 of notes.txt is no run of a sweep"),
        (["--out", "note.txt"], "note.txt does not end in a run of a sweep"),
        (["gossip_pull()"], "gossip_pull() is given twice"),
    ],
)
def test_nonsense_is_refused_by_name(words: list[str], said: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("a letter\n")
    (tmp_path / "note.txt").write_text("a letter")
    assert said in refused(*TINY, *words)
    assert (tmp_path / "notes.txt").read_text() == "a letter\n"
    assert (tmp_path / "note.txt").read_text() == "a letter"


def test_runs_of_another_setting_are_not_mixed_in(swept: tuple[Path, dict[str, Any]]) -> None:
    said = refused(*TINY, "--out", str(swept[0]), "--batch", "4")
    assert "holds runs with batch 8, and 4 is asked for" in said


def test_options_of_a_sweep_need_one() -> None:
    assert "--rates belongs to a sweep; nearest that works: --sweep --rates" in refused("rehearse", "--rates", "0.1")


def spreads(*values: tuple[float, ...] | None) -> list[Spread | None]:
    return [None if each is None else Spread(each) for each in values]


def test_the_best_is_ahead_by_more_than_the_spread() -> None:
    assert best(spreads((0.90, 0.92), (0.93, 0.95)), more=True) == 1
    assert best(spreads((0.90, 0.93), (0.93, 0.95)), more=True) is None
    assert best(spreads((1.0, 2.0), (3.0, 4.0)), more=False) == 0
    assert best(spreads((1.0, 3.5), (3.0, 4.0)), more=False) is None


def test_the_best_is_held_against_everybody_not_only_the_next() -> None:
    assert leaders(spreads((1.0, 2.0), (2.4, 2.5), (1.9, 9.0)), more=False) == [0, 2]


def test_what_never_got_there_is_not_first_and_what_failed_not_ranked() -> None:
    assert best(spreads((1.0, inf), (2.0, 3.0)), more=False) is None  # one seed of the other was faster
    assert best(spreads((4.0, inf), (2.0, 3.0)), more=False) == 1
    assert best(spreads((inf, inf), (2.0, 3.0)), more=False) == 1
    assert best(spreads((inf, inf), (1.0, inf)), more=False) is None
    assert best(spreads(None, (2.0, 3.0), (4.0, 5.0)), more=False) == 1


def test_a_lead_within_one_look_is_none() -> None:
    ahead = Spread((1.0, 1.1), (0.5, 0.6))
    assert best([ahead, Spread((2.0, 2.1), (1.2, 1.2))], more=False) == 0
    assert best([ahead, Spread((2.0, 2.1), (1.0, 1.2))], more=False) is None
    assert (made("a", 0, 3.0).seconds_before(0.9), made("a", 0, 3.0).seconds_before(0.1)) == (pytest.approx(2.85), 0.0)
    assert made("a", 0, 3.0).seconds_before(0.95) == inf


def test_one_seed_or_one_strategy_has_no_best() -> None:
    assert best(spreads((1.0,), (2.0,)), more=False) is None
    assert best(spreads((1.0, 2.0)), more=False) is None
    assert best(spreads((1.0, 2.0), None), more=False) is None


def test_the_mean_is_of_those_that_got_there() -> None:
    spread = Spread((1.0, inf, 3.0))
    assert (spread.mean, spread.low, spread.high, spread.complete) == (2.0, 1.0, inf, False)


def made(
    name: str, seed: int, seconds: float, *, workers: int = 4, rate: float = 0.1, failure: str | None = None
) -> Result:
    """A made-up run that reaches 0.9 after so many seconds."""
    curve = Curve([0.95 * seconds, seconds], [0.5, 1.0], [0.2 + 0.1 * seed, 0.9], [1.0, 0.5])
    setting = Setting("digits", {}, "sgd", 8, 64, "Machines()")
    return Result(
        setting, name, name, workers, rate, None, seed, 8, 64, seconds, 0.9, 0.5, 1.0, 0.0, 0.0, failure, 0.0, curve
    )


def said(*results: Result) -> list[str]:
    names = {result.strategy: result.strategy for result in results}
    return sentences(rows(results, names, 0.9), 0.9)


def test_a_sentence_names_the_first_or_says_there_is_no_difference() -> None:
    clear = [made("a", 0, 1.0), made("a", 1, 1.2), made("b", 0, 2.0), made("b", 1, 2.2)]
    assert said(*clear) == ["4 workers: a reached 0.9 first."]
    near = [made("a", 0, 1.0), made("a", 1, 2.1), made("b", 0, 2.0), made("b", 1, 2.2)]
    assert said(*near) == ["4 workers: no difference beyond the spread."]
    far = [*near, made("c", 0, 5.0), made("c", 1, 5.0)]
    between = "a and b reached 0.9 before the others, no difference beyond the spread between them"
    assert said(*far) == [f"4 workers: {between}."]
    failed = [made("a", 0, 0.1, failure="diverged at step 3"), made("a", 1, 0.1), *far[2:]]
    assert said(*failed) == ["4 workers: b reached 0.9 first."]
    other = [
        made("a", 0, 3.0, rate=0.5),
        made("a", 1, 3.0, rate=0.5),
        made("b", 0, 2.0, rate=0.5),
        made("b", 1, 2.0, rate=0.5),
    ]
    assert said(*clear, *other) == ["4 workers: rate 0.1: a reached 0.9 first; rate 0.5: b reached 0.9 first."]
    assert said(made("a", 0, 1.0), made("b", 0, 2.0)) == [
        "4 workers: a reached 0.9 first, with one seed, which has no spread."
    ]


def test_who_ran_out_of_samples_sooner_is_said() -> None:
    won = [made("a", 0, 4.0), made("a", 1, 4.2)]
    early, late = (
        [replace(made(name, seed, end), curve=Curve([end], [1.0], [0.8], [0.5])) for seed in (0, 1)]
        for name, end in (("b", 3.0), ("c", 9.0))
    )
    assert said(*won, *late) == ["4 workers: only a reached 0.9."]
    cut = "but the samples of b ran out in less time than that"
    assert said(*won, *early, *late) == [f"4 workers: only a reached 0.9, {cut}."]


def test_the_band_is_the_lowest_mean_and_highest_of_the_seeds() -> None:
    times, low, mean, high = band(Cell("a", (made("a", 0, 1.0), made("a", 1, 3.0)), 0.9), "seconds")
    assert times == [pytest.approx(1.9), 2.0]
    assert (low, high) == ([0.2, 0.9], [pytest.approx(0.3), 0.9])
    assert mean == [pytest.approx(0.25), 0.9]
