"""The steps of a strategy as rows: steps that play alike, next to each other, are one row. Knows only `phases`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from heapq import merge
from itertools import count
from math import lcm

from gossamer.parts.payload import Order
from gossamer.strategy import AnyStrategy, Compute, Exchange, Meet, Phase, Send, Settle, Staged, phases, slots

MOST_ROWS = 16  # per stage; a longer period is cut off, and said to be


@dataclass(frozen=True)
class Row:
    """Steps `first` to `last` (None: all that follow) play `marks`; no marks: the whole stage begins again.

    `cut`: the stage is longer than is told, and what follows here is not what came before.
    """

    first: int
    last: int | None
    marks: tuple[str, ...] | None
    cut: bool = False


@dataclass(frozen=True)
class Timeline:
    """The rows of each stage, one after the other, and the period of each stage in steps."""

    rows: tuple[Row, ...]
    periods: tuple[int, ...]


def timeline(strategy: AnyStrategy) -> Timeline:
    """One whole period of every stage, begun early enough to see delayed answers come in."""
    if not isinstance(strategy, Staged):
        rows, period = _stage(strategy, strategy.exchanges, 0, None)
        return Timeline(tuple(rows), (period,))
    before, early = _stage(strategy, strategy.first.exchanges, 0, strategy.step)
    after, late = _stage(strategy, strategy.then.exchanges, strategy.step, None)
    return Timeline((*before, *after), (early, late))


def _stage(
    strategy: AnyStrategy, exchanges: tuple[Exchange, ...], start: int, stop: int | None
) -> tuple[list[Row], int]:
    period = lcm(*(ex.synchrony.every for ex in exchanges))
    end = start + period + max(ex.synchrony.delay for ex in exchanges)
    rows: list[Row] = []
    cut = False
    many = len(slots(strategy)) > 1
    for first, after in _segments(exchanges, start, end if stop is None else min(end, stop)):
        marks = tuple(told(phase, first, many) for phase in phases(strategy, first))
        if rows and rows[-1].marks == marks:
            rows[-1] = Row(rows[-1].first, after - 1, marks)
        elif len(rows) == MOST_ROWS:
            end, cut = first, True
            break
        else:
            rows.append(Row(first, after - 1, marks))
    last = None if stop is None else stop - 1
    if period == 1:  # the last row is every step that follows
        rows[-1] = Row(rows[-1].first, last, rows[-1].marks)
    elif last is None or last >= end:
        rows.append(Row(end, last, None, cut))
    return rows, period


def _segments(exchanges: tuple[Exchange, ...], start: int, end: int) -> Iterator[tuple[int, int]]:
    """Spans of steps inside which nothing new begins or ends, found without walking every step."""
    first = start
    for edge in merge(*(_edges(ex, lag, start) for ex in exchanges for lag in {0, ex.synchrony.delay})):
        if edge >= end:
            break
        if edge > first:
            yield first, edge
            first = edge
    yield first, end


def _edges(ex: Exchange, lag: int, start: int) -> Iterator[int]:
    """Where this exchange's Send (lag 0) or Settle begins and ends happening, from `start` on."""
    every, shift = ex.synchrony.every, 0 if ex.order is Order.BEFORE else -1
    if every == 1:  # once begun it never ends
        yield start + lag
        return
    for number in count(max(0, (start - lag - shift) // every)):
        due = number * every + shift
        if due >= 0:
            yield from (due + lag, due + lag + 1)


def told(phase: Phase, step: int, many: bool) -> str:
    """A phase in a word or two; slots are named where there are several."""
    slot = f" {phase.slot}" if many and isinstance(phase, Send | Settle | Meet) else ""
    aside = ""
    if isinstance(phase, Settle) and phase.sent < step:
        aside = f" (of {step - phase.sent} step{'s' * (step - phase.sent > 1)} ago)"
    if isinstance(phase, Compute) and phase.gate is not None:
        aside = f" (at most {phase.gate} ahead)"
    return f"{type(phase).__name__}{slot}{aside}"
