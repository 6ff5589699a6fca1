"""Ten lines of textbook numpy for each relaxed system. Knows the papers, and nothing of the code under test.

As in `oracles`: `data[m][t]` is the batch of worker m's own step t, an `order` names whose turn it is, and a worker
computes its gradient at the parameters it held when its last turn ended.
"""

from collections.abc import Callable, Sequence

import numpy as np
from tests.papers.oracles import Array, Data, exponential, gradient


def softsync(
    w: Array, data: Data, eta: float, order: Sequence[int | tuple[int, ...]], count: int
) -> tuple[Array, Array, list[int]]:
    """Step after every `count` gradients from any learners, each divided by its staleness (Zhang et al.).

    Learners never wait. Those named together in the order push in one moment and fetch after it. Also returns ages.
    """
    held, of, done, version = np.tile(w, (len(data), 1)), [0] * len(data), [0] * len(data), 0
    inside: list[tuple[int, Array]] = []
    ages = []
    for entry in order:
        now = entry if isinstance(entry, tuple) else (entry,)
        for m in now:
            age = version - of[m]
            ages.append(age)
            inside.append((m, gradient(held[m], data[m][done[m]]) / max(1, age)))
            done[m] += 1
            if len(inside) == count:
                w, version, inside = w - eta * np.mean([g for _, g in inside], 0), version + 1, []
        for m in now:
            held[m], of[m] = w, version
    return held, w, ages


def hogwild(w: Array, data: Data, eta: float, order: Sequence[int]) -> tuple[Array, Array]:
    """Read the shared w, take a gradient there, and subtract it from whatever w has become (Niu et al.)."""
    read, done = [w] * len(data), [0] * len(data)
    for m in order:
        w = w - eta * gradient(read[m], data[m][done[m]])
        read[m], done[m] = w, done[m] + 1
    return np.array(read), w


def dc_asgd(
    w: Array, data: Data, eta: float, order: Sequence[int], strength: float, adaptive: bool = False
) -> tuple[Array, Array]:
    """w -= eta (g + l g g (w - backup of the pusher)); adaptive l = l0 / sqrt(mean square + eps)."""
    held, done, mean = np.tile(w, (len(data), 1)), [0] * len(data), np.zeros_like(w)
    for m in order:
        g, done[m] = gradient(held[m], data[m][done[m]]), done[m] + 1
        mean = 0.95 * mean + 0.05 * g * g
        by = strength / np.sqrt(mean + 1e-7) if adaptive else strength
        w = w - eta * (g + by * g * g * (w - held[m]))
        held[m] = w
    return held, w


def sparknet(w: Array, data: Data, eta: float, tau: int) -> Array:
    """Every tau steps the master collects all models, averages, and sends the average out (Moritz et al.)."""
    x = np.tile(w, (len(data), 1))
    for t, now in enumerate(zip(*data, strict=True)):
        x = np.array([mine - eta * gradient(mine, b) for mine, b in zip(x, now, strict=True)])
        if t % tau == tau - 1:
            w = sum(x) / len(x)
            x = np.tile(w, (len(data), 1))
    return x


def post_local_sgd(w: Array, data: Data, eta: float, switch: int, tau: int) -> Array:
    """Mean gradients before the switch; from it on steps alone, with a mean of models every tau steps of the run."""
    x = np.tile(w, (len(data), 1))
    for t, now in enumerate(zip(*data, strict=True)):
        g = np.array([gradient(mine, b) for mine, b in zip(x, now, strict=True)])
        x = x - eta * (g.mean(0) if t < switch else g)
        if t >= switch and (t + 1) % tau == 0:
            x[:] = x.mean(0)
    return x


def bmuf(w: Array, data: Data, eta: float, tau: int, zeta: float, block: float, nesterov: bool = False) -> Array:
    """G = mean x - x_g; D = mu D + zeta G; x = x + D; start from x, or from x + mu D (Chen and Huo)."""
    x, model, d = np.tile(w, (len(data), 1)), w, np.zeros_like(w)
    for t, now in enumerate(zip(*data, strict=True)):
        x = np.array([mine - eta * gradient(mine, b) for mine, b in zip(x, now, strict=True)])
        if (t + 1) % tau == 0:
            d = block * d + zeta * (x.mean(0) - w)
            model = model + d
            w = model + block * d if nesterov else model
            x = np.tile(w, (len(data), 1))
    return x


