"""How many numbers leave a host in the all-reduces of the papers, in closed form. Knows nothing of the code under test.

There are h hosts of k workers, w = h k in all, numbered host by host; the vector has n numbers, cut evenly by all.
"""


def ring(h: int, k: int, n: int) -> float:
    """Only a host's last worker speaks to another host: 2(w-1) rounds of n/w."""
    w = h * k
    return 2 * (w - 1) * n / w if h > 1 else 0


def torus(h: int, k: int, n: int) -> float:
    """Rows are hosts; each of k columns all-reduces n/k among h: 2(h-1)/h of n in all, the least there can be."""
    return k * 2 * (h - 1) / h * n / k


def hierarchical(h: int, k: int, n: int) -> float:
    """Masters all-reduce the whole vector in a ring of h."""
    return 2 * (h - 1) / h * n


def halving_nearest_first(h: int, k: int, n: int) -> float:
    """Powers of two. Halves swapped inside a host first leave n/k for each worker to halve across: as the torus."""
    return k * 2 * (h - 1) / h * n / k


def halving_farthest_first(h: int, k: int, n: int) -> float:
    """Powers of two. The largest halves cross: each worker n(1/2 + 1/4 + ... + 1/h), and as much back; k times more."""
    return k * 2 * (h - 1) / h * n


def doubling(h: int, k: int, n: int) -> float:
    """Powers of two. Every worker sends everything log2 h times across."""
    return k * (h.bit_length() - 1) * n


def sharded_hub(h: int, k: int, n: int) -> float:
    """Each worker has n/w for each of the w - k elsewhere, and sums of n/w to tell each of them."""
    w = h * k
    return 2 * k * (w - k) * n / w
