"""One rehearsal from plan to run: watched on stderr, written to its journal as it happens."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gossamer.cli.request import Part, Request
from gossamer.cli.screen import writable
from gossamer.parts.refusal import Refused
from gossamer.records import Header, Journal, Record

if TYPE_CHECKING:
    from gossamer.sim import Outcome, Plan

Watch = Callable[["Outcome", int], None]


@dataclass(frozen=True)
class Run:
    """A strategy that was rehearsed, and what happened."""

    request: Request
    part: Part
    plan: Plan
    outcome: Outcome
    journal: Path | None


def perform(request: Request, part: Part, plan: Plan, path: Path | None, watch: Watch) -> Run:
    """Rehearse a plan; an interrupted one leaves a journal of what happened so far, a refused one none."""
    from gossamer.sim import Rehearsal

    def both(outcome: Outcome, total: int) -> None:
        keep(outcome)
        watch(outcome, total)

    rehearsal = Rehearsal(plan, both)
    with Journal(path) as journal:
        keep = Keeper(journal)
        journal.write(_header(request, part, plan))
        outcome = rehearsal.run()
        keep(outcome)
    return Run(request, part, plan, outcome, path)


class Keeper:
    """Writes what is new in an outcome, each kind in its order."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._kept = [0, 0, 0]

    def __call__(self, outcome: Outcome) -> None:
        """Write every record that came since the last call."""
        kinds: tuple[list[Record], ...] = (outcome.steps, outcome.evaluations, outcome.events)  # type: ignore[assignment]
        for place, records in enumerate(kinds):
            for record in records[self._kept[place] :]:
                self._journal.write(record)
            self._kept[place] = len(records)


def _header(request: Request, part: Part, plan: Plan) -> Header:
    settings = {
        "machines": repr(request.machines),
        "trouble": " + ".join(repr(line) for line in request.trouble.lines),
        "evaluate_every": str(plan.evaluate_every),
        "target": str(request.target),
        **{f"task.{key}": str(value) for key, value in request.task_options.items()},
    }
    world = request.world
    return Header(
        "rehearsal",
        repr(part.strategy),
        world.size,
        world.seed,
        request.task,
        repr(part.optimizer),
        plan.batch,
        plan.steps,
        settings,
    )


def journals(parts: tuple[Part, ...], asked: Path | None) -> list[Path]:
    """Where each run is written: the path asked for, named apart where there are several runs; else a new one each."""
    found: list[Path] = []
    for part in parts:
        base = asked or Path("runs") / f"{slug(part.text)}.jsonl"
        if asked is not None and len(parts) > 1:
            base = asked.with_name(f"{asked.stem}-{slug(part.text)}{asked.suffix}")
        found.append(_free(base, found, asked is None))
    for path in found:
        if path.exists() and (not path.is_file() or path.stat().st_size):
            raise Refused(f"{path} is there already; it is left alone", f"--journal {_free(path, found, True)}")
        writable(path)
    return found


def slug(text: str) -> str:
    """An expression as part of a file name."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")[:60] or "run"


def _free(base: Path, taken: list[Path], keep: bool) -> Path:
    number, path = 1, base
    while path in taken or (keep and path.exists()):
        number += 1
        path = base.with_name(f"{base.stem}-{number}{base.suffix}")
    return path
