"""Ten lines of textbook numpy for each system of the catalogue. Knows the papers, and nothing of the code under test.

All train the same two-layer tanh network with squared loss. `data[m][t]` is the batch (x, y) of worker m's own step t;
an `order` names, one after the other, the workers whose turn it is to show what they computed. A worker computes its
gradient at the parameters it held when its last turn ended. Every oracle returns one row of parameters per worker;
those with a server also return what the server holds, and what else is named in their docstring.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

Array = np.ndarray
Batch = tuple[Array, Array]
Data = Sequence[Sequence[Batch]]

SHAPES = ((4, 5), (4,), (3, 4), (3,))  # hidden weights and biases, output weights and biases
ENDS = np.cumsum([int(np.prod(shape)) for shape in SHAPES])


def cut(w: Array) -> list[Array]:
    """The flat vector as the network's four tensors."""
    return [part.reshape(shape) for part, shape in zip(np.split(w, ENDS[:-1]), SHAPES, strict=True)]


def joined(parts: Sequence[Array]) -> Array:
    """Tensors as one flat vector."""
    return np.concatenate([part.ravel() for part in parts])


def loss(w: Array, batch: Batch) -> float:
    """The mean over the batch of half the squared error."""
    (w1, b1, w2, b2), (x, y) = cut(w), batch
    return float(0.5 * np.sum((np.tanh(x @ w1.T + b1) @ w2.T + b2 - y) ** 2) / len(x))


def gradient(w: Array, batch: Batch) -> Array:
    """The slope of `loss`, by the chain rule on paper."""
    (w1, b1, w2, b2), (x, y) = cut(w), batch
    h = np.tanh(x @ w1.T + b1)
    r = (h @ w2.T + b2 - y) / len(x)
    d = (r @ w2) * (1 - h**2)
    return joined([d.T @ x, d.sum(0), r.T @ h, r.sum(0)])


class SGD:
    """v = mu v + g; w = w - eta v."""

    def __init__(self, eta: float, mu: float = 0.0) -> None:
        self.eta, self.mu, self.v = eta, mu, 0.0

    def __call__(self, w: Array, g: Array) -> Array:
        self.v = self.mu * self.v + g
        return w - self.eta * self.v


def allreduce(w: Array, data: Data, eta: float, mu: float = 0.0) -> Array:
    """g = mean of all gradients, then one step, the same everywhere (P1 section on synchronous SGD)."""
    step = SGD(eta, mu)
    for now in zip(*data, strict=True):
        w = step(w, np.mean([gradient(w, batch) for batch in now], 0))
    return np.tile(w, (len(data), 1))


def parameter_server(w: Array, data: Data, eta: float, mu: float = 0.0) -> tuple[Array, Array]:
    """Workers fetch and push; the server adds up, divides by their number, and steps."""
    step, held = SGD(eta, mu), np.tile(w, (len(data), 1))
    for now in zip(*data, strict=True):
        total = 0.0
        for mine, batch in zip(held, now, strict=True):
            total = total + gradient(mine, batch)
        w = step(w, total / len(data))
        held[:] = w
    return held, w


def backup_workers(
    w: Array, data: Data, eta: float, order: Sequence[int], backups: int = 1, mu: float = 0.0
) -> tuple[Array, Array, list[int]]:
    """The first N of N+b gradients of a version make the next one; later ones are dropped (Chen et al.).

    Also returns how many of each worker's gradients were dropped.
    """
    n, step, version, arrived = len(data), SGD(eta, mu), 0, {}
    held, of, done, dropped = np.tile(w, (n, 1)), [0] * n, [0] * n, [0] * n
    for m in order:
        g, done[m] = gradient(held[m], data[m][done[m]]), done[m] + 1
        if of[m] < version:  # too late: fetch and go on
            held[m], of[m], dropped[m] = w, version, dropped[m] + 1
            continue
        arrived[m] = g
        if len(arrived) == n - backups:
            w, version = step(w, np.mean(list(arrived.values()), 0)), version + 1
            for who in arrived:
                held[who], of[who] = w, version
            arrived = {}
    return held, w, dropped


def ssp(
    w: Array, data: Data, eta: float, order: Sequence[int], bound: int, mu: float = 0.0
) -> tuple[Array, Array, list[list[int]]]:
    """Each gradient is applied as it comes, for 1/n; clock c fetches once c - min clock <= bound (Ho et al.).

    Also returns, worker by worker, how many updates old each gradient was when it was applied.
    """
    n, step, held = len(data), SGD(eta, mu), np.tile(w, (len(data), 1))
    clock, fetched, ages, waiting = [0] * n, [0] * n, [[] for _ in range(n)], set()
    for updates, m in enumerate(order):
        w = step(w, gradient(held[m], data[m][clock[m]]) / n)
        ages[m].append(updates - fetched[m])
        clock[m] += 1
        waiting.add(m)
        for who in [who for who in waiting if clock[who] - min(clock) <= bound]:
            held[who], fetched[who] = w, updates + 1
            waiting.remove(who)
    return held, w, ages


