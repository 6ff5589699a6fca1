"""A journal read while it grows: new lines once each, torn ones when they are whole."""

from __future__ import annotations

from math import isnan
from pathlib import Path

from gossamer.records import Evaluation, Header, Journal, Record, StepRecord
from gossamer.records.tail import Tail

HEAD = Header("engine", "allreduce", 1, 0, "digits", "sgd", 8, 9, {})


def step(number: int, loss: float = 1.0) -> StepRecord:
    return StepRecord(0, number, 0.1 * number, loss, {"compute": 0.1}, {0: 8}, {})


def lines(path: Path, *records: Record) -> bytes:
    with Journal(path) as journal:
        for record in records:
            journal.write(record)
    return path.read_bytes()


def test_only_what_is_new_is_read_and_a_torn_line_waits_until_it_is_whole(tmp_path: Path) -> None:
    text = lines(tmp_path / "whole", HEAD, step(0), step(1))
    path = tmp_path / "growing"
    tail = Tail(path)
    assert tail.new() == []
    seen: list[Record] = []
    for end in range(len(text) + 1):
        path.write_bytes(text[:end])
        found = tail.new()
        assert len(found) <= 1
        assert bool(found) == text[:end].endswith(b"\n")
        seen += found
    assert seen == [HEAD, step(0), step(1)]
    assert tail.new() == []


def test_what_an_earlier_run_left_is_skipped_with_its_torn_end(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_bytes(lines(tmp_path / "first", HEAD, step(0))[:-9])
    tail = Tail(path, since=path.stat().st_size)
    lines(path, HEAD, step(1))
    assert tail.rest() == [HEAD, step(1)]
    assert tail.strange == 0


def test_strange_lines_are_passed_over_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    path.write_bytes(b'{"kind": "nothing"}\n\n\xff\n' + lines(tmp_path / "whole", step(3)))
    tail = Tail(path)
    assert tail.rest() == [step(3)]
    assert tail.strange == 2


def test_a_long_journal_is_read_piece_by_piece_and_whole(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    text = lines(tmp_path / "one", step(7))
    count = 5_000_000 // len(text)
    path.write_bytes(text * count)
    tail = Tail(path)
    first = tail.new()
    assert 0 < len(first) < count
    assert len(first) + len(tail.rest()) == count


def test_a_loss_that_is_no_number_is_read_back(tmp_path: Path) -> None:
    lines(tmp_path / "journal", step(0, float("nan")), Evaluation(1.0, 1, 0.1, float("nan"), 0.5, 0.0))
    found = Tail(tmp_path / "journal").new()
    assert len(found) == 2 and all(isinstance(each, StepRecord | Evaluation) and isnan(each.loss) for each in found)
