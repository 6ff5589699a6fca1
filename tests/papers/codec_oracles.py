"""Textbook numpy for the systems that compress, on the network of `oracles`. Knows nothing of the code under test.

An oracle is one all-reduce loop around what one worker says of its gradient. `drawn(m, t)` hands the oracle the random
numbers in [0, 1) of worker m at step t, one for each element.
"""

from collections.abc import Callable

import numpy as np
from tests.papers.oracles import SGD, Array, Data, cut, gradient, joined

Drawn = Callable[[int, int], Array]
Said = Callable[[Array, int, int], Array]  # what worker m says at step t instead of a vector


def averaged(w: Array, data: Data, eta: float, mu: float, said: Said) -> Array:
    """Everybody steps along the mean of what all said of their gradients."""
    step = SGD(eta, mu)
    for t, now in enumerate(zip(*data, strict=True)):
        w = step(w, np.mean([said(gradient(w, batch), m, t) for m, batch in enumerate(now)], 0))
    return np.tile(w, (len(data), 1))


def remembering(said: Said) -> Said:
    """What was not said is added to what there is to say next time."""
    left: dict[int, Array] = {}

    def feedback(g: Array, m: int, t: int) -> Array:
        whole = g + left.get(m, 0.0)
        told = said(whole, m, t)
        left[m] = whole - told
        return told

    return feedback


def one_bit(w: Array, data: Data, eta: float, mu: float = 0.0) -> Array:
    """Per column the mean of the elements >= 0 and of those below, the rest fed back (Seide et al.; our reading)."""

    def column(c: Array) -> Array:
        up = c >= 0
        return np.where(up, c[up].mean() if up.any() else 0.0, c[~up].mean() if not up.all() else 0.0)

    def tensor(p: Array) -> Array:
        return column(p) if p.ndim == 1 else np.array([column(c) for c in p.T]).T

    return averaged(w, data, eta, mu, remembering(lambda v, m, t: joined([tensor(p) for p in cut(v)])))


def qsgd(w: Array, data: Data, eta: float, drawn: Drawn, bits: int = 4, bucket: int = 512, mu: float = 0.0) -> Array:
    """||v|| sgn(v) (l + 1 with probability a - l, else l) / s; a = s |v| / ||v||, l = floor(a), bucket by bucket."""
    s = 2 ** (bits - 1) - 1

    def quantised(v: Array, u: Array) -> Array:
        norm = np.sqrt(np.sum(v**2))
        a = s * np.abs(v) / norm if norm > 0 else np.zeros_like(v)
        low = np.floor(a)
        return norm * np.sign(v) * (low + (u >= 1 - (a - low))) / s

    def said(v: Array, m: int, t: int) -> Array:
        cuts, u = range(bucket, len(v), bucket), drawn(m, t)
        return np.concatenate([quantised(*pair) for pair in zip(np.split(v, cuts), np.split(u, cuts), strict=True)])

    return averaged(w, data, eta, mu, said)
