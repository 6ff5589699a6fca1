"""`gossamer simulate`: rows over worker counts, side by side, as words, JSON, a picture, a page and a trace."""

from __future__ import annotations

import json
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.cli.ask import DOOR, ask, refused, told

import gossamer

ABCI = ("--cluster", "abci", "--workload", "resnet50")
LAN = ("--cluster", "lan-1gbit", "--workload", "mlp-small")
ROUTES = ("allreduce(ring)", "allreduce(halving_doubling)", "allreduce(hierarchical)", "allreduce(torus)")


def test_rows_double_from_one_host_and_end_with_what_was_asked() -> None:
    found = told("simulate", "allreduce", *ABCI, "--workers", "100")
    assert [row["workers"] for row in found["rows"]] == [4, 8, 16, 32, 64, 100]
    assert [row["workers"] for row in told("simulate", *LAN, "--workers", "4")["rows"]] == [1, 2, 4]
    found = told("simulate", *ABCI, "--workers", "64", "--from", "32")
    assert [row["workers"] for row in found["rows"]] == [32, 64]
    assert found["cluster"]["given"] == "abci" and "memory" in found["cluster"]["source"]
    assert found["workload"]["name"].startswith("ResNet-50")


def test_a_row_is_the_forecast() -> None:
    found = told("simulate", "--strategy", "ssp(2)", *LAN, "--workers", "4", "--batch", "64", "--servers", "1")
    row: dict[str, Any] = found["rows"][-1]
    same = gossamer.simulate("ssp(2)", "lan-1gbit", "mlp-small", 4, batch=64, servers=1)
    assert (row["seconds_per_step_low"], row["seconds_per_step"]) == (same.step.low, same.step.value)
    assert row["seconds_per_step_high"] == same.step.high and row["scaling_efficiency"] == same.efficiency
    assert row["exposed_seconds"] == same.exposed and row["samples_per_second"] == same.throughput
    assert row["bytes_sent_per_member_per_step"] == same.sent and row["staleness_mean"] == same.staleness
    assert (row["extrapolation"], row["goodput"], row["seconds_to_goal"]) == (4.0, same.goodput, None)
    goal = told("simulate", *ABCI, "--workers", "4")["rows"][-1]
    assert goal["seconds_to_goal_low"] < goal["seconds_to_goal"] < goal["seconds_to_goal_high"]


def test_fewer_workers_keep_the_local_batch_or_the_global_one() -> None:
    weak = told("simulate", *ABCI, "--workers", "64", "--batch", "1024")
    assert weak["scaling"] == "weak" and {row["batch"] / row["workers"] for row in weak["rows"]} == {16}
    strong = told("simulate", *ABCI, "--workers", "64", "--batch", "1024", "--fixed-batch")
    assert strong["scaling"] == "strong" and {row["batch"] for row in strong["rows"]} == {1024}
    shown = ask("simulate", *ABCI, "--workers", "64", "--batch", "1024").stdout
    assert "16 samples a worker (weak scaling: 1,024 on 64)" in shown


def test_far_beyond_what_was_measured_the_first_line_says_so() -> None:
    lines = ask("simulate", *ABCI, "--workers", "128").stdout.splitlines()
    assert "take this as a guess" in lines[0]
    assert "guess" not in ask("simulate", *ABCI, "--workers", "64").stdout
    found = told("simulate", *ABCI, "--workers", "128")
    assert "guess" in found["warning"] and next(iter(found)) == "warning"
    assert [row["warning"] is None for row in found["rows"]] == [True] * 5 + [False]


def test_counts_that_a_strategy_refuses_are_left_out_with_a_note() -> None:
    words = ("simulate", "sgp", *LAN, "--workers", "4")
    found = told(*words)
    assert [row["workers"] for row in found["rows"]] == [2, 4]
    assert found["left_out"][0]["workers"] == 1 and "needs company" in found["left_out"][0]["reason"]
    assert "left out: sgp on 1: Exponential: gossip needs company" in ask(*words).stdout


def test_a_run_that_stands_still_says_so_and_exits_1() -> None:
    words = ("simulate", *LAN, "--workers", "4", "--trouble", "fail(rank=3, step=5)")
    result = ask(*words)
    assert result.exit_code == 1
    assert "stands still: member 3 died as it began step 5, and the others wait for it" in result.stdout
    row = told(*words, code=1)["rows"][-1]
    assert row["seconds_per_step"] is None and row["seconds_to_goal"] is None and "member 3" in row["stopped"]
    assert ask("simulate", "gossip_pull", *words[1:]).exit_code == 0


@pytest.mark.parametrize("name", ["still.png", "still.html"])
def test_what_never_moves_is_drawn_as_nothing(name: str, tmp_path: Path) -> None:
    words = ("simulate", *LAN, "--from", "4", "--workers", "4", "--trouble", "fail(rank=3, step=0)")
    result = ask(*words, "--plot", str(tmp_path / name), "--trace", str(tmp_path / "still.json"))
    assert result.exit_code == 1 and "stands still" in result.stdout and result.exception.code == 1
    assert (tmp_path / name).exists() and json.loads((tmp_path / "still.json").read_text())["traceEvents"] == []


