"""What a rehearsal pays for routes on which members send unequally, or that depend on the wire."""

from __future__ import annotations

import pytest

from gossamer.parts.route import BySize, Doubling, Torus, Tree, cost
from gossamer.sim import Machines, prices


def test_a_rehearsal_pays_the_longest_way() -> None:
    machines = Machines(rate=1e9, latency=1e-4)
    price = prices.all_reduce(machines, Tree(), 8, 10**6)
    assert (price.busy, price.latency) == (pytest.approx(6e-3), pytest.approx(6e-4))  # 2 log2 8 rounds of a megabyte
    for size, n in ((12, 1000), (12, 10**6)):
        hybrid = prices.all_reduce(machines, BySize(small=Doubling(), large=Torus()), size, n)
        assert hybrid.seconds == pytest.approx(cost(Doubling() if n == 1000 else Torus(), size, n, 1e-4, 1e-9))
