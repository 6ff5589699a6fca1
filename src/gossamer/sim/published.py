"""Published measurements as rows, to hold predictions against: what ran where, and what was seen. Predicts nothing.

A table is a small TOML file: `rows`, and above them whatever holds for every row that does not say otherwise. What is
known of a run besides its timing (accuracy, library) stands in `recipes.published`.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path

from gossamer.parts.refusal import Refused, flag, kind, real, whole
from gossamer.recipes.published import RUNS, Run
from gossamer.sim.description import Table, names, read

SURE = ("read", "told", "derived", "remembered", "ours")


@dataclass(frozen=True)
class Row:
    """`workers` of `cluster`, `per_host` on each host, train `workload` by `strategy` with `batch` samples a step.

    Seen were, as far as the source tells: `rate`, samples a second of all workers; `efficiency`, that rate over the one
    of `base` workers times workers / base; `seconds` of `epochs`. `itemsize`: bytes of an element on the wire.
    `servers`: of parameters, on the workers' own hosts. `fit`: a model may be fitted to it; to no other row.
    `overlap`: whether gradients left while backward still ran. `beside`: it is shown, and counts for no bar.
    """

    system: str
    cluster: str
    workload: str
    strategy: str
    workers: int
    per_host: int
    batch: int
    rate: float | None = None
    efficiency: float | None = None
    seconds: float | None = None
    epochs: float | None = None
    epoch: int | None = None
    base: int = 1
    servers: int | None = None
    itemsize: int = 4
    fit: bool = False
    overlap: bool = True
    beside: bool = False
    work: str = ""
    source: str = ""
    sure: str = ""

    def __post_init__(self) -> None:
        where = f"{self.system} x {self.workers}"
        for name in ("system", "cluster", "workload", "strategy", "work", "source", "sure"):
            kind(where, name, getattr(self, name), str)
        for name in ("workers", "per_host", "batch", "base", "itemsize"):
            whole(where, name, getattr(self, name))
        for name in ("epoch", "servers"):
            if getattr(self, name) is not None:
                whole(where, name, getattr(self, name))
        for name in ("fit", "overlap", "beside"):
            flag(where, name, getattr(self, name))
        for name in ("rate", "seconds", "epochs"):
            if getattr(self, name) is not None:
                real(where, name, getattr(self, name), 0.0, 1e15, open_low=True)
        if self.efficiency is not None:
            real(where, "efficiency", self.efficiency, 0.0, 2.0, open_low=True)
        if not self.source or self.sure not in SURE:
            raise Refused(f"{where}: who says so, and how sure is it?", f"source, and sure: {', '.join(SURE)}")
        if self.work and self.run is None:
            raise Refused(f"{where}: there is no run {self.work!r}", ", ".join(run.work for run in RUNS))

    @property
    def hosts(self) -> int:
        """Hosts in use."""
        return -(-self.workers // self.per_host)

    @property
    def local(self) -> float:
        """Samples of one worker in a step."""
        return self.batch / self.workers

    @property
    def run(self) -> Run | None:
        """The whole run, where it is one of the literature's."""
        return next((run for run in RUNS if run.work == self.work), None)

    @property
    def throughput(self) -> float | None:
        """Samples a second of all workers: as published, or derived from the time of all epochs."""
        if self.rate is not None or self.seconds is None or self.epochs is None or self.epoch is None:
            return self.rate
        return self.epochs * self.epoch / self.seconds

    @property
    def step(self) -> float | None:
        """Seconds of a step, derived."""
        return None if self.throughput is None else self.batch / self.throughput

    def blind(self) -> Row:
        """The same without what was seen: nothing that predicts it may need more."""
        return replace(self, rate=None, efficiency=None, seconds=None)


def tables() -> list[str]:
    """Those that are shipped."""
    return names("table")


def published(name: str | Path) -> tuple[Row, ...]:
    """The rows of a table: one of ours by its name, or a file."""
    table = read("table", name)
    table.words("name")
    rows = table.take("rows", needed=True)
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) for row in rows):
        raise Refused(f"{table.where}: rows is a list of tables, and not an empty one", "[[rows]]")
    above = {each.name: table.take(each.name) for each in fields(Row)}
    common = {name: value for name, value in above.items() if name in table}
    table.rest()
    return tuple(_row(Table(f"{table.where}, row {number}", {**common, **row})) for number, row in enumerate(rows))


def _row(table: Table) -> Row:
    given = {each.name: table.take(each.name, each.default, needed=each.default is MISSING) for each in fields(Row)}
    table.rest()
    try:
        return Row(**given)
    except Refused as error:
        raise Refused(f"{table.where}: {error.reason}", error.nearest) from None
