"""A rehearsal while it runs, on stderr: steps, virtual seconds, loss, accuracy."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from gossamer.cli.perform import Watch
from gossamer.cli.screen import aside
from gossamer.parts.units import told_seconds

if TYPE_CHECKING:
    from gossamer.sim import Outcome, Plan


class Ticker:
    """One line per strategy: alive on a terminal, and only the last word of each where there is none."""

    def __init__(self) -> None:
        self._console = aside()
        self._live = Progress(
            TextColumn("{task.fields[label]}", markup=False, style="cyan"),
            BarColumn(bar_width=24),
            TextColumn("{task.completed}/{task.total} steps", style="dim"),
            TextColumn("{task.fields[said]}", markup=False),
            console=self._console,
            disable=not self._console.is_terminal,
        )

    def __enter__(self) -> Ticker:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def watch(self, label: str, plan: Plan) -> Watch:
        """What the rehearsal of `plan` is to call after each step of each member."""
        workers = plan.world.size
        line = self._live.add_task("", total=plan.steps, label=label, said="")

        def look(outcome: Outcome, total: int) -> None:
            if total % workers == 0:  # a look per step of everybody is enough, and cheap
                self._live.update(line, completed=total // workers, said=_said(outcome, workers))

        return look

    def done(self, label: str, outcome: Outcome, workers: int) -> None:
        """The last word on a run."""
        if not self._console.is_terminal:
            self._console.print(Text(f"{label}: {len(outcome.steps) // workers} steps, {_said(outcome, workers)}"))


def _said(outcome: Outcome, workers: int) -> str:
    recent = outcome.steps[-workers:]
    if not recent:
        return "nothing happened"
    loss = sum(record.loss for record in recent) / len(recent)
    accuracy = f", accuracy {outcome.evaluations[-1].accuracy:.3f}" if outcome.evaluations else ""
    return f"{told_seconds(recent[-1].time)} virtual, training loss {loss:.3f}{accuracy}"