def test_compared_strategies_stand_side_by_side(tmp_path: Path) -> None:
    words = (
        "simulate",
        "--strategy",
        ROUTES[0],
        "--compare",
        *ROUTES[1:],
        *ABCI,
        "--workers",
        "1024",
        "--batch",
        "16384",
    )
    shown = ask(*words, "--plot", str(tmp_path / "a.png")).stdout
    assert "on 1,024 workers:" in shown and "nine chances in ten" in shown
    line = next(line for line in shown.splitlines() if line.strip().startswith("1,024"))
    assert line.count("*") == 1 and line.count("%") == 4
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    rows = [row for row in told(*words)["rows"] if row["workers"] == 1024]
    seconds = {row["strategy"]: row["seconds_per_step"] for row in rows}
    assert seconds[ROUTES[3]] < seconds[ROUTES[2]] < seconds[ROUTES[0]]  # the torus, masters, the ring: C86


def test_the_page_needs_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    words = ("simulate", "--compare", "allreduce", "Exchange(payload=PARAMETERS, topology=Cycle())", *LAN)
    assert ask(*words, "--plot", str(path)).exit_code == 0
    text = path.read_text()
    assert "<svg" in text and "topology=Cycle()" in text and text.count("<tr") == 1 + 5
    assert "src=" not in text and "<link" not in text and "<script" not in text and "four machines" in text


@pytest.mark.parametrize("strategy", ["allreduce(torus)", "sgp", "ssp(1)", "gossip_pull", "one_bit", "diloco(every=2)"])
def test_the_trace_shows_who_waits_for_whom(strategy: str, tmp_path: Path) -> None:
    """A track holds one thing at a time; slices and arrows lie on tracks that have names."""
    path = tmp_path / "steps.json"
    words = ("simulate", strategy, *ABCI, "--workers", "16", "--batch", "256", "--trouble", "slow(rank=5, factor=3)")
    assert ask(*words, "--trace", str(path)).exit_code == 0
    events = json.loads(path.read_text())["traceEvents"]
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert {f"member {n}" for n in range(16)} <= set(names.values())
    hosts = {e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert {"host 0", "host 3"} <= hosts
    tracks: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for event in (e for e in events if e["ph"] == "X"):
        tracks.setdefault((event["pid"], event["tid"]), []).append((event["ts"], event["dur"]))
    assert set(tracks) == set(names)
    for spans in tracks.values():
        spans.sort()
        assert all(a[0] + a[1] <= b[0] + 1e-3 for a, b in pairwise(spans))
    waits = {e["name"] for e in events if e["ph"] == "X" and e["name"].startswith("wait for")}
    arrows = [e for e in events if e["ph"] in "sf"]
    assert ("wait for member 5" in waits and arrows) or strategy in ("gossip_pull", "ssp(1)")
    assert all((e["pid"], e["tid"]) in names for e in arrows)


def test_a_trace_that_is_there_stays_unless_forced(tmp_path: Path) -> None:
    path = tmp_path / "steps.json"
    path.write_text("mine")
    words = ("simulate", *LAN, "--trace", str(path))
    assert "is there already" in refused(*words) and path.read_text() == "mine"
    assert ask(*words, "--force").exit_code == 0 and "traceEvents" in path.read_text()


def test_the_list_names_what_is_shipped() -> None:
    found = told("simulate", "--list")
    assert {"abci", "laptop"} <= {each["given"] for each in found["clusters"]}
    assert {"resnet50", "gpt3"} <= {each["given"] for each in found["workloads"]}
    assert "a TPU v3 pod" in ask("simulate", "--list").stdout


def test_what_takes_long_is_told_on_stderr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gossamer.cli.simulate_progress.PATIENCE", 0.02)
    result = ask("simulate", "--strategy", "ssp", *ABCI, "--workers", "256", "--json")
    assert json.loads(result.stdout) and "of 7 done; now ssp on 256 workers" in result.stderr
    monkeypatch.setattr("gossamer.cli.simulate_progress.PATIENCE", 1e6)
    assert ask("simulate", *LAN).stderr == ""


def test_same_seed_same_output_and_no_torch() -> None:
    code = (
        "import sys\n"
        "import gossamer\n"
        "from gossamer.cli.main import app\n"
        "assert gossamer.Forecast and gossamer.Cluster and gossamer.Workload\n"
        "print(gossamer.simulate('dgc', 'abci', 'resnet50', 64).step)\n"
        "app(['simulate', '--compare', 'ssp', 'powersgd', '--cluster', 'lan-1gbit', '--workload', 'vgg16', '--json'],\n"
        "    standalone_mode=False)\n"
        "sys.exit(70 if 'torch' in sys.modules else 0)"
    )
    one, other = (subprocess.run([*DOOR[:2], code], capture_output=True, text=True) for _ in range(2))
    assert one.returncode == 0, one.stderr
    assert one.stdout == other.stdout and one.stdout.startswith("Interval")


def test_a_noise_scale_is_the_critical_batch() -> None:
    """Half the samples at a scale so large that the batch costs nothing; without a goal it is refused."""
    asked = ("simulate", "--cluster", "abci", "--workload", "resnet50", "--workers", "64", "--batch", "4096")
    few, many = (told(*asked, "--noise-scale", scale)["rows"][-1]["seconds_to_goal"] for scale in ("4096", "1e15"))
    assert few == pytest.approx(2 * many, rel=1e-6)
    assert "says nothing without a goal" in refused(
        "simulate", "--cluster", "abci", "--workload", "vgg16", "--workers", "8", "--noise-scale", "100"
    )
