"""Textbook numpy for the optimizers of large batches. Knows nothing of the code under test."""

from collections.abc import Callable

import numpy as np

Array = np.ndarray
Slope = Callable[[list[Array]], list[Array]]
Rate = Callable[[int], float]


def lars(
    w: list[Array],
    slope: Slope,
    steps: int,
    rate: Rate,
    *,
    momentum: float = 0.9,
    decay: float = 0.0,
    trust: float = 0.001,
    eps: float = 1e-9,
    nesterov: bool = False,
    vectors: bool = False,
    corrected: bool = True,
) -> list[Array]:
    """P1 eqs. 5 to 7, with the handling of short norms of nnabla's solver; `corrected`: the rate is not in v."""
    w = [each.copy() for each in w]
    v = [np.zeros_like(each) for each in w]
    for t in range(steps):
        for k, g in enumerate(slope(w)):
            adapts = vectors or w[k].ndim > 1
            size, steep = np.sqrt((w[k] ** 2).sum()), np.sqrt((g**2).sum())
            x = steep + decay * size
            x = x + eps if x < eps else x
            local = trust * size / x if adapts and size >= eps and size > 0 and x > 0 else 1.0
            g = g + (decay if adapts else 0.0) * w[k]
            put = local * g if corrected else rate(t) * local * g
            v[k] = momentum * v[k] + put
            move = momentum * v[k] + put if nesterov else v[k]
            w[k] = w[k] - (rate(t) * move if corrected else move)
    return w


def lamb(
    w: list[Array],
    slope: Slope,
    steps: int,
    rate: Rate,
    *,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-6,
    decay: float = 0.01,
    vectors: bool = False,
) -> list[Array]:
    """r = m^ / (sqrt v^ + eps) + decay w; w -= rate (|w| / |r|, or 1 if either is 0) r."""
    w = [each.copy() for each in w]
    m, v = ([np.zeros_like(each) for each in w] for _ in range(2))
    for t in range(steps):
        for k, g in enumerate(slope(w)):
            m[k] = betas[0] * m[k] + (1 - betas[0]) * g
            v[k] = betas[1] * v[k] + (1 - betas[1]) * g**2
            r = m[k] / (1 - betas[0] ** (t + 1)) / (np.sqrt(v[k] / (1 - betas[1] ** (t + 1))) + eps)
            ratio = 1.0
            if vectors or w[k].ndim > 1:
                r = r + decay * w[k]
                size, length = np.sqrt((w[k] ** 2).sum()), np.sqrt((r**2).sum())
                ratio = size / length if size > 0 and length > 0 else 1.0
            w[k] = w[k] - rate(t) * ratio * r
    return w


def rmsprop_to_sgd(
    w: list[Array],
    slope: Slope,
    steps: int,
    rate: Rate,
    share: Rate,
    *,
    momentum: float = 0.9,
    smoothing: float = 0.99,
    eps: float = 1e-8,
    rms: float = 3e-4,
    decay: float = 0.0,
) -> list[Array]:
    """m = s m + (1 - s) g^2; D = mu D - (a + (1 - a) rms / (sqrt m + eps)) g, a going from 0 to 1; w += rate D."""
    w = [each.copy() for each in w]
    d, m = ([np.zeros_like(each) for each in w] for _ in range(2))
    for t in range(steps):
        for k, g in enumerate(slope(w)):
            g = g + decay * w[k]
            m[k] = smoothing * m[k] + (1 - smoothing) * g**2
            d[k] = momentum * d[k] - (share(t) + (1 - share(t)) * rms / (np.sqrt(m[k]) + eps)) * g
            w[k] = w[k] + rate(t) * d[k]
    return w


def velocity(w: list[Array], slope: Slope, steps: int, rate: Rate, *, momentum: float, corrected: bool) -> list[Array]:
    """v = m (eta_t / eta_(t-1)) v + eta_t g; w -= v; without the correction the ratio is 1 (Goyal et al., remark 2)."""
    w = [each.copy() for each in w]
    v = [np.zeros_like(each) for each in w]
    for t in range(steps):
        ratio = rate(t) / rate(t - 1) if corrected and t else 1.0
        for k, g in enumerate(slope(w)):
            v[k] = momentum * ratio * v[k] + rate(t) * g
            w[k] = w[k] - v[k]
    return w


def warmed(epoch: float, epochs: float, start: float, then: Callable[[float], float]) -> float:
    """Gradual warm-up: a straight line from `start` to what comes then."""
    return start + (then(epochs) - start) * epoch / epochs if epoch < epochs else then(epoch)


CLOSED: dict[str, Callable[[float, float], float]] = {
    "Constant()": lambda e, n: 1.0,
    "Steps(at=(30.0, 60.0, 80.0), by=0.1)": lambda e, n: 1.0 if e < 30 else 0.1 if e < 60 else 0.01 if e < 80 else 1e-3,
    "Stairs(stairs=((0.0, 0.5), (40.0, 0.075), (70.0, 0.01), (85.0, 0.001)))": lambda e, n: (
        0.5 if e < 40 else 0.075 if e < 70 else 0.01 if e < 85 else 0.001
    ),
    "Polynomial(power=2.0, end=0.1)": lambda e, n: 0.1 + 0.9 * ((n - e) / n) ** 2,
    "Polynomial(power=1.0)": lambda e, n: 1 - e / n,
    "Cosine()": lambda e, n: float((1 + np.cos(np.pi * e / n)) / 2),
    "Cyclic(low=0.2, period=8.0)": lambda e, n: 0.2 + 0.8 * (e % 8 / 4 if e % 8 < 4 else 2 - e % 8 / 4),
    "OneCycle(start=0.1, rise=0.25, end=0.01)": lambda e, n: float(
        0.1 + 0.9 * (1 - np.cos(np.pi * 4 * e / n)) / 2
        if e < n / 4
        else 0.01 + 0.99 * (1 + np.cos(np.pi * (e - n / 4) / (0.75 * n))) / 2
    ),
    "Warmup(epochs=5.0, start=0.03125)": lambda e, n: warmed(e, 5, 1 / 32, lambda _: 1.0),
    "Warmup(epochs=5.0, start=0.03125, then=Steps())": lambda e, n: warmed(
        e, 5, 1 / 32, lambda x: 1.0 if x < 30 else 0.1 if x < 60 else 0.01 if x < 80 else 1e-3
    ),
    "Warmup(epochs=10.0, then=Polynomial(), after=True)": lambda e, n: (
        e / 10 if e < 10 else (1 - (e - 10) / (n - 10)) ** 2
    ),
}