def slowmo(w: Array, data: Data, eta: float, tau: int, alpha: float, beta: float) -> Array:
    """u = beta u + (x0 - mean x)/eta; x0 -= alpha eta u (Wang et al.)."""
    x, u = np.tile(w, (len(data), 1)), np.zeros_like(w)
    for t, now in enumerate(zip(*data, strict=True)):
        x = np.array([mine - eta * gradient(mine, b) for mine, b in zip(x, now, strict=True)])
        if (t + 1) % tau == 0:
            u = beta * u + (w - x.mean(0)) / eta
            w = w - alpha * eta * u
            x = np.tile(w, (len(data), 1))
    return x


def crossbow(w: Array, data: Data, eta: float, rate: float, mu: float) -> tuple[Array, Array]:
    """c_i = a (x_i - z); x_i -= eta g_i + c_i; z += sum c_i + mu (z - z_prev), a = rate/p (SMA, our reading)."""
    x, z, before = np.tile(w, (len(data), 1)), w, w
    for now in zip(*data, strict=True):
        c = rate / len(data) * (x - z)
        x = np.array([mine - eta * gradient(mine, b) for mine, b in zip(x, now, strict=True)]) - c
        z, before = z + c.sum(0) + mu * (z - before), z
    return x, z


def async_easgd(w: Array, data: Data, eta: float, order: Sequence[int], beta: float, tau: int) -> tuple[Array, Array]:
    """Every tau steps d = a (x - c), c += d, a = beta/p; take the local step; x -= d; nobody waits (P1, mpiT)."""
    x, c, done = np.tile(w, (len(data), 1)), w, [0] * len(data)
    for m in order:
        d = beta / len(data) * (x[m] - c) * (done[m] % tau == 0)
        x[m], c, done[m] = x[m] - eta * gradient(x[m], data[m][done[m]]) - d, c + d, done[m] + 1
    return x, c


def eamsgd(
    w: Array, data: Data, eta: float, order: Sequence[int], beta: float, tau: int, delta: float
) -> tuple[Array, Array]:
    """Every tau steps d = a (x - c), c += d; then v *= delta; x += v; g at x; x -= eta g; v -= eta g; x -= d (mpiT)."""
    x, v, c, done = np.tile(w, (len(data), 1)), np.zeros((len(data), len(w))), w, [0] * len(data)
    for m in order:
        d = beta / len(data) * (x[m] - c) if done[m] % tau == 0 else 0.0 * w
        c = c + d
        v[m] = delta * v[m]
        x[m] = x[m] + v[m]
        g = gradient(x[m], data[m][done[m]])
        x[m], v[m], done[m] = x[m] - eta * g - d, v[m] - eta * g, done[m] + 1
    return x, c