def downpour(
    w: Array, data: Data, eta: float, order: Sequence[int], tau: int, mu: float = 0.0
) -> tuple[Array, Array, list[list[int]]]:
    """Move alone and add the moves up; after tau of them send the sum, which the server adds, and fetch (DistBelief).

    Also returns, worker by worker, how many updates the server had seen since the worker's last fetch.
    """
    n, held, moved = len(data), np.tile(w, (len(data), 1)), np.zeros((len(data), len(w)))
    steps, done, updates, fetched, ages = [SGD(eta, mu) for _ in data], [0] * n, 0, [0] * n, [[] for _ in range(n)]
    for m in order:
        move = steps[m](held[m], gradient(held[m], data[m][done[m]])) - held[m]
        held[m], moved[m], done[m] = held[m] + move, moved[m] + move, done[m] + 1
        if done[m] % tau == 0:
            ages[m].append(updates - fetched[m])
            w, updates = w + moved[m], updates + 1
            held[m], moved[m], fetched[m] = w, 0.0, updates
    return held, w, ages


def easgd(w: Array, data: Data, eta: float, beta: float, tau: int, mu: float = 0.0) -> tuple[Array, Array]:
    """x -= eta g(x) + a (x - c); c += sum a (x - c), from the old values, a = beta/p, every tau steps (eqs 3, 4)."""
    alpha, x, c = beta / len(data), np.tile(w, (len(data), 1)), w
    steps = [SGD(eta, mu) for _ in data]
    for t, now in enumerate(zip(*data, strict=True)):
        pull = alpha * (x - c) if t % tau == 0 else np.zeros_like(x)
        stepped = [step(mine, gradient(mine, batch)) for step, mine, batch in zip(steps, x, now, strict=True)]
        x = np.array(stepped) - pull
        c = c + pull.sum(0)
    return x, c


def easgd_unordered(
    w: Array, data: Data, eta: float, order: Sequence[int], beta: float, tau: int, mu: float = 0.0
) -> tuple[Array, Array]:
    """EASGD without rounds: fetch c; d = a (x - c); c += d; take the local step; x -= d (Zhang et al., algorithm 1)."""
    alpha, x, c, done = beta / len(data), np.tile(w, (len(data), 1)), w, [0] * len(data)
    steps = [SGD(eta, mu) for _ in data]
    for m in order:
        d = alpha * (x[m] - c) if done[m] % tau == 0 else np.zeros_like(w)
        c = c + d
        x[m] = steps[m](x[m], gradient(x[m], data[m][done[m]])) - d
        done[m] += 1
    return x, c


def local_sgd(w: Array, data: Data, eta: float, tau: int, mu: float = 0.0) -> Array:
    """tau steps alone, then everybody takes the mean; momenta stay where they are."""
    x, steps = np.tile(w, (len(data), 1)), [SGD(eta, mu) for _ in data]
    for t, now in enumerate(zip(*data, strict=True)):
        x = np.array([step(mine, gradient(mine, b)) for step, mine, b in zip(steps, x, now, strict=True)])
        if (t + 1) % tau == 0:
            x[:] = x.mean(0)
    return x


def diloco(w: Array, data: Data, eta: float, tau: int, rate: float = 0.7, outer: float = 0.9, mu: float = 0.0) -> Array:
    """Outer gradient G = start - mean of ends; v = m v + G; start -= rate (G + m v). Inner state stays local."""
    x, steps, v = np.tile(w, (len(data), 1)), [SGD(eta, mu) for _ in data], np.zeros_like(w)
    for t, now in enumerate(zip(*data, strict=True)):
        x = np.array([step(mine, gradient(mine, b)) for step, mine, b in zip(steps, x, now, strict=True)])
        if (t + 1) % tau == 0:
            g = w - x.mean(0)
            v = outer * v + g
            w = w - rate * (g + outer * v)
            x[:] = w
    return x


