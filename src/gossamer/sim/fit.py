"""Fits a cluster and a workload to measured steps, and foretells others: `fit(rows).predict(hosts, per_host, batch)`.

Parameters are the physical ones of `formula`; each begins with what is known of cluster and workload, and moves
as far as the rows ask for it (maximum a posteriori). Never looks at a row it is asked to foretell.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import exp, hypot, log
from typing import TYPE_CHECKING, Any

from gossamer.parts.refusal import Refused, real, whole
from gossamer.sim.cluster import Cluster
from gossamer.sim.forecast import NINETY, Interval
from gossamer.sim.formula import MEANING, NAMES, seconds, share
from gossamer.sim.workload import Workload

if TYPE_CHECKING:
    from numpy import ndarray

    Array = ndarray[Any, Any]

Prior = Mapping[str, tuple[float, float]]  # by parameter: the likely value, and how far off its logarithm may be
QUICK = 2e-5  # seconds of latency below which messages do not pass through a host's kernel
TCP = {"hop_across": (2.8e-3, 0.5), "hop_inside": (1e-3, 0.5), "pair": (0.5, 0.7), "crowd": (0.05, 0.7),
       "jitter": (0.02, 0.5)}  # fmt: skip
RDMA = {"hop_across": (4e-4, 0.5), "hop_inside": (1.5e-4, 0.5), "pair": (0.01, 0.7), "crowd": (0.01, 0.5),
        "jitter": (0.03, 0.4)}  # fmt: skip
LINE, NEAR = 6.25e9, 3e9  # bytes a second across and inside, where no cluster is given
ACHIEVED = {False: (0.1, 1.0), True: (0.8, 0.3)}  # of a label across, by whether it is quick
BYTES = 1.5e8  # of gradients, where no workload is given
BUCKET = 25e6  # bytes: what the last exchange is likely to have
CURVE = 0.05  # of a logarithm: how far compute may lie off a straight line at a batch
STEP, LANE = 0.025, 0.12  # likely noise of a row, and more of what depends on its exchanges
NEW, FARTHER = 1.3, 0.8  # noise of a placement not measured, and of each doubling of members, in noises of a lane
PLAIN = 0.06  # noise of every row to begin with


@dataclass(frozen=True)
class Measured:
    """A step as it was measured: on so many hosts with at most `per_host` members each, `batch` samples a member. One
    without seconds is only asked for."""

    hosts: int
    per_host: int
    batch: float
    seconds: float | None = None
    members: int | None = None  # where hosts are not full

    def __post_init__(self) -> None:
        whole("Measured", "hosts", self.hosts, 1, 2**20)
        whole("Measured", "per_host", self.per_host, 1, 2**20)
        real("Measured", "batch", self.batch, 0.0, 1e12, open_low=True)
        if self.seconds is not None:
            real("Measured", "seconds", self.seconds, 0.0, 1e9, open_low=True)
        if self.members is not None:
            whole("Measured", "members", self.members, self.hosts, self.hosts * self.per_host)

    @classmethod
    def placed(cls, on_hosts: Sequence[int], batch: float, seconds: float | None = None) -> Measured:
        """By how many members each host has."""
        return cls(len(on_hosts), max(on_hosts), batch, seconds, sum(on_hosts))

    @property
    def taken(self) -> float:
        """The seconds of one that was measured."""
        if self.seconds is None:
            raise Refused(f"fit: a row of {self.hosts} hosts has no seconds to fit to", "rows that were measured")
        return self.seconds

    @property
    def row(self) -> tuple[float, float, float, float]:
        """As the law takes it."""
        return float(self.hosts), float(self.members or self.hosts * self.per_host), float(self.per_host), self.batch


@dataclass(frozen=True)
class Fitted:
    """What was found: log parameters, how they vary together, and how noisy rows are."""

    theta: Array
    variance: Array
    batches: Array
    largest: float
    noise: tuple[float, float]
    rows: int
    prior: Prior = field(repr=False)

    @property
    def values(self) -> dict[str, float]:
        """Every parameter by its name."""
        return {name: exp(value) for name, value in zip(NAMES, self.theta, strict=False)}

    @property
    def spread(self) -> dict[str, float]:
        """How far off the logarithm of each may be."""
        return {name: float(self.variance[n, n]) ** 0.5 for n, name in enumerate(NAMES)}

    def told(self) -> list[str]:
        """Every parameter in words."""
        found = self.values
        return [f"{name} {found[name]:.4g} (x/÷ {exp(self.spread[name]):.2f}): {MEANING[name]}" for name in NAMES]

    def predict(self, hosts: int, per_host: int, batch: float, members: int | None = None) -> Interval:
        """Seconds of a step, and between what they lie with nine chances in ten."""
        return self.all_of([Measured(hosts, per_host, batch, None, members)])[0]

    def all_of(self, asked: Iterable[Measured]) -> list[Interval]:
        """The same for many; their seconds are not looked at."""
        import numpy as np

        rows = np.array([each.row for each in asked])
        if not len(rows):
            return []
        likely = seconds(self.theta, rows, self.batches)
        slopes, lanes = _slopes(self.theta, rows, self.batches), share(self.theta, rows, self.batches)
        beyond = np.log2(np.maximum(rows[:, 1] / self.largest, 1.0))
        spread = np.einsum("ij,jk,ik->i", slopes, self.variance, slopes) + self.noise[0] ** 2
        spread = spread + (lanes * self.noise[1]) ** 2 * (NEW**2 + (FARTHER * beyond) ** 2)
        width = np.exp(NINETY * np.sqrt(spread))
        return [Interval(float(t), float(t / w), float(t * w)) for t, w in zip(likely, width, strict=True)]


def fit(
    rows: Iterable[Measured], cluster: Cluster | None = None, workload: Workload | None = None, *, noise: float = STEP
) -> Fitted:
    """The parameters that rows of all-reduce steps ask for. What is known of the cluster (rates, latency) and of the
    workload (bytes, seconds of its batches) is where they begin. `noise`: of a row, as a share of it; means of whole
    runs have less than single steps."""
    given = list(rows)
    if not given:
        raise Refused("fit: there is no row to fit to", "two rows or more, of few and of many workers")
    return _fitted(given, prior(given, cluster, workload), noise)


def prior(rows: Sequence[Measured], cluster: Cluster | None, workload: Workload | None) -> Prior:
    """What is likely before any row is looked at, but for the scale of seconds where no workload is known."""
    across = None if cluster is None else cluster.across
    inside = None if cluster is None else cluster.inside
    quick = across is not None and across.latency < QUICK
    u, unsure = ACHIEVED[quick]
    line = LINE if across is None or cluster is None else across.bandwidth * cluster.nics
    near = NEAR if inside is None else inside.rate
    size, wide = (BYTES, 1.5) if workload is None else (float(workload.nbytes), 0.3)
    tail = 0.08 if workload is None else min(0.5, max(0.05, BUCKET / size))
    return {
        **_compute(rows, cluster, workload),
        "front": (0.38, 0.15), "tail": (tail, 0.5),
        "inside": (size / near, hypot(wide, 0.7)), "across": (size / (u * line), hypot(wide, unsure)),
        **(RDMA if quick else TCP),
    }  # fmt: skip


def _compute(rows: Sequence[Measured], cluster: Cluster | None, workload: Workload | None) -> Prior:
    """Of a known workload its own line; else one of the rows' own size, with a wide guess."""
    if workload is not None and len(workload.batches) > 1:
        speed = 1.0 if cluster is None else cluster.speed
        low, high = workload.batches[0], workload.batches[-1]
        sample = (workload.compute(high) - workload.compute(low)) / (high - low) / speed
        fixed = max(1e-9, workload.compute(low) / speed - sample * low)
        return {"fixed": (fixed, 0.3), "sample": (max(1e-12, sample), 0.1)}
    typical = exp(sum(log(row.taken) for row in rows) / len(rows))
    batch = sorted(row.batch for row in rows)[len(rows) // 2]
    return {"fixed": (0.15 * typical, 1.5), "sample": (0.7 * typical / batch, 1.5)}


def _fitted(given: Sequence[Measured], likely: Prior, noise: float) -> Fitted:
    import numpy as np
    from scipy.optimize import least_squares

    rows, seen = np.array([each.row for each in given]), np.log([each.taken for each in given])
    batches = np.unique(rows[:, 3])
    batches = batches if len(batches) > 2 else batches[:0]
    centre = np.concatenate([np.log([likely[name][0] for name in NAMES]), np.zeros(len(batches))])
    width = np.concatenate([[likely[name][1] for name in NAMES], np.full(len(batches), CURVE)])
    weight = _weights(rows)

    def solved(sigma: Array, start: Array) -> Any:
        def off(theta: Array) -> Array:
            r = (np.log(seconds(theta, rows, batches)) - seen) / sigma
            soft = np.sign(r) * np.sqrt(2 * (np.sqrt(1 + r * r) - 1)) * weight
            found: Array = np.concatenate([soft, (theta - centre) / width])
            return found

        return least_squares(off, start, max_nfev=100, xtol=1e-6, ftol=1e-6, gtol=1e-6)

    def sigma(theta: Array) -> Array:
        found: Array = np.sqrt(noise**2 + (share(theta, rows, batches) * LANE) ** 2)
        return found

    best = min((solved(np.full(len(rows), PLAIN), start) for start in _starts(centre)), key=lambda each: each.cost)
    for _ in range(2):
        best = solved(sigma(best.x), best.x)
    theta: Array = best.x
    slopes = _slopes(theta, rows, batches) * (weight / sigma(theta))[:, None]
    variance = np.linalg.inv(slopes.T @ slopes + np.diag(1 / width**2))
    off, lanes = seen - np.log(seconds(theta, rows, batches)), share(theta, rows, batches)
    noises = (_noise(off[lanes < 0.2], noise), _noise(off[lanes > 0.6], LANE))
    return Fitted(theta, variance, batches, float(rows[:, 1].max()), noises, len(rows), likely)


def _weights(rows: Array) -> Array:
    """Rows of one placement share what its network was like when it was measured: together they count as one or so."""
    import numpy as np

    keys = [tuple(row[:3]) for row in rows]
    there: dict[tuple[float, ...], set[float]] = {}
    for key, row in zip(keys, rows, strict=True):
        there.setdefault(key, set()).add(float(row[3]))
    found: Array = np.array([len(there[key]) ** -0.5 for key in keys])
    return found


def _starts(centre: Array) -> list[Array]:
    found = [centre]
    for shift in (-1.0, 1.0):
        other = centre.copy()
        other[[NAMES.index("inside"), NAMES.index("across")]] += shift
        found.append(other)
    return found


def _slopes(theta: Array, rows: Array, batches: Array) -> Array:
    import numpy as np

    now = np.log(seconds(theta, rows, batches))
    found: Array = np.empty((len(rows), len(theta)))
    for place in range(len(theta)):
        nudged = theta.copy()
        nudged[place] += 1e-5
        found[:, place] = (np.log(seconds(nudged, rows, batches)) - now) / 1e-5
    return found


def _noise(off: Array, likely: float) -> float:
    """The noise of rows, with what is likely counting as ten of them."""
    if not len(off):
        return likely
    squares = sum(min(float(each) ** 2, 0.0625) for each in off)
    return float(((10 * likely**2 + squares) / (10 + len(off))) ** 0.5)
