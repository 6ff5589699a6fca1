"""Calibrating on runs: links that made them are found again, and runs that were left out are foretold."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli.ask import process, refused, told

from gossamer.parts.refusal import Refused
from gossamer.parts.selection import Tag
from gossamer.records import Header, Journal, StepRecord
from gossamer.sim.calibrate import calibrate, predicted
from gossamer.sim.cluster import Cluster, Tier
from gossamer.sim.seen import Seen, seen
from gossamer.sim.workload import Goal, Workload
from gossamer.sim.written import written, written_cluster

MODEL = Workload(tuple(Tag(f"{n}", (512, 512)) for n in range(4)), (1.0,) * 4, (8,), (0.05,), name="four layers")
LABEL = Cluster(hosts=16, per_host=1, across=Tier(1e-4, 125e6, 0.9), jitter=0.0, name="label")
TRUE = replace(LABEL, across=Tier(8e-4, 125e6, 0.4))


def runs(strategies: tuple[str, ...] = ("allreduce", "dpsgd"), sizes: tuple[int, ...] = (2, 4)) -> list[Seen]:
    """As the true cluster would have them."""
    found = [Seen(f"{s}-{n}", s, (1,) * n, 8.0, 1.0, 0.05, 0.0) for s in strategies for n in sizes]
    return [replace(run, seconds=predicted(run, TRUE, MODEL)) for run in found]


def test_the_links_that_made_the_runs_are_found() -> None:
    found = calibrate(runs(), LABEL, MODEL)
    assert found.cluster.across is not None
    assert found.cluster.across.rate == pytest.approx(0.4 * 125e6, rel=0.1)
    assert found.cluster.across.latency == pytest.approx(8e-4, rel=0.35)
    assert max(map(abs, found.errors.values())) < 0.03 and found.held_out_error is not None
    assert found.held_out_error < 0.1 and found.cluster.measured == 4


def test_more_workers_and_other_strategies_are_foretold() -> None:
    found = calibrate(runs(), LABEL, MODEL)
    for other in runs(("allreduce", "local_sgd(every=4)", "parameter_server", "hogwild"), (8, 12)):
        likely, by_label = (predicted(other, each, MODEL) for each in (found.cluster, LABEL))
        assert likely == pytest.approx(other.seconds, rel=0.1), other
        assert abs(by_label / other.seconds - 1) > 0.15 or "every" in other.strategy


def test_a_run_of_two_strategies_is_played_by_both() -> None:
    """By the share of its steps that were before the switch; all of them in the first are the first alone."""
    run = replace(runs(("allreduce",))[0], strategy="post_local_sgd(every=4, switch=1000)")
    first, then = (predicted(replace(run, strategy=s), TRUE, MODEL) for s in ("allreduce", "local_sgd(every=4)"))
    assert first > 1.2 * then
    for early in (0.0, 0.25, 1.0):
        likely = predicted(replace(run, early=early), TRUE, MODEL)
        assert likely == pytest.approx(early * first + (1.0 - early) * then, rel=1e-6)


def test_servers_of_a_run_are_played() -> None:
    """With links of their own for half of what all push; a run that says nothing is told of."""
    cluster = replace(TRUE, across=Tier(8e-4, 12.5e6))
    one, four = (replace(runs(("hogwild",))[1], servers=count) for count in (1, 4))
    assert predicted(one, cluster, MODEL) > 1.5 * predicted(four, cluster, MODEL)
    mute = replace(one, name="mute", servers=None)
    assert calibrate([one, mute, *runs(("allreduce",))], cluster, MODEL).silent == ("mute",)


def test_rates_of_codecs_are_those_of_the_journals() -> None:
    """Seconds of a step over bytes of the tensors; runs without any leave them as they are."""
    given = calibrate(runs(("allreduce",)), LABEL, MODEL).cluster
    assert (given.writing, given.reading) == (LABEL.writing, LABEL.reading)
    slow = replace(TRUE, writing=1e8, reading=3e8)
    seen = [replace(run, strategy="dgc", encode=MODEL.nbytes / 1e8, decode=0.0) for run in runs(("allreduce",))]
    seen = [replace(run, seconds=predicted(run, slow, MODEL)) for run in seen]
    rare = replace(seen[0], name="rare", strategy="Exchange(payload=DELTAS, codec=ErrorFeedback(TopK(keep=0.01)), "
                   "synchrony=Synchrony(every=5))", encode=MODEL.nbytes / 1e8 / 5)  # fmt: skip
    for kept in (seen, [replace(rare, seconds=predicted(rare, slow, MODEL))]):
        found = calibrate(kept, LABEL, MODEL).cluster
        assert found.writing == pytest.approx(1e8) and found.reading == LABEL.reading
        assert found.spread["writing"] == 0.1 and found.spread.get("reading") == LABEL.spread.get("reading")


def test_two_runs_leave_nothing_out() -> None:
    assert calibrate(runs(("allreduce",)), LABEL, MODEL).held_out_error is None


def journals(folder: Path, run: Seen, steps: int = 20) -> Path:
    """A folder as a run leaves it."""
    for member in range(run.workers):
        with Journal(folder / f"journal-{member}.jsonl", print) as journal:
            hosts = {"hosts": "+".join(map(str, run.hosts))}
            journal.write(Header("prepare", run.strategy, run.workers, 0, "own loop", "SGD", 8, 0, hosts))
            for step in range(steps):
                spans = {"compute": run.compute, "wait": run.seconds - run.compute}
                journal.write(StepRecord(member, step, step * run.seconds, 1.0, spans, {0: 8}, {0: 8}))
    return folder


def test_a_run_is_read_from_its_journals(tmp_path: Path) -> None:
    run = runs()[1]
    found = seen(journals(tmp_path / "run", run))
    assert (found.strategy, found.hosts, found.batch) == (run.strategy, run.hosts, 8.0)
    assert found.seconds == pytest.approx(run.seconds) and found.compute == pytest.approx(0.05)
    assert found.jitter == pytest.approx(0.0, abs=1e-9)


def written_run(folder: Path, strategy: str, steps: int, settings: dict[str, str], began: int = 0) -> Path:
    """One member's journal, whose steps are of a second until step 10, and then of a tenth."""
    with Journal(folder / "journal-0.jsonl", print) as journal:
        journal.write(Header("engine", strategy, 2, 0, "digits", "SGD", 8, steps, settings))
        for step in range(began, began + steps):
            spans = {"compute": 1.0 if step < 10 else 0.1, "encode": 0.02, "decode": 0.01}
            journal.write(StepRecord(0, step, 0.0, 1.0, spans, {}, {}))
    return folder


