"""Holds predictions against published measurements, row by row. A row that is tested is never fitted to: what was seen
is taken off it before anything looks at it, and put beside the prediction afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from statistics import mean

from gossamer.parts.refusal import Refused
from gossamer.sim.cluster import Cluster
from gossamer.sim.fit import Fitted, Measured, fit
from gossamer.sim.forecast import Forecast, Interval
from gossamer.sim.published import Row, published
from gossamer.sim.simulate import simulate
from gossamer.sim.traces import pollux
from gossamer.sim.workload import Workload

BUCKET = 25 << 20  # bytes: as stock frameworks cut gradients; the same for every row
EACH = 1  # servers are pushed to tensor by tensor
RUN = 0.01  # noise of a row that is the mean of a whole run
SHARE = "share"
STEPS = 200  # simulated for a row


@dataclass(frozen=True)
class Bar:
    """What the errors of a table may come to: their mean, the worst, and the mean of its largest worlds."""

    mean: float | None = None
    worst: float | None = None
    largest: float | None = None


@dataclass(frozen=True)
class Line:
    """A row as it was predicted and as it was published, in seconds or as an efficiency; `sure`: of the latter."""

    what: str
    workers: int
    predicted: Interval
    seen: float | None  # None where nothing is published: then no error is told
    sure: str
    unit: str = "s"  # seconds of a step, samples a second, or a share, of which errors are differences

    @property
    def error(self) -> float | None:
        """Relative, or in points."""
        if self.seen is None:
            return None
        return self.predicted.value - self.seen if self.unit == SHARE else self.predicted.value / self.seen - 1.0

    @property
    def covered(self) -> bool:
        """Whether the interval holds what was seen."""
        return self.seen is not None and self.predicted.low <= self.seen <= self.predicted.high


@dataclass(frozen=True)
class Check:
    """All lines of one table, with the parameters they were predicted with; lines beside it count for nothing."""

    name: str
    lines: tuple[Line, ...]
    bar: Bar
    told: tuple[str, ...] = ()
    beside: tuple[Line, ...] = ()
    covers: bool = False  # whether its intervals are to hold what was seen

    @property
    def seen(self) -> list[Line]:
        """Those beside which something is published."""
        return [line for line in self.lines if line.seen is not None]

    @property
    def off(self) -> Bar:
        """What the errors come to, without their signs; nothing where nothing is published."""
        errors = [(line.workers, abs(line.error)) for line in self.seen if line.error is not None]
        if not errors:
            return Bar()
        most, all_ = max(errors)[0], [error for _, error in errors]
        return Bar(mean(all_), max(all_), mean(error for workers, error in errors if workers == most))

    @property
    def coverage(self) -> float | None:
        """The share of lines whose interval holds what was seen."""
        return mean(line.covered for line in self.seen) if self.covers and self.seen else None

    @property
    def held(self) -> bool:
        """Whether no bar is missed."""
        pairs = zip(astuple(self.off), astuple(self.bar), strict=True)
        return all(off is None or bar is None or off <= bar for off, bar in pairs)


def checks(traces: Path | None = None) -> list[Check]:
    """Every table that ships, and the traces in a folder with one folder a model, if given."""
    steps = {} if traces is None else _steps(traces)
    return [
        servers(published("tensorflow-servers")),
        *mlperf(published("mlperf-resnet50")),
        famous(published("famous")),
        replace(famous(published("p100-roce")), name="efficiencies on 25 Gbit/s RoCE (no bar)", bar=Bar()),
        *(traced(name, few, many) for name, (few, many) in steps.items()),
    ]


def _steps(traces: Path) -> dict[str, tuple[list[Measured], list[Measured]]]:
    """By model, what the traces hold: refused before anything is predicted."""
    found = {each.name: pollux(each) for each in sorted(traces.iterdir()) if (each / "placements.csv").is_file()}
    if not found:
        raise Refused(f"validate: {traces} holds no MODEL/placements.csv", "the folder above those of the models")
    return found


def traced(name: str, few: Sequence[Measured], many: Sequence[Measured]) -> Check:
    """Fitted to steps of up to four hosts, predicted for more."""
    found = fit(few, Cluster.load("t4-50gbit"))
    lines = _lines(found, many, lambda row: f"{row.hosts} hosts, {row.members} workers, {row.batch:g} samples each")
    told = tuple(found.told())
    return Check(f"traces of {name}", lines, Bar(mean=0.08, largest=0.12), told, covers=True)


def _lines(found: Fitted, rows: Sequence[Measured], name: Callable[[Measured], str]) -> tuple[Line, ...]:
    blind = [replace(row, seconds=None) for row in rows]
    return tuple(
        Line(name(row), int(row.row[1]), likely, row.seconds, "read")
        for row, likely in zip(rows, found.all_of(blind), strict=True)
    )


def mlperf(rows: Sequence[Row]) -> list[Check]:
    """Each system fitted to its smallest runs, predicted for the others."""
    checked = []
    for system in dict.fromkeys(row.system for row in rows):
        given = [row for row in rows if row.system == system]
        known = [row for row in given if row.fit]
        tested = [row for row in given if not row.fit]
        found = runs(known)
        asked = [Measured(row.hosts, row.per_host, row.local) for row in tested]
        lines = [
            Line(f"{row.batch:,} samples", row.workers, likely, row.step, row.sure)
            for row, likely in zip(tested, found.all_of(asked), strict=True)
        ]
        if lines:
            checked.append(Check(f"MLPerf, {system}", tuple(lines), Bar(worst=0.07), tuple(found.told())))
    return checked


def runs(rows: Iterable[Row]) -> Fitted:
    """A fit to whole runs of one system."""
    known = list(rows)
    first = known[0]
    workload = Workload.load(first.workload)
    workload = replace(workload, tags=tuple(replace(tag, itemsize=first.itemsize) for tag in workload.tags))
    measured = [Measured(row.hosts, row.per_host, row.local, row.step) for row in known if row.step is not None]
    return fit(measured, Cluster.load(first.cluster), workload, noise=RUN)


def servers(rows: Sequence[Row]) -> Check:
    """Synchronous servers on the workers' hosts: one host as measured, its members summing before they push; pushes
    hide behind backward, pulls do not."""
    lines = []
    for row in (row for row in rows if not row.fit):
        alone = next(each for each in rows if each.fit and each.workers == each.per_host and each.local == row.local)
        assert alone.step is not None
        blind, cluster = row.blind(), replace(Cluster.load(row.cluster), per_host=1, inside=None, speed=1.0)
        host = replace(
            Workload.load(row.workload), batches=(alone.batch,), seconds=(alone.step / (1 + cluster.jitter / 2),)
        )
        found = simulate(
            blind.strategy, cluster, host, blind.hosts, batch=alone.batch * blind.hosts, early=True, bucket=EACH,
            shards=blind.servers, steps=STEPS,
        )  # fmt: skip
        rate = Interval(*(blind.batch / each for each in (found.step.value, found.step.high, found.step.low)))
        what = f"{row.local:g} samples each, {row.servers} servers"
        lines.append(Line(what, row.workers, rate, row.throughput, row.sure, unit="samples/s"))
    told = "one host's seconds as published, 0.9 of 10 Gbit/s, jitter 3 %"
    return Check("TensorFlow's parameter servers", tuple(lines), Bar(mean=0.04, worst=0.08), (told,))


def famous(rows: Sequence[Row]) -> Check:
    """Efficiencies of large runs, from nothing but their clusters; some only stand beside."""
    found = [
        (row.beside, Line(f"{row.work or row.workload}, {row.system}", row.workers, efficiency(row.blind()),
                          row.efficiency, row.sure, SHARE))
        for row in rows if not row.fit
    ]  # fmt: skip
    counted, beside = (tuple(line for aside, line in found if aside is which) for which in (False, True))
    told = "0.8 of line rates, jitter 3 %, buckets of 25 MB: the same for all"
    return Check("efficiencies of famous runs", counted, Bar(mean=0.03, worst=0.08), (told,), beside)


def efficiency(row: Row) -> Interval:
    """Samples a second of each of all workers, over those of each of the few it is told beside; no interval is said,
    as what one is unsure of is mostly in both."""
    workload = Workload.load(row.workload)
    workload = workload if row.overlap else replace(workload, forward=1.0)

    def step(workers: int, steps: int) -> Forecast:
        batch = row.local * workers
        return simulate(
            row.strategy, row.cluster, workload, workers, batch=batch, bucket=BUCKET, steps=steps, interval=False
        )

    all_ = step(row.workers, STEPS)
    found = (step(row.base, STEPS).step.value if row.base > 1 else all_.alone) / all_.step.value
    return Interval(found, found, found)
