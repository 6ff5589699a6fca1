"""The law of a synchronous step on hosts: its seconds from eleven physical parameters, for many rows at once.

It is the two ends of the bucket recurrence in closed form: a step is as long as its forward and all its exchanges, or
as all its compute and the last exchange. Fitted to measurements; where it came from, and how far it holds, is told in
docs/simulation.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy import ndarray

    Array = ndarray[Any, Any]

NAMES = (
    "fixed", "sample", "front", "tail", "inside", "across", "pair", "crowd", "jitter", "hop_inside", "hop_across",
)  # fmt: skip
MEANING = {
    "fixed": "seconds of a step that no batch makes less",
    "sample": "seconds of a further sample of the local batch",
    "front": "share of compute before the first gradients leave",
    "tail": "share of the exchange that nothing is left to hide",
    "inside": "seconds that the gradients take between members of a host",
    "across": "seconds that the gradients take through a host's link",
    "pair": "how much longer that is with two hosts, which have one peer each",
    "crowd": "how much longer a full host's members compute",
    "jitter": "how much later the latest member is, times sqrt(2 ln p)",
    "hop_inside": "seconds of a hop inside a host, where the gradients take 0.1 s across",
    "hop_across": "seconds of a hop between hosts, where the gradients take 0.1 s across",
}
UNIT = 0.1  # seconds across for which hops are told; of longer exchanges they grow with the square root (empirical)
SHARP = 10.0  # exponent of the smooth maximum of the two critical paths
TREE = 8.0  # ring hops that a level of a tree costs


def seconds(theta: Array, rows: Array, batches: Array) -> Array:
    """Seconds of a step for rows of (hosts, members, most members on a host, local batch): log parameters, and the
    logarithm of how far compute lies off a straight line at each of `batches`."""
    import numpy as np

    compute, lane = parts(theta, rows, batches)
    front, tail = np.exp(theta[NAMES.index("front")]), np.exp(theta[NAMES.index("tail")])
    exchanging, computing = front * compute + lane, compute + tail * lane
    longer = np.maximum(exchanging, computing)
    smooth = longer * ((exchanging / longer) ** SHARP + (computing / longer) ** SHARP) ** (1 / SHARP)
    found: Array = np.where(rows[:, 1] > 1, smooth, compute)
    return found


def parts(theta: Array, rows: Array, batches: Array) -> tuple[Array, Array]:
    """Seconds of compute, and seconds that all exchanges take one after the other."""
    import numpy as np

    v = dict(zip(NAMES, np.exp(theta[: len(NAMES)]), strict=True))
    n, p, g, b = rows[:, 0], rows[:, 1], np.maximum(rows[:, 2], 1.0), rows[:, 3]
    compute = v["fixed"] + v["sample"] * b
    if len(batches):
        compute = compute * np.exp(np.interp(np.log(b), np.log(batches), theta[len(NAMES) :]))
    compute = compute * (1 + v["crowd"] * (1 - 1 / g)) * (1 + v["jitter"] * np.sqrt(2 * np.log(p)))
    around = 2 * (p - 1) / p
    moved = np.where(n > 1, v["across"] * around * (1 + v["pair"] * (n == 2)), v["inside"] * around)
    ring = 2 * (n - 1) * v["hop_across"] + 2 * (p - n) * v["hop_inside"]
    tree = 2 * (p / n - 1) * v["hop_inside"] + 2 * np.log2(np.maximum(n, 1)) * TREE * v["hop_across"]
    hops = np.sqrt(v["across"] / UNIT) * np.where(n > 1, np.minimum(ring, tree), ring)
    return compute, moved + hops


def share(theta: Array, rows: Array, batches: Array) -> Array:
    """How a step follows its exchanges, d log t / d log lane: 0 where they hide, 1 where they are all of it."""
    import numpy as np

    nudged = theta.copy()
    for name, power in (("inside", 1.0), ("across", 1.0), ("hop_inside", 0.5), ("hop_across", 0.5)):
        nudged[NAMES.index(name)] += 1e-4 * power  # hops have the square root of `across` in them already
    more, now = seconds(nudged, rows, batches), seconds(theta, rows, batches)
    found: Array = np.clip(np.log(more / now) / 1e-4, 0.0, 1.0)
    return found