def gossip_push(
    w: Array, data: Data, eta: float, order: Sequence[int], drawn: Callable[[int, int], int], tau: int = 1
) -> Array:
    """Step; add oneself to the inbox of `drawn(worker, round)`; x = (s x + inbox)/(s + count), s = 2 if drawn (P3)."""
    n = len(data)
    x, done, inbox, count = np.tile(w, (n, 1)), [0] * n, np.zeros((n, len(w))), [0] * n
    for m in order:
        x[m] = x[m] - eta * gradient(x[m], data[m][done[m]])
        done[m] += 1
        if done[m] % tau:
            continue
        j, s = drawn(m, done[m] // tau - 1), 1
        if j == m:
            s = 2
        else:
            inbox[j], count[j] = inbox[j] + x[m], count[j] + 1
        if count[m]:
            x[m] = (s * x[m] + inbox[m]) / (s + count[m])
            inbox[m], count[m] = 0.0, 0
    return x


def circle(n: int) -> Array:
    """Each hears itself and both neighbours for a third; two hear each other for a half."""
    w = np.eye(n) + np.roll(np.eye(n), 1, axis=0) + np.roll(np.eye(n), -1, axis=0)
    return (w > 0) / (w > 0).sum(1, keepdims=True)


def grid(n: int, x: int) -> Array:
    """The torus of rows of x: oneself and the neighbours left, right, above, below, each for the same share."""
    w = np.eye(n)
    for i in range(n):
        row, column = divmod(i, x)
        for r, c in ((row, column - 1), (row, column + 1), (row - 1, column), (row + 1, column)):
            w[i, r % (n // x) * x + c % x] = 1
    return w / w.sum(1, keepdims=True)


def dpsgd(w: Array, data: Data, eta: float, mixing: Array) -> Array:
    """x_i = sum_j W_ij x_j - eta g_i(x_i), the gradient at the unmixed point (Lian et al.)."""
    x = np.tile(w, (len(data), 1))
    for now in zip(*data, strict=True):
        x = mixing @ x - eta * np.array([gradient(mine, b) for mine, b in zip(x, now, strict=True)])
    return x


def adpsgd(w: Array, data: Data, eta: float, order: Sequence[int], drawn: Callable[[int, int], int]) -> Array:
    """g at the model held when the last turn ended; then x_i = x_j = their mean; then x_i -= eta g (Lian et al.)."""
    x, done = np.tile(w, (len(data), 1)), [0] * len(data)
    read = x.copy()
    for m in order:
        g, j = gradient(read[m], data[m][done[m]]), drawn(m, done[m])
        x[m] = x[j] = (x[m] + x[j]) / 2
        x[m] = x[m] - eta * g
        read[m], done[m] = x[m], done[m] + 1
    return x


def osgp(w: Array, data: Data, eta: float, tau: int) -> tuple[Array, Array]:
    """Push-sum every tau steps, whose messages take tau steps: half stays, half is under way (Assran et al.).

    Returns z = x/mass and mass.
    """
    n, x, mass = len(data), np.tile(w, (len(data), 1)), np.ones((len(data), 1))
    under_way: list[tuple[Array, Array]] = []
    for t, now in enumerate(zip(*data, strict=True)):
        z = x / mass
        x = x - eta * np.array([gradient(mine, b) for mine, b in zip(z, now, strict=True)])
        if (t + 1) % tau:
            continue
        away = exponential(n, (t + 1) // tau - 1) - np.eye(n) / 2
        under_way.append((away @ x, away @ mass))
        x, mass = x / 2, mass / 2
        if len(under_way) > 1:
            came = under_way.pop(0)
            x, mass = x + came[0], mass + came[1]
    return x / mass, mass[:, 0]


def gossipgrad(w: Array, data: Data, eta: float, heard: Callable[[int, int], int]) -> Array:
    """Step; then x_i = (x_i + x_j)/2 with the partner j = heard(i, t) of this round (GossipGraD, our reading)."""
    x = np.tile(w, (len(data), 1))
    for t, now in enumerate(zip(*data, strict=True)):
        x = np.array([mine - eta * gradient(mine, b) for mine, b in zip(x, now, strict=True)])
        x = (x + x[[heard(i, t) for i in range(len(x))]]) / 2
    return x


def gossip_pga(w: Array, data: Data, eta: float, mixing: Array, every: int = 0) -> Array:
    """x = W (x - eta g); every so often (0: never) the mean of all instead (Gossip-PGA)."""
    x = np.tile(w, (len(data), 1))
    for t, now in enumerate(zip(*data, strict=True)):
        x = mixing @ (x - eta * np.array([gradient(mine, b) for mine, b in zip(x, now, strict=True)]))
        if every and (t + 1) % every == 0:
            x[:] = x.mean(0)
    return x


def gossip_hosts(
    w: Array,
    data: Data,
    eta: float,
    per_host: int,
    mixing: Callable[[int], Array],
    every: int = 1,
    order: Sequence[int] | None = None,
) -> Array:
    """One x a host: x_h -= eta mean of its workers' gradients; every so often x_h = sum_k W(round)_hk x_k (SGP).

    With an order of hosts, each moves by itself and mixes with the others as they are; without one all move at once.
    """
    hosts = [data[first : first + per_host] for first in range(0, len(data), per_host)]
    x, done = np.tile(w, (len(hosts), 1)), [0] * len(hosts)
    for moving in [(h,) for h in order] if order is not None else [tuple(range(len(hosts)))] * len(data[0]):
        for h in moving:
            x[h] = x[h] - eta * np.mean([gradient(x[h], worker[done[h]]) for worker in hosts[h]], 0)
            done[h] += 1
        before = x.copy()
        for h in moving:
            if done[h] % every == 0:
                x[h] = mixing(done[h] // every - 1)[h] @ before
    return np.repeat(x, per_host, 0)
