"""Textbook numpy for the systems that compress, on the network of `oracles`. Knows nothing of the code under test.

An oracle is one all-reduce loop around what one worker says of its gradient. `drawn(m, t)` hands the oracle the random
numbers in [0, 1) of worker m at step t, one for each element.
"""

from collections.abc import Callable

import numpy as np
from tests.papers.oracles import SGD, Array, Data, cut, gradient, joined, largest

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


def gathering(said: Said, m: float) -> Said:
    """U = m U + g; what there is to say is U."""
    speed: dict[int, Array] = {}

    def corrected(g: Array, member: int, t: int) -> Array:
        speed[member] = m * speed.get(member, 0.0) + g
        return said(speed[member], member, t)

    return corrected


def one_bit(
    w: Array, data: Data, eta: float, mu: float = 0.0, *, spared: bool = False, corrected: float = 0.0
) -> Array:
    """Per column the mean of the elements >= 0 and of those below, the rest fed back (Seide et al.; our reading).

    Vectors may be spared, and said as they are; each worker may correct for a momentum.
    """

    def column(c: Array) -> Array:
        up = c >= 0
        return np.where(up, c[up].mean() if up.any() else 0.0, c[~up].mean() if not up.all() else 0.0)

    def tensor(p: Array) -> Array:
        if p.ndim == 1:
            return p if spared else column(p)
        return np.array([column(c) for c in p.T]).T

    said = remembering(lambda v, m, t: joined([tensor(p) for p in cut(v)]))
    return averaged(w, data, eta, mu, gathering(said, corrected) if corrected else said)


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


def half(w: Array, data: Data, eta: float, mu: float = 0.0) -> Array:
    """Gradients rounded to 16 bits by way of 32, as processors do it, then added up in 32."""
    step, share = SGD(eta, mu), np.float32(1 / len(data))
    for now in zip(*data, strict=True):
        total = np.float32(0)
        for batch in now:
            total = total + gradient(w, batch).astype(np.float32).astype(np.float16).astype(np.float32) * share
        w = step(w, total.astype(np.float64))
    return np.tile(w, (len(data), 1))


def bf16(w: Array, data: Data, eta: float, mu: float = 0.0) -> Array:
    """Gradients of 32 bits cut to their first 16, half a unit up or to the even one; added up in 32."""

    def cut_short(v: Array) -> Array:
        bits = v.astype(np.float32).view(np.uint32)
        kept = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
        return kept.view(np.float32)

    step, share = SGD(eta, mu), np.float32(1 / len(data))
    for now in zip(*data, strict=True):
        total = sum((cut_short(gradient(w, batch)) * share for batch in now), np.float32(0))
        w = step(w, total.astype(np.float64))
    return np.tile(w, (len(data), 1))


def int8(w: Array, data: Data, eta: float, bucket: int = 256, mu: float = 0.0) -> Array:
    """Of residual + g, bucket by bucket: s = max |v|, round(127 v / s) s / 127."""

    def said(v: Array, m: int, t: int) -> Array:
        buckets = np.split(v, range(bucket, len(v), bucket))
        return np.concatenate([np.rint(b / (s or 1.0) * 127) / 127 * s for b in buckets for s in [np.abs(b).max()]])

    return averaged(w, data, eta, mu, remembering(said))


def random_k(w: Array, data: Data, eta: float, places: Callable[[int, int], Array], mu: float = 0.0) -> Array:
    """Of residual + g send what lies at the places that all draw at step t, and keep the rest."""

    def said(v: Array, m: int, t: int) -> Array:
        told = np.zeros_like(v)
        told[places(t, len(v))] = v[places(t, len(v))]
        return told

    return averaged(w, data, eta, mu, remembering(said))


def terngrad(w: Array, data: Data, eta: float, drawn: Drawn, clip: float = 2.5, mu: float = 0.0) -> Array:
    """Per layer: clip to `clip` sigma; s = max |g| over all workers; s sign(g) with probability |g|/s, else 0."""
    step = SGD(eta, mu)
    for t, now in enumerate(zip(*data, strict=True)):
        layers = [cut(gradient(w, batch)) for batch in now]
        clipped = [[np.clip(p, -clip * p.std(), clip * p.std()) for p in mine] for mine in layers]
        scale = joined([np.full(p[0].shape, max(np.abs(q).max() for q in p)) for p in zip(*clipped, strict=True)])
        flat = [joined(mine) for mine in clipped]
        said = [scale * np.sign(g) * (drawn(m, t) * scale < np.abs(g)) for m, g in enumerate(flat)]
        w = step(w, np.mean(said, 0))
    return np.tile(w, (len(data), 1))


def strom(w: Array, data: Data, eta: float, tau: float = 0.1, mu: float = 0.0) -> Array:
    """residual += g; send tau sign(residual) where |residual| > tau, and subtract it."""
    return averaged(w, data, eta, mu, remembering(lambda v, m, t: tau * np.sign(v) * (np.abs(v) > tau)))


