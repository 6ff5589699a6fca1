"""`gossamer rehearse`: what comes out, where it is written, and that the same command twice says the same."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from tests.cli.ask import DOOR, ask, process, told

from gossamer.records import STILL, Evaluation, Event, Header, StepRecord, read
from gossamer.records.summary import bytes_sent_per_member
from gossamer.strategy import parse

HOUSE = {
    "strategy", "workers", "seed", "steps", "epochs", "seconds", "accuracy", "loss", "bytes_sent_per_member",
    "seconds_per_step", "scaling_efficiency", "journal", "target", "seconds_to_target", "staleness", "divergence",
    "dropped", "events",
}  # fmt: skip
QUICK = ("--workers", "4", "--steps", "6", "--task-option", "hidden=8")


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Journals go to runs/ where one stands: stand in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_bare_command_trains_digits(tmp_path: Path) -> None:
    done = process("rehearse", "--json", where=tmp_path)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["accuracy"] > 0.93
    assert (found["workers"], found["task"], found["expression"]) == (8, "digits", "allreduce")
    assert (tmp_path / found["journal"]).is_file()


def test_json_has_the_keys_of_the_house() -> None:
    found = told("rehearse", "--strategy", "local_sgd(every=2)", *QUICK)
    assert set(found) >= HOUSE
    assert parse(found["strategy"]) == parse("local_sgd(every=2)")
    assert (found["workers"], found["seed"], found["steps"]) == (4, 0, 6)
    assert found["epochs"] == pytest.approx(4 * 6 * 8 / 1198)
    assert set(found["seconds_per_step"]) == {"compute", "encode", "send", "wait", "decode", "data"}
    assert sum(found["seconds_per_step"].values()) == pytest.approx(found["seconds"] / 6, rel=0.2)
    assert found["staleness"] == {"unit": "steps", "mean": 0.0, "max": 0, "histogram": {"0": 24}}
    assert (found["task_options"], found["trouble"], found["failure"]) == ({"hidden": 8}, None, None)
    assert found["bytes_answered_by_hub_per_member"] is None
    assert 0 < found["scaling_efficiency"] < 1
    parameters = 64 * 8 + 8 + 8 * 8 + 8 + 8 * 10 + 10
    assert found["bytes_sent_per_member"] == pytest.approx(3 * 2 * 3 / 4 * 4 * parameters)


def test_the_same_command_twice_says_the_same() -> None:
    words = ("rehearse", "gossip_pull", *QUICK, "--no-journal")
    assert told(*words) == told(*words)
    assert told(*words)["loss"] != told(*words, "--seed", "1")["loss"]


def test_the_journal_holds_everything_that_happened() -> None:
    found = told("rehearse", "downpour", *QUICK, "--evaluate-every", "2", "--trouble", "fail(rank=1, step=3)")
    records = list(read(Path(found["journal"])))
    header, steps = records[0], [record for record in records if isinstance(record, StepRecord)]
    events = [record for record in records if isinstance(record, Event)]
    assert isinstance(header, Header)
    assert (header.player, header.workers, header.steps, header.task) == ("rehearsal", 4, 6, "digits")
    assert parse(header.strategy) == parse("downpour")
    assert header.settings["trouble"] == "Fail(rank=1, step=3)"
    assert len(steps) == 24
    assert bytes_sent_per_member([*steps, *events], 4) == found["bytes_sent_per_member"]
    evaluations = [record for record in records if isinstance(record, Evaluation)]
    assert [each.steps for each in evaluations] == [8, 16, 24]
    assert evaluations[-1].accuracy == found["accuracy"]
    assert found["events"][0] == {"seconds": events[0].time, "what": events[0].what, "member": 1}


def test_journals_are_never_written_over_by_themselves() -> None:
    first, second = (told("rehearse", *QUICK)["journal"] for _ in range(2))
    assert (first, second) == ("runs/allreduce.jsonl", "runs/allreduce-2.jsonl")


def test_a_journal_asked_for_by_name_never_takes_the_place_of_another(tmp_path: Path) -> None:
    words = ("rehearse", *QUICK, "--journal", "here/mine.jsonl")
    assert told(*words)["journal"] == "here/mine.jsonl"
    kept = (tmp_path / "here/mine.jsonl").read_bytes()
    again = ask(*words)
    assert again.exit_code == 2
    assert "there already" in again.stderr and "nearest that works: --journal here/mine-2.jsonl" in again.stderr
    assert (tmp_path / "here/mine.jsonl").read_bytes() == kept
    (tmp_path / "empty.jsonl").touch()
    assert told("rehearse", *QUICK, "--journal", "empty.jsonl")["journal"] == "empty.jsonl"
    diary = tmp_path / "diary.txt"
    diary.write_text("dear diary\n")
    assert ask("rehearse", *QUICK, "--journal", str(diary)).exit_code == 2
    assert diary.read_text() == "dear diary\n"


def test_a_refused_run_leaves_no_journal(tmp_path: Path) -> None:
    assert ask("rehearse", "--batch", "1000").exit_code == 2
    assert list(tmp_path.glob("runs/*")) == []


def test_comparing_gives_each_the_same_start_and_machines() -> None:
    found = told("rehearse", "--compare", "allreduce", "allreduce(ring)", "local_sgd(every=1)", *QUICK)
    assert set(found) == {"runs", "plot"}
    runs = found["runs"]
    assert [run["expression"] for run in runs] == ["allreduce", "allreduce(ring)", "local_sgd(every=1)"]
    assert runs[0]["loss"] == runs[1]["loss"] == pytest.approx(runs[2]["loss"], rel=1e-4)
    assert runs[0]["seconds"] == runs[1]["seconds"]
    assert len({run["journal"] for run in runs}) == 3


def test_comparing_under_one_journal_name_tells_the_runs_apart() -> None:
    runs = told("rehearse", "--compare", "sgp", "sgp", *QUICK, "--journal", "both.jsonl")["runs"]
    assert [run["journal"] for run in runs] == ["both-sgp.jsonl", "both-sgp-2.jsonl"]


def test_the_table_marks_the_best_and_the_plot_is_drawn() -> None:
    words = ["rehearse", "--compare", "allreduce", "local_sgd(every=3)", "downpour", *QUICK, "--plot", "new/plot.png"]
    result = ask(*words)
    assert result.exit_code == 0, result.stderr
    lines = {line.split()[0]: line for line in result.stdout.splitlines() if line.strip()}
    assert "kB*" in lines["local_sgd(every=3)"] and "kB*" not in lines["allreduce"]
    assert "seconds are virtual" in result.stdout
    assert "no room" not in result.stdout
    assert "plot.png" in result.stdout
    assert Path("new/plot.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert Path("new/plot.png").stat().st_size > 20_000


def test_a_narrow_table_leaves_out_whole_columns_and_says_so() -> None:
    result = ask("rehearse", "--compare", "allreduce", "gossip_pull", *QUICK, "--target", "0.01", columns=84)
    assert "no room for held-out loss, epochs to 0.01" in " ".join(result.stdout.split())
    rows = [line.split() for line in result.stdout.splitlines() if line.startswith(("allreduce", "gossip_pull"))]
    assert [len(row) for row in rows] == [9, 9]  # a name and seven numbers, one of them with a unit
    assert all(row[-1].rstrip("*").endswith("%") for row in rows)
    assert all(len(line) <= 84 for line in result.stdout.splitlines())


def test_progress_is_alive_on_a_terminal() -> None:
    here, there = pty.openpty()
    with subprocess.Popen([*DOOR, "rehearse", *QUICK, "--json"], stderr=there, stdout=subprocess.PIPE) as running:
        os.close(there)
        seen = b""
        with suppress(OSError):  # a terminal whose other end is closed says so
            while piece := os.read(here, 4096):
                seen += piece
        out, _ = running.communicate()
    os.close(here)
    assert json.loads(out)["steps"] == 6
    for word in (b"allreduce", b"0/6 steps", b"6/6 steps", b"virtual, training loss", b"accuracy"):
        assert word in seen


@pytest.mark.parametrize("suffix", ["svg", "pdf"])
def test_other_pictures(suffix: str) -> None:
    assert ask("rehearse", *QUICK, "--plot", f"plot.{suffix}").exit_code == 0
    assert Path(f"plot.{suffix}").stat().st_size > 5_000


def test_the_report_tells_what_happened() -> None:
    result = ask("rehearse", "ssp", *QUICK, "--target", "0.02")
    assert result.exit_code == 0, result.stderr
    for word in (
        "accuracy",
        "0.02 after",
        "efficiency",
        "sent per member",
        "staleness",
        "on average",
        "compute",
        "runs/ssp",
    ):
        assert word in result.stdout
    assert "4 workers" in result.stdout
    assert "ssp: 6 steps" in result.stderr


def test_a_target_that_is_not_reached_is_said() -> None:
    found = told("rehearse", *QUICK, "--target", "1.0")
    assert found["seconds_to_target"] is None and found["epochs_to_target"] is None
    assert "1 not reached" in ask("rehearse", *QUICK, "--target", "1.0").stdout


def test_a_run_that_stands_still_says_so() -> None:
    words = ("rehearse", "allreduce", *QUICK, "--trouble", "fail(rank=2, step=3)")
    found = told(*words, code=1)
    assert (found["steps"], found["failure"], found["trouble"]) == (3, "stood still", "fail(rank=2, step=3)")
    assert [event["member"] for event in found["events"]] == [2, None]
    why = "members 0, 1, 3 wait for member 2, which died"
    assert found["events"][1]["what"] == f"{STILL} after 12 of 24 steps: {why}"
    result = ask(*words)
    assert result.exit_code == 1
    assert "stands still" in result.stdout and "the run stood still: these numbers are no result" in result.stdout


def test_late_contributions_are_counted() -> None:
    words = ("rehearse", "backup_workers", *QUICK, "--trouble", "slow(rank=1, factor=1.9)", "--jitter", "0")
    assert told(*words)["dropped"] > 0
    assert "came too late" in ask(*words).stdout


def test_slow_machines_slow_links_and_trouble_cost_virtual_time() -> None:
    def seconds(*words: str) -> float:
        return float(told("rehearse", *QUICK, "--jitter", "0", "--no-journal", *words)["seconds"])

    plain = seconds()
    assert plain == pytest.approx(6 * (0.01 + 6 * 1e-4 + 1.5 * 4 * 682 / 125e6))
    assert seconds("--compute", "20ms") == pytest.approx(plain + 6 * 0.01)
    assert seconds("--compute", "10ms,30ms") == pytest.approx(plain + 6 * 0.02)
    assert seconds("--latency", "1ms") == pytest.approx(plain + 6 * 6 * 9e-4)
    assert seconds("--link", "1MB/s") > plain + 6 * 1.5 * 4 * 682 * 0.9e-6
    assert seconds("--trouble", "slow(rank=0, factor=3)") == pytest.approx(plain + 6 * 0.02)


@pytest.mark.parametrize(
    ("strategy", "where"), [("dgc", "momentum=0.9 in the codec"), ("eamsgd", "lookahead=0.9 in the merge")]
)
@pytest.mark.parametrize("words", [("--optimizer", "nesterov"), ("--momentum", "0.9"), ("--optimizer", "adam")])
def test_a_second_momentum_is_refused_naming_the_number_to_move(
    strategy: str, where: str, words: tuple[str, str]
) -> None:
    for asked in (("rehearse", strategy), ("rehearse", "--compare", "allreduce", strategy)):
        result = ask(*asked, *QUICK, *words)
        assert result.exit_code == 2
        assert "keeps the momentum itself" in result.stderr and where in " ".join(result.stderr.split())


def test_a_task_of_ones_own_is_found_where_one_stands(tmp_path: Path) -> None:
    (tmp_path / "my_own_task.py").write_text(
        "from gossamer.tasks.digits import digits\n"
        "def mine(seed, wide=False):\n"
        "    return digits(seed, hidden=16 if wide else 4)\n"
    )
    words = ("rehearse", "--task", "my_own_task:mine", "--steps", "2", "--workers", "2")
    narrow, wide = told(*words), told(*words, "--task-option", "wide=True")
    assert wide["bytes_sent_per_member"] > 2 * narrow["bytes_sent_per_member"]


def test_epochs_and_the_usual_length() -> None:
    assert told("rehearse", "--workers", "4", "--epochs", "0.5", "--task-option", "hidden=4")["steps"] == 19
    assert told("rehearse", "--workers", "128", "--batch", "9", "--task-option", "hidden=4")["steps"] == 32


def test_machines_that_compute_in_no_time_send_no_more() -> None:
    words = ("rehearse", "allreduce", *QUICK, "--no-journal", "--compute")
    assert told(*words, "0")["bytes_sent_per_member"] == told(*words, "10ms")["bytes_sent_per_member"]
