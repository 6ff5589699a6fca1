"""The verdict on a run, from journals written by hand: its numbers, who is slow and why, what to try, what is shown."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from gossamer.cli.train_progress import Progress, drawn
from gossamer.cli.train_request import Request, check
from gossamer.cli.train_screen import draw
from gossamer.cli.train_settings import resolve
from gossamer.cli.train_told import advice, told
from gossamer.cli.train_verdict import Verdict, verdict
from gossamer.records import Evaluation, Event, Header, Journal, Noise, StepRecord, Truth
from gossamer.records.tail import Tail
from gossamer.records.tally import Tally
from gossamer.tasks import build

USUAL = {"compute": 0.006, "encode": 0.0, "send": 0.0005, "wait": 0.001, "decode": 0.0, "data": 0.0001}
PACED = {"batches": "0:64, 1.5:128", "epochs": 6.0, "steps": None}


def asked(**said: object) -> Request:
    given = {"workers": 4, "steps": 100, "options": {"hidden": 8}, **said}
    return check(resolve(("option", given)), [])


def journals(folder: Path, spans: dict[int, dict[str, float]], last: float = 0.98) -> Tally:
    """100 steps of every member as a run leaves them, read back from their files."""
    tally = Tally()
    for member, split in spans.items():
        path = folder / f"journal-{member}.jsonl"
        with Journal(path) as journal:
            settings = {"fabric": "shared memory", "kernel": "compiled"}
            journal.write(Header("engine", "Exchange()", 4, 0, "digits", "sgd", 16, 100, settings))
            for step in range(100):
                time = (step + 1) * sum(split.values())
                journal.write(StepRecord(member, step, time, 0.5, split, {0: 4096}, {0: 4096}))
            if member == 0:
                journal.write(Evaluation(0.5, 200, 2.0, 0.4, 0.9, 0.0))
                journal.write(Evaluation(1.0, 400, 5.3, 0.1, last, 0.25))
        tally.take(Tail(path).rest())
    return tally


def found(folder: Path, spans: dict[int, dict[str, float]], last: float = 0.98, **said: object) -> Verdict:
    return verdict(asked(**said), folder, journals(folder, spans, last), None, None)


def screen(one: Verdict, width: int = 100) -> str:
    text = io.StringIO()
    draw(one, Console(file=text, width=width))
    return text.getvalue()


def four(**last: float) -> dict[int, dict[str, float]]:
    """Four members, of which member 3 differs."""
    return {0: USUAL, 1: USUAL, 2: USUAL, 3: {**USUAL, **last}}


def test_the_numbers_of_a_run(tmp_path: Path) -> None:
    one = found(tmp_path, four())
    assert (one.steps, one.sent, one.to_target) == (100, 409600, 1.0)
    assert one.spans == pytest.approx(USUAL)
    assert one.efficiency == pytest.approx(0.006 / 0.0076)
    assert one.exchange == pytest.approx(0.0015 / 0.0076)
    assert one.slow is None and advice(one) is None
    shown = screen(one)
    for words in (
        "0.980 on held-out data, loss 0.100; replicas differ by 0.25",
        "0.97 after 1 s",
        "batch 64 = 4 x 16",
        "compute 6 ms  send 500 µs  wait 1 ms  data 100 µs",
        "79% of the time is compute",
        "410 kB sent per member, 4.1 kB a step",
        "nobody stands out: members' own work differs by 1.00x",
        "shared memory",
    ):
        assert words in shown, words
    assert "encode" not in shown and "next" not in shown


@pytest.mark.parametrize(
    ("last", "why", "next_"),
    [
        (
            {"compute": 0.012, "wait": 0.0},
            "member 3: compute takes 12 ms a step, 2x the others",
            "is late by 6 ms a step",
        ),
        ({"data": 0.002}, "member 3: data takes 2 ms a step, 20x the others", None),
        ({"wait": 0.0}, "member 3 waits least, 0 s a step against 1 ms: the others wait for it", None),
        ({"compute": 0.0061}, "nobody stands out: members' own work differs by 1.02x", None),
        ({"compute": 0.0068}, "nobody stands out: members' own work differs by 1.13x", None),
        ({"compute": 0.0072}, "member 3: compute takes 7.2 ms a step, 1.2x the others", None),
        ({"wait": 0.0003}, "nobody stands out: members' own work differs by 1.00x", None),
    ],
)
def test_who_is_slow_and_why(last: dict[str, float], why: str, next_: str | None, tmp_path: Path) -> None:
    one = found(tmp_path, four(**last))
    assert why in screen(one, 120)
    assert (advice(one) is None) if next_ is None else (next_ in (advice(one) or ""))
    slow = told(one)["slowest"]
    assert slow is None if "nobody" in why else isinstance(slow, dict) and slow["why"] == why and slow["member"] == 3


@pytest.mark.parametrize(
    ("spans", "said", "next_"),
    [
        ({**USUAL, "wait": 0.004}, {}, "42% of a step is exchange: --strategy 'local_sgd(every=8)', or --batch 32"),
        ({**USUAL, "encode": 0.005}, {"strategy": "powersgd"}, "--strategy 'local_sgd(every=8)', or --batch 32"),
        ({**USUAL, "wait": 0.004}, {"strategy": "local_sgd(every=4)"}, "exchange: every 8 steps, or --batch 32"),
        ({**USUAL, "wait": 0.004}, {"strategy": "gossip_pull"}, "of a step is exchange: --batch 32"),
        ({**USUAL, "data": 0.004, "wait": 0.009}, {}, "of a step goes into data: a faster loader"),
        (USUAL, {"target": 0.99}, "0.99 is not reached and accuracy still grows: --resume"),
        (USUAL, {"target": 0.99, **PACED}, " --epochs 12"),
        ({**USUAL, "wait": 0.004}, PACED, "or --batches '0:128, 1.5:256'"),
    ],
)
def test_one_thing_to_try_next(spans: dict[str, float], said: dict[str, object], next_: str, tmp_path: Path) -> None:
    assert next_ in (advice(found(tmp_path, dict.fromkeys(range(4), spans), **said)) or "")


def test_no_batch_is_offered_that_the_data_has_not(tmp_path: Path) -> None:
    one = found(tmp_path, {member: {**USUAL, "wait": 0.004} for member in range(4)}, batch=200)
    assert (advice(one) or "").endswith("of a step is exchange: --strategy 'local_sgd(every=8)'")


def test_events_are_shown_up_to_a_few(tmp_path: Path) -> None:
    tally = journals(tmp_path, four())
    tally.take([Event(0.1, f"nan in the gradient of member {number}", number) for number in range(9)])
    shown = screen(verdict(asked(), tmp_path, tally, None, 40))
    assert "nan in the gradient of member 5" in shown and "member 6" not in shown and "and 3 more" in shown
    assert "100 steps (from 40 on)" in shown


def test_nothing_that_happened_is_told_too(tmp_path: Path) -> None:
    one = verdict(asked(), tmp_path, Tally(), "was stopped", None)
    assert "the run was stopped" in screen(one) and "not yet evaluated" in screen(one)
    assert told(one)["accuracy"] is None and told(one)["steps"] == 0


def test_progress_on_a_terminal_has_a_line_for_each_member_and_says_when_nothing_comes(tmp_path: Path) -> None:
    text = io.StringIO()
    console = Console(file=text, width=100)
    console.print(drawn(journals(tmp_path, four(compute=0.0152)), 200, 16, still=7.0))
    shown = text.getvalue()
    assert "step 100/200" in shown and "no step for 7 s" in shown and "accuracy 0.980" in shown
    rates = [line.split() for line in shown.splitlines() if line.startswith("member")]
    assert [row[1] for row in rates] == ["0", "1", "2", "3"]
    assert [row[4] for row in rates] == ["132", "132", "132", "59.5"]
    assert rates[0][6] == "2,105" and rates[3][6] == "952" and rates[3][-1] == "9%"
    text.truncate(0)
    console.print(drawn(journals(tmp_path / "many", dict.fromkeys(range(20), USUAL)), 200, 16, still=0.0))
    assert text.getvalue().count("\nmember") == 8 and "and 12 faster members" in text.getvalue()


def test_progress_without_a_terminal_is_a_line_for_every_tenth(tmp_path: Path) -> None:
    text, tally = io.StringIO(), Tally()
    with Progress(100, 16, Console(file=text, width=120)) as progress:
        for step in range(95):
            progress.show(tally)
            tally.take([StepRecord(0, step, 0.01 * (step + 1), 0.5, USUAL, {}, {})])
        progress.last(tally)
        progress.last(tally)
    lines = text.getvalue().splitlines()
    assert [line.split()[1] for line in lines] == ["1/100", *(f"{tenth}0/100" for tenth in range(1, 10)), "95/100"]


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_says_what_the_batch_costs_in_80_columns(tmp_path: Path, terminal: bool) -> None:
    text, tally = io.StringIO(), journals(tmp_path, four())
    console = Console(file=text, width=80)
    look = Noise(2048.0, 3.0, 8192, 1.0, 20480.0)
    tally.take([StepRecord(0, 100, 1.0, 0.5, USUAL, {}, {}, noise=[look])])
    if terminal:
        console.print(drawn(tally, 200, 16, still=0.0))
    else:
        Progress(200, 16, console).last(tally)
    lines = text.getvalue().splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("step 100/200"))
    assert lines[first].endswith("accuracy 0.980")
    assert lines[first + 1] == "your batch of 8,192 costs 1.4x the samples (noise scale 20,480)"


def test_a_live_terminal_is_left_clean() -> None:
    text, tally = io.StringIO(), Tally()
    with Progress(100, 16, Console(file=text, width=120, force_terminal=True)) as progress:
        progress.show(tally)
        tally.take([StepRecord(0, 0, 0.01, 0.5, USUAL, {}, {})])
        progress.show(tally)
        progress.hear("0", "a worker's own [bold]words[/bold]")
    assert "starting the workers" in text.getvalue() and "step 1/100" in text.getvalue()
    assert "a worker's own [bold]words[/bold]" in text.getvalue()


def test_the_truth_of_the_last_look_is_told(tmp_path: Path) -> None:
    """The mean over members and buckets, the worst tensor of all; in the box and as JSON."""
    tally = journals(tmp_path, four())
    for member, cosine in ((0, 0.5), (1, 0.7)):
        for step in (0, 50):
            looks = [Truth(0, 0, cosine, -0.5, 2.0, True, f"{member}.weight", cosine - 0.2)]
            spoken = StepRecord(member, step, 1.0, 0.5, USUAL, {}, {}, truth=looks)
            tally.take([spoken])
    one = verdict(asked(strategy="one_bit", truth=50), tmp_path, tally, None, None)
    shown = " ".join(screen(one).replace("│", " ").split())
    assert "cosine 0.600 with the exact average, bias -50.0%, 2 of it held back" in shown
    assert "lowest in 0.weight, 0.30 (the last of 2 looks)" in shown
    assert told(one)["truth"] == {
        "slot": 0, "bucket": 0, "cosine": 0.6, "bias": -0.5, "residual": 2.0, "keeps": True, "tensor": "0.weight",
        "lowest": 0.3, "looks": 2,
    }  # fmt: skip


def test_where_nothing_is_lost_that_is_told(tmp_path: Path) -> None:
    assert "no exchange loses anything" in screen(found(tmp_path, four(), truth=50))
    assert "truth" not in screen(found(tmp_path, four()))


def test_where_a_codec_pays_follows_from_what_it_took(tmp_path: Path) -> None:
    """8 (B - b) / (encode + decode): 650 parameters on 4 workers, by hand; ten times the time, a tenth of the link."""
    count = sum(p.numel() for p in build("digits", 0, {"hidden": 8}).model.parameters())
    dense, coded = 1.5 * 4 * count, 1.5 * 2 * count  # 2 (p-1)/p of it, in 32 bits and in 16
    bounds = []
    for slower in (1, 10):
        coding = {**USUAL, "encode": slower * 2e-4, "decode": slower * 1e-4}
        one = found(tmp_path / str(slower), dict.fromkeys(range(4), coding), strategy="half")
        assert one.pays_below == pytest.approx(8 * (dense - coded) / (slower * 3e-4), rel=0.01)
        assert told(one)["pays_below_bits_per_second"] == one.pays_below
        bounds.append(one.pays_below)
        assert "members share memory, where it spares nothing" in " ".join(screen(one).replace("│", " ").split())
    assert bounds[0] == pytest.approx(10 * bounds[1])
    assert found(tmp_path / "dense", four()).pays_below is None