def gossip_pull(
    w: Array,
    data: Data,
    eta: float,
    order: Sequence[int],
    drawn: Callable[[int, int], Sequence[int]],
    tau: int = 1,
    mu: float = 0.0,
) -> Array:
    """Step; every tau steps take the mean of oneself and the drawn partners as they are; only the puller changes (P3).

    `drawn(worker, round)` names the partners, oneself possibly among them.
    """
    x, steps, done = np.tile(w, (len(data), 1)), [SGD(eta, mu) for _ in data], [0] * len(data)
    for m in order:
        x[m] = steps[m](x[m], gradient(x[m], data[m][done[m]]))
        done[m] += 1
        if done[m] % tau == 0:
            x[m] = np.mean([x[m], *(x[j] for j in drawn(m, done[m] // tau - 1))], 0)
    return x


def exponential(n: int, k: int) -> Array:
    """Column i: half stays with i, half goes to the one 2**(k mod ceil(log2 n)) places on (Assran et al.)."""
    hop = 2 ** (k % int(np.ceil(np.log2(n))))
    return (np.eye(n) + np.roll(np.eye(n), hop, axis=0)) / 2


def sgp(
    w: Array,
    data: Data,
    eta: float,
    tau: int = 1,
    mu: float = 0.0,
    graph: Callable[[int, int], Array] = exponential,
) -> tuple[Array, Array]:
    """Gradient at z = x/mass; step x; x = A x, mass = A mass, the columns of A summing to 1. Returns z and mass."""
    x, mass, steps = np.tile(w, (len(data), 1)), np.ones((len(data), 1)), [SGD(eta, mu) for _ in data]
    for t, now in enumerate(zip(*data, strict=True)):
        z = x / mass
        x = np.array([step(xi, gradient(zi, b)) for step, xi, zi, b in zip(steps, x, z, now, strict=True)])
        if (t + 1) % tau == 0:
            a = graph(len(data), (t + 1) // tau - 1)
            x, mass = a @ x, a @ mass
    return x / mass, mass[:, 0]


def powersgd(w: Array, data: Data, eta: float, starts: Sequence[Array], mu: float = 0.0) -> Array:
    """P = orth(mean(M Q)); Q = mean(M' P); step along P Q', keeping M - P Q_mine' for next time (Vogels et al.).

    `starts` are the first Q of each matrix in turn; vectors are averaged as they are.
    """
    step, q, errors = SGD(eta, mu), list(starts), np.zeros((len(data), len(w)))
    for now in zip(*data, strict=True):
        sent = [cut(gradient(w, b) + e) for b, e in zip(now, errors, strict=True)]
        mean = [np.mean(tensors, 0) for tensors in zip(*sent, strict=True)]
        matrices = [i for i, tensor in enumerate(mean) if tensor.ndim == 2]
        for k, i in enumerate(matrices):
            p = np.linalg.qr(np.mean([m[i] @ q[k] for m in sent], 0))[0]
            for m in sent:
                m[i] = m[i] - p @ (m[i].T @ p).T
            q[k] = mean[i].T @ p
            mean[i] = p @ q[k].T
        errors = np.array([joined([m[i] if i in matrices else 0 * m[i] for i in range(len(m))]) for m in sent])
        w = step(w, joined(mean))
    return np.tile(w, (len(data), 1))


def dgc(
    w: Array,
    data: Data,
    eta: float,
    density: float,
    momentum: float = 0.9,
    masking: bool = True,
    warmup: int = 0,
    nesterov: bool = False,
    clip: float = np.inf,
    spared: bool = False,
) -> Array:
    """U = m U + G; V += U; send the largest of |V| layer by layer, clear them from V and (masking) U (P1 algorithm 7).

    With `spared` vectors are sent whole.
    Warming up in four stages the density is ratio**(1/5), **(2/5), ... (the papers' epochs are `warmup`/4 steps).
    """
    u, v = np.zeros((2, len(data), len(w)))
    for t, now in enumerate(zip(*data, strict=True)):
        share = density ** ((t // (warmup / 4) + 1) / 5) if t < warmup else density
        g = np.array([gradient(w, batch) for batch in now])
        g *= np.minimum(1.0, clip / np.sqrt(len(data)) / np.linalg.norm(g, axis=1))[:, None]
        u = momentum * (u + g) if nesterov else momentum * u + g
        v = v + u + g if nesterov else v + u
        mask = np.array([joined(list(largest(cut(mine), share))) for mine in v])
        whole = joined([np.full(part.shape, spared and part.ndim == 1) for part in cut(w)])  # sent as it is, U kept
        w = w - eta * np.mean(v * (mask | whole), 0)
        v = v * ~(mask | whole)
        u = u * (~mask | whole) if masking else u
    return np.tile(w, (len(data), 1))


def largest(tensors: Sequence[Array], share: float) -> Iterator[Array]:
    """Where the `share` of each tensor's elements lies that is largest in magnitude, at least one element."""
    for tensor in tensors:
        count = max(1, int(np.ceil(share * tensor.size)))
        yield np.abs(tensor) >= np.sort(np.abs(tensor), axis=None)[-count]