def test_steps_before_and_after_a_switch_are_counted(tmp_path: Path) -> None:
    """Whole periods of each: of 16 steps the first 3 are left out, and of the last 6 those 4 count that make one."""
    post = "post_local_sgd(every=4, switch=10)"
    found = seen(written_run(tmp_path / "both", post, 16, {"hosts": "2"}))
    assert found.early == pytest.approx(7 / 11) and found.seconds == pytest.approx((7 * 1.0 + 4 * 0.1) / 11 + 0.03)
    assert (found.encode, found.decode) == (pytest.approx(0.02), pytest.approx(0.01))
    assert seen(written_run(tmp_path / "first", post, 9, {"hosts": "2"})).early == 1.0
    assert seen(written_run(tmp_path / "then", post, 9, {"hosts": "2"}, 12)).early == 0.0


@pytest.mark.parametrize(
    ("settings", "servers", "said"),
    [
        ({}, None, ""), ({"servers": ""}, 0, ""), ({"hosts": "1+1", "servers": "2+2+3"}, 2, ""),
        ({"hosts": "1+1", "servers": "1+2"}, None, "servers share hosts with members"),
        ({"servers": "one"}, None, "servers is the host of each"),
        ({"trouble": "slow(rank=1, factor=5)"}, None, "had trouble by a script, slow(rank=1, factor=5): its links"),
    ],
)  # fmt: skip
def test_servers_and_trouble_are_read(settings: dict[str, str], servers: int | None, said: str, tmp_path: Path) -> None:
    folder = written_run(tmp_path, "hogwild", 9, settings)
    if not said:
        assert seen(folder).servers == servers
        return
    with pytest.raises(Refused) as refused:
        seen(folder)
    assert said in str(refused.value)


def test_the_first_steps_are_left_out_wherever_a_run_began(tmp_path: Path) -> None:
    """A run that goes on from a checkpoint warms up, too."""
    with Journal(tmp_path / "journal-0.jsonl", print) as journal:
        journal.write(Header("prepare", "allreduce", 1, 0, "own loop", "SGD", 8, 0))
        for step in range(10):
            journal.write(StepRecord(0, 100 + step, 0.0, 1.0, {"compute": 9.0 if step < 2 else 0.1}, {}, {}))
    assert seen(tmp_path).seconds == pytest.approx(0.1)