def gradient_dropping(w: Array, data: Data, eta: float, keep: float = 0.01, mu: float = 0.0) -> Array:
    """Of residual + g send the largest, layer by layer, and keep the rest (Aji and Heafield)."""
    return averaged(w, data, eta, mu, remembering(lambda v, m, t: v * joined(list(largest(cut(v), keep)))))


def dryden(w: Array, data: Data, eta: float, keep: float = 0.01, mu: float = 0.0) -> Array:
    """A share of the positive and a share of the negative updates of each layer, each as the mean of those selected."""

    def side(p: Array, sign: int) -> Array:
        known = np.sort(p[sign * p > 0])[::-sign]
        if not len(known):
            return np.zeros_like(p)
        picked = known[: int(np.ceil(keep * len(known)))]
        return np.where(sign * p >= sign * picked[-1], picked.mean(), 0.0)

    return averaged(w, data, eta, mu, remembering(lambda v, m, t: joined([side(p, 1) + side(p, -1) for p in cut(v)])))


def adacomp(w: Array, data: Data, eta: float, bin: int = 50, mu: float = 0.0) -> Array:
    """G = R + g, H = G + g; in each bin send sign(G) S where |H| >= max |G|, S the mean of the maxima; R = G - sent."""
    residue = np.zeros((len(data), len(w)))

    def layer(r: Array, g: Array) -> Array:
        cuts = range(bin, g.size, bin)
        bins = list(zip(np.split((r + g).ravel(), cuts), np.split((r + 2 * g).ravel(), cuts), strict=True))
        scale = np.mean([np.abs(big).max() for big, _ in bins])
        return np.concatenate([scale * np.sign(big) * (np.abs(h) >= np.abs(big).max()) for big, h in bins])

    def said(g: Array, m: int, t: int) -> Array:
        sent = np.concatenate([layer(r, p) for r, p in zip(cut(residue[m]), cut(g), strict=True)])
        residue[m] = residue[m] + g - sent
        return sent

    return averaged(w, data, eta, mu, said)


def ef_signsgd(w: Array, data: Data, eta: float, mu: float = 0.0) -> Array:
    """p = eta g + e; send (||p||_1 / d) sign p layer by layer, e = p - sent; step by the mean of what was sent."""
    signs = remembering(lambda v, m, t: joined([np.abs(p).mean() * np.where(p >= 0, 1, -1) for p in cut(v)]))
    return averaged(w, data, 1.0, mu, lambda g, m, t: signs(eta * g, m, t))


def natural(w: Array, data: Data, eta: float, drawn: Drawn, mu: float = 0.0) -> Array:
    """2^a with probability (2^(a+1) - |t|) / 2^a, else 2^(a+1), where 2^a <= |t| < 2^(a+1)."""

    def said(v: Array, m: int, t: int) -> Array:
        low = 2.0 ** np.floor(np.log2(np.abs(v)))
        return np.sign(v) * np.where(drawn(m, t) < (np.abs(v) - low) / low, 2 * low, low)

    return averaged(w, data, eta, mu, said)


def ako(w: Array, data: Data, eta: float, parts: int = 4, mu: float = 0.0) -> Array:
    """Worker m's part (t + m) mod p of the gathered gradient goes out at step t and comes in at t + 1 (our reading)."""
    step, gathered, under_way = SGD(eta, mu), np.zeros((len(data), len(w))), None
    ends = [i * len(w) // parts for i in range(parts + 1)]
    for t, now in enumerate(zip(*data, strict=True)):
        sent = np.zeros_like(gathered)
        for m, batch in enumerate(now):
            mine = slice(ends[(t + m) % parts], ends[(t + m) % parts + 1])
            gathered[m] += gradient(w, batch)
            sent[m, mine], gathered[m, mine] = gathered[m, mine], 0.0
        if under_way is not None:
            w = step(w, under_way)
        under_way = sent.mean(0)
    return np.tile(w, (len(data), 1))


def gaia(w: Array, data: Data, eta: float, threshold: float = 0.01, mu: float = 0.0) -> Array:
    """Step alone; send what has gathered up where |it / w| > threshold / sqrt(t), t from 1; all add the mean of it."""
    steps, gathered = [SGD(eta, mu) for _ in data], np.zeros((len(data), len(w)))
    for t, now in enumerate(zip(*data, strict=True)):
        sent = np.zeros_like(gathered)
        for m, batch in enumerate(now):
            local = steps[m](w, gradient(w, batch))
            gathered[m] += local - w
            sent[m] = gathered[m] * (np.abs(gathered[m] / local) > threshold / np.sqrt(t + 1))
            gathered[m] -= sent[m]
        w = w + sent.mean(0)
    return np.tile(w, (len(data), 1))
