"""What a step may cost: buckets leave while backward runs, a slow fabric hides behind compute, nothing is allocated."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from tests.processes.pool import Member, everywhere
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from gossamer.engine.fabrics import Key, Pending
from gossamer.parts.codec import Heard, Wire
from gossamer.parts.route import Route
from gossamer.strategy import buckets as cut

WIDTH, LAYERS = 256, 12
PAD = 0.012  # seconds a layer's backward is padded by


class Padded(torch.autograd.Function):
    """A layer boundary whose backward takes its time."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:  # type: ignore[override]
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> Tensor:  # type: ignore[override]
        time.sleep(PAD)
        return slope


class Deep(nn.Module):
    """Layers of 256 KB each, with compute that is mostly waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = Padded.apply(layer(x))
        return x


class Slow:
    """A fabric whose only link takes one bucket after the other, at a given rate; what it carries is real."""

    def __init__(self, inside: Any, bytes_per_second: float) -> None:
        self._inside, self._rate, self._free = inside, bytes_per_second, 0.0
        self.begun: list[float] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inside, name)

    def everyone(self, key: Key, wire: Wire, route: Route) -> Pending:
        """Begin at once, or when the link is free."""
        now = time.perf_counter()
        self.begun.append(now)
        self._free = done = max(now, self._free) + wire.body.nbytes / self._rate
        pending = self._inside.everyone(key, wire, route)

        def wait() -> Heard:
            time.sleep(max(0.0, done - time.perf_counter()))
            heard: Heard = pending.wait()
            return heard

        return Pending(wait)


def slowed(member: Member, model: nn.Module, optimizer: torch.optim.Optimizer, rate: float) -> Slow:
    """Prepare with buckets of two layers, and put the slow link between the stepper and its fabric."""
    before, cut.FIRST, cut.LATER = (cut.FIRST, cut.LATER), 1 << 16, 1 << 19  # type: ignore[misc]
    member.prepare(model, optimizer)
    cut.FIRST, cut.LATER = before  # type: ignore[misc]
    strand = member.sessions[-1].courses[0].strands[0]
    strand.stepper.fabric = slow = Slow(strand.fabric, rate)
    return slow


def best(step: Callable[[], None], times: int = 4) -> float:
    """The quickest of a few, in seconds."""
    found = []
    for _ in range(times):
        began = time.perf_counter()
        step()
        found.append(time.perf_counter() - began)
    return min(found)


@everywhere(worlds=(2,), fabrics=("shared", "torch"), balance=(0.5, 1.0, 2.0))
def test_an_exchange_hides_behind_compute_or_compute_behind_it(member: Member, balance: float) -> None:
    torch.manual_seed(0)
    bare, model = Deep(), Deep()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    x = torch.randn(1, WIDTH)
    alone = best(lambda: bare(x).sum().backward())
    nbytes = sum(p.nbytes for p in model.parameters())
    exchange = balance * alone
    slow = slowed(member, model, optimizer, nbytes / exchange)
    ends = []

    def step() -> None:
        optimizer.zero_grad()
        model(x).sum().backward()
        ends.append(time.perf_counter())
        optimizer.step()

    step()
    slow.begun.clear()
    taken = best(step)
    assert slow.begun[0] < ends[1] - 0.5 * exchange, "the first bucket left only when backward was over"
    assert taken >= 0.95 * max(alone, exchange), "the link was not slow at all"
    assert taken <= 1.35 * max(alone, exchange) + 0.02, (
        f"{taken:.3f} s for {alone:.3f} compute, {exchange:.3f} exchange"
    )


class Allocations(TorchDispatchMode):
    """Sums up the bytes of all storages that operations bring into being."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        known = {t.untyped_storage().data_ptr() for t in tree_leaves((args, kwargs or {})) if isinstance(t, Tensor)}
        found = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(found):
            if isinstance(tensor, Tensor) and tensor.untyped_storage().data_ptr() not in known:
                self.bytes += tensor.untyped_storage().nbytes()
        return found


def allocated(steps: Sequence[Callable[[], None]]) -> list[int]:
    """Bytes that a step of each brings into being, after two that may do what they like."""
    found = []
    for step in steps:
        step()
        step()
        with Allocations() as seen:
            step()
        found.append(seen.bytes)
    return found


def loop(model: nn.Module, optimizer: torch.optim.Optimizer) -> Callable[[], None]:
    """A step of the user's."""
    x = torch.randn(2, 300)

    def step() -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return step


@everywhere(worlds=(2,), strategy=("allreduce", "allreduce(route=sharded)"))
def test_nothing_as_large_as_the_model_is_allocated_after_the_first_step(member: Member, strategy: str) -> None:
    made = [nn.Sequential(nn.Linear(300, 700), nn.ReLU(), nn.Linear(700, 300)) for _ in range(2)]
    rates = [torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9) for model in made]
    member.prepare(made[0], rates[0], strategy=strategy)
    ours, bare = allocated([loop(*pair) for pair in zip(made, rates, strict=True)])
    size = sum(p.nbytes for p in made[0].parameters())
    assert ours - bare < 0.02 * size, f"{ours - bare} bytes more than without us, of a model of {size}"


@everywhere(worlds=(2,), fabrics=("shared",))
def test_an_allocation_as_large_as_the_model_is_seen(member: Member) -> None:
    model = nn.Linear(300, 300)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    member.prepare(model, optimizer)
    strand = member.sessions[-1].courses[0].strands[0]
    inside = strand.stepper.mix

    def wasteful(step: int) -> None:
        strand.replica.gradients.clone()
        inside(step)

    plain = allocated([loop(model, optimizer)])[0]
    strand.stepper.mix = wasteful
    assert allocated([loop(model, optimizer)])[0] - plain >= strand.replica.gradients.nbytes
