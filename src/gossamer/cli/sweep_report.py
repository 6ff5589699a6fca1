"""A sweep in words and as JSON: one sentence per worker count, computed from the results. Draws nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from msgspec import to_builtins

from gossamer.cli.sweep_case import Result
from gossamer.cli.sweep_verdict import ALIKE, Cell, Row, Spread, best, fastest
from gossamer.parts.units import told_workers


@dataclass(frozen=True)
class Sweep:
    """A sweep that was played: its table, what it was timed to, and where it lies."""

    rows: list[Row]
    results: list[Result]
    target: float
    out: Path | None
    plot: list[Path]
    wall: float

    @property
    def seeds(self) -> int:
        """How many of them."""
        return len({result.seed for result in self.results})


def sentences(rows: Sequence[Row], target: float) -> list[str]:
    """For each worker count, who reached the target first and where, or that nobody was ahead beyond the spread."""
    return [
        f"{told_workers(workers)}: {_sentence([row for row in rows if row.workers == workers], target)}."
        for workers in dict.fromkeys(row.workers for row in rows)
    ]


def _sentence(rows: Sequence[Row], target: float) -> str:
    where: dict[str, list[str]] = {}
    for row in rows:
        where.setdefault(verdict(row, target), []).append(row.place)
    if len(where) == 1:
        said = next(iter(where))
        return said if len(rows) == 1 else f"{said}, {'both times' if len(rows) == 2 else f'all {len(rows)} times'}"
    return "; ".join(f"{_listed(places)}: {said}" for said, places in where.items())


def verdict(row: Row, target: float) -> str:
    """Who reached the target first at one place of the sweep."""
    ahead, ranked = fastest(row), [cell for cell in row.cells if cell.ranks]
    if not ahead:
        some = any(cell.seconds.known for cell in ranked)
        return f"nobody reached {target:g}{' with every seed' if some else ''}"
    names = [row.cells[place].strategy for place in ahead]
    if len(ranked) > 1 and sum(bool(cell.seconds.known) for cell in ranked) == 1:
        return f"only {names[0]} reached {target:g}{_cut_short(row, ahead[0])}"
    if min(len(cell.runs) for cell in ranked) < 2:
        return f"{names[0]} reached {target:g} first, with one seed, which has no spread"
    if len(names) == 1:
        return f"{names[0]} reached {target:g} first"
    if len(names) == len(ranked):
        return ALIKE
    return f"{_listed(names)} reached {target:g} before the others, {ALIKE} between them"


def _cut_short(row: Row, winner: int) -> str:
    """A word on those who trained the same samples in less time than the winner took: with more they might have won."""
    slowest = row.cells[winner].seconds.high
    early = [
        cell.strategy
        for cell in row.cells
        if cell.ranks and not cell.seconds.known and max(run.seconds for run in cell.runs) < slowest
    ]
    return f", but the samples of {_listed(early)} ran out in less time than that" if early else ""


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


def told(sweep: Sweep) -> dict[str, object]:
    """A sweep as one JSON object: every run with its curves, every cell with its spread, and the sentences."""
    return {
        "setting": to_builtins(sweep.results[0].setting),
        "target": sweep.target,
        "seeds": sorted({result.seed for result in sweep.results}),
        "rows": [_row(row) for row in sweep.rows],
        "sentences": sentences(sweep.rows, sweep.target),
        "runs": [_run(result, sweep.target) for result in sweep.results],
        "failed": sum(result.failure is not None for result in sweep.results),
        "wall_seconds": sweep.wall,
        "out": sweep.out,
        "plots": sweep.plot,
    }


def _run(result: Result, target: float) -> dict[str, object]:
    plain = {key: value for key, value in to_builtins(result).items() if key != "setting"}
    reached = {"seconds_to_target": result.seconds_to(target), "epochs_to_target": result.epochs_to(target)}
    return {**plain, **reached}


def _row(row: Row) -> dict[str, object]:
    first = best([cell.seconds if cell.ranks else None for cell in row.cells], more=False)
    most = best([cell.accuracy if cell.ranks else None for cell in row.cells], more=True)
    return {
        "workers": row.workers,
        "rate": row.rate,
        "straggler": row.straggler,
        "best_accuracy": None if most is None else row.cells[most].strategy,
        "first_at_target": None if first is None else row.cells[first].strategy,
        "strategies": {cell.strategy: _cell(cell) for cell in row.cells},
    }


def _cell(cell: Cell) -> dict[str, object]:
    return {
        "accuracy": _spread(cell.accuracy),
        "seconds_to_target": _spread(cell.seconds),
        "epochs_to_target": _spread(cell.epochs),
        "failures": cell.failures,
    }


def _spread(spread: Spread) -> dict[str, object]:
    return {
        "mean": spread.mean,
        "low": spread.low,
        "high": spread.high,
        "of": len(spread.values),
        "known": len(spread.known),
    }