def test_the_command_writes_what_the_simulator_reads(tmp_path: Path) -> None:
    folders = [str(journals(tmp_path / run.name, run)) for run in runs()]
    (tmp_path / "label.toml").write_text(written_cluster(LABEL))
    (tmp_path / "model.toml").write_text(written(MODEL))
    asked = (
        "calibrate",
        *folders,
        "--cluster",
        str(tmp_path / "label.toml"),
        "--workload",
        str(tmp_path / "model.toml"),
    )
    found = told(*asked, "--output", str(tmp_path / "here.toml"))
    assert found["parameters"]["across.rate"] == pytest.approx(0.4 * 125e6, rel=0.1)
    assert found["held_out_error"] < 0.1 and len(found["runs"]) == 4
    cluster, workload = Cluster.load(tmp_path / "here.toml"), Workload.load(tmp_path / "here-workload.toml")
    assert predicted(runs()[0], cluster, workload) == pytest.approx(runs()[0].seconds, rel=0.03)
    assert written_cluster(cluster) == (tmp_path / "here.toml").read_text()
    assert "is there already" in refused(*asked, "--output", str(tmp_path / "here.toml"))


def test_a_folder_without_journals_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.toml").write_text(written(MODEL))
    words = refused("calibrate", str(tmp_path), "--cluster", "lan-1gbit", "--workload", str(tmp_path / "model.toml"),
                    "--output", str(tmp_path / "out.toml"))  # fmt: skip
    assert "holds no journal" in words and not (tmp_path / "out.toml").exists()


@pytest.mark.parametrize("hosts", ["", "a", "1+", "0+2", "-1", "9" * 5000])
def test_hosts_that_are_no_counts_are_refused(hosts: str, tmp_path: Path) -> None:
    with Journal(tmp_path / "journal-0.jsonl", print) as journal:
        journal.write(Header("prepare", "allreduce", 2, 0, "own loop", "SGD", 8, 0, {"hosts": hosts}))
        journal.write(StepRecord(0, 0, 0.0, 1.0, {"compute": 0.1}, {}, {}))
    with pytest.raises(Refused, match="hosts is members of each"):
        seen(tmp_path)


def test_a_journal_that_is_none_is_refused_by_its_line(tmp_path: Path) -> None:
    folder = written_run(tmp_path / "run", "allreduce", 3, {})
    file = folder / "journal-0.jsonl"
    first, *rest = file.read_text().splitlines()
    file.write_text("\n".join([first, "garbage", *rest]))
    (tmp_path / "model.toml").write_text(written(MODEL))
    words = ("calibrate", str(folder), "--cluster", "laptop", "--workload", str(tmp_path / "model.toml"))
    assert "journal-0.jsonl, line 2: not a journal line" in refused(*words, "--output", str(tmp_path / "out.toml"))
    file.write_text("\n".join([first.replace('"batch":8', '"batch":-8'), *rest]))
    with pytest.raises(Refused, match="batch must be from 0"):
        seen(folder)


def test_steps_that_took_no_time_are_refused(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal-0.jsonl", print) as journal:
        journal.write(Header("prepare", "allreduce", 2, 0, "own loop", "SGD", 8, 0))
        journal.write(StepRecord(0, 0, 0.0, 1.0, {}, {}, {}))
    with pytest.raises(Refused, match="took no time"):
        seen(tmp_path)


def test_both_files_have_names_of_their_own(tmp_path: Path) -> None:
    out, run = str(tmp_path / "o.toml"), str(journals(tmp_path / "run", runs()[0]))
    words = refused("calibrate", run, "--cluster", "lan-1gbit", "--workload", "mlp-small", "--output", out,
                    "--output-workload", out)  # fmt: skip
    assert "one file for both" in words and not (tmp_path / "o.toml").exists()


def test_real_journals_say_who_shares_a_host(tmp_path: Path) -> None:
    """Two workers of `gossamer train`, as a run of one host."""
    words = ("train", "--strategy", "dgc", "--workers", "2", "--steps", "12", "--batch", "8")
    process(*words, "--trouble", "slow(rank=1, factor=2, start=11)", where=tmp_path)
    folder = next((tmp_path / "runs").iterdir())
    with pytest.raises(Refused, match=r"had trouble by a script, slow\(rank=1"):
        seen(folder)
    for path in folder.glob("journal-*.jsonl"):
        path.write_text(path.read_text().replace('"trouble":"slow', '"told":"slow'))
    found = seen(folder)
    assert found.hosts == (2,) and found.batch == 8.0 and 0 < found.compute <= found.seconds
    assert found.servers == 0 and found.encode > 0 and found.decode > 0


def test_a_noise_scale_that_was_seen_is_the_critical_batch() -> None:
    goal = replace(MODEL, goal=Goal(1e6, 5000.0))
    noisy = [replace(run, noise=scale) for run, scale in zip(runs(), (300.0, None, 500.0, 400.0), strict=True)]
    found = calibrate(noisy, LABEL, goal).workload.goal
    assert found is not None and found.critical == 400.0
    assert calibrate(runs(), LABEL, goal).workload.goal == goal.goal
