"""A training run while it goes on, on stderr: how far, how fast each member is, loss, accuracy, the batch's cost."""

from __future__ import annotations

from time import monotonic
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from gossamer.cli.screen import aside
from gossamer.parts.units import told_seconds
from gossamer.recipes import told_cost
from gossamer.records import summary
from gossamer.records.tally import Tally

SHOWN = 8  # members that get a line of their own; of more, the slowest do
QUIET, STALLED = 20.0, 5.0  # seconds: between lines where there is no terminal; without a step before it is said


class Progress:
    """A few live lines on a terminal; a line for every tenth of the run where there is none."""

    def __init__(self, steps: int, batch: int, console: Console | None = None) -> None:
        self.console = console or aside()
        self._steps, self._batch = steps, batch
        self._live = Live(console=self.console, auto_refresh=False, transient=True)
        self._heard = self._said = monotonic()
        self._last = ""
        self._reached, self._next, self._introduced = -1.0, 0.0, False

    def __enter__(self) -> Progress:
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.console.is_terminal:
            self._live.stop()

    def show(self, tally: Tally) -> None:
        """What there is to see now."""
        now = monotonic()
        if tally.reached > self._reached:
            self._heard, self._reached = now, tally.reached
        self._introduce(tally)
        still = now - self._heard
        if self.console.is_terminal:
            self._live.update(drawn(tally, self._steps, self._batch, still), refresh=True)
        elif self._due(tally, now):
            self._say(tally, still)

    def last(self, tally: Tally) -> None:
        """How far it came, if that was not said."""
        self._introduce(tally)
        if not self.console.is_terminal and tally.laps:
            self._say(tally, 0.0)

    def _say(self, tally: Tally, still: float) -> None:
        said = " ".join(line(tally, self._steps, still).plain.split())
        if said != self._last:  # the last step may be followed by an evaluation and a save
            self._last = said
            self.console.print(Text(said))
            for words in costs(tally):
                self.console.print(words)

    def hear(self, who: str, line: str) -> None:
        """What a worker or a server printed, a line as long as it was."""
        self.console.print(Text(f"[{who}] {line}", style="dim"), soft_wrap=True)

    def say(self, what: str) -> None:
        """What befell the run."""
        self.console.print(Text(f"gossamer: {what}", style="yellow"), soft_wrap=True)

    def _introduce(self, tally: Tally) -> None:
        """What carries the wires, said once."""
        if tally.header is None or self._introduced:
            return
        self._introduced = True
        told = [f"{word}: {tally.header.settings[word]}" for word in ("fabric",) if word in tally.header.settings]
        if told:
            self.console.print(Text("; ".join(told), style="dim"))

    def _due(self, tally: Tally, now: float) -> bool:
        if not tally.laps or (tally.reached < self._next and now < self._said + QUIET):
            return False
        self._said = now
        self._next = tally.reached - tally.reached % max(1.0, self._steps / 10) + max(1.0, self._steps / 10)
        return True


def line(tally: Tally, steps: int, still: float = 0.0) -> Text:
    """The whole run in a line."""
    if not tally.laps:
        return Text("starting the workers", style="dim")
    accuracy = f"  accuracy {tally.evaluations[-1].accuracy:.3f}" if tally.evaluations else ""
    quiet = f"  no step for {still:.0f} s" if still > STALLED else ""
    rate = sum(lap.rate for lap in tally.laps.values()) / len(tally.laps)
    return Text.assemble(
        f"step {tally.reached:,.0f}/{steps:,}  {told_seconds(tally.seconds)}  {_rate(rate)} steps/s",
        f"  loss {tally.loss if tally.loss is not None else float('nan'):.3f}",
        f"  exchange {summary.exchange_share(tally.split):.0%}",
        (accuracy, "bold"),
        (quiet, "yellow"),
    )


def costs(tally: Tally) -> list[Text]:
    """What the batch of the last look costs, in a line of its own, if the noise scale is known."""
    look = tally.noise
    return [] if look is None or look.scale is None else [Text(told_cost(look.large, look.scale), style="dim")]


def drawn(tally: Tally, steps: int, batch: int, still: float) -> RenderableType:
    """The run as a bar and a line, what its batch costs, and a line for each member."""
    table = Table.grid(padding=(0, 2, 0, 0))
    shown = sorted(tally.laps, key=lambda member: (tally.laps[member].rate, member))[:SHOWN]
    for member in sorted(shown):
        lap = tally.laps[member]
        table.add_row(
            Text(f"member {member}", style="cyan"),
            Text(f"step {lap.reached:,}", style="dim"),
            f"{_rate(lap.rate)} steps/s",
            Text(f"{_rate(lap.rate * batch)} samples/s", style="dim"),
            f"loss {lap.loss:.3f}",
            f"exchange {summary.exchange_share(lap.split):.0%}",
        )
    hidden = len(tally.laps) - len(shown)
    more = [Text(f"and {hidden} faster members", style="dim")] if hidden else []
    bar = Table.grid()  # a bar alone does not end its line
    bar.add_row(ProgressBar(total=steps, completed=tally.reached, width=48))
    return Group(bar, line(tally, steps, still), *costs(tally), table, *more)


def _rate(rate: float) -> str:
    """In three digits, or all that stand before the point."""
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"
