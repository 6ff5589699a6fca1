"""Optimizers of large batches against their numpy oracles, at zero norms, at any scale, in checkpoints."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from tests.papers import recipe_oracles as oracles
from torch import Tensor

from gossamer.parts.refusal import Refused
from gossamer.recipes import LAMB, LARS, RMSpropToSGD, VelocitySGD, sgd_share

SHAPES = ((4, 3), (4,), (2, 4), (2,), (3, 2, 2))
STEPS = 12
Slope = Callable[[list[np.ndarray]], list[np.ndarray]]


def start(seed: int = 0) -> list[np.ndarray]:
    draw = np.random.default_rng(seed)
    return [draw.normal(size=shape) for shape in SHAPES]


def slope(w: list[np.ndarray]) -> list[np.ndarray]:
    """Of a bowl that is not round, and bent."""
    return [(k + 1) * each + 0.3 * np.sin(3 * each) + 0.1 for k, each in enumerate(w)]


def rate(step: int) -> float:
    return 0.05 * (step + 1) if step < 4 else 0.02


def played(
    make: Callable[[list[Tensor]], torch.optim.Optimizer],
    given: list[np.ndarray],
    slope: Slope = slope,
    set_more: Callable[[dict[str, Any], int], None] | None = None,
) -> list[np.ndarray]:
    tensors = [torch.tensor(each, requires_grad=True) for each in given]
    optimizer = make(tensors)
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
            if set_more is not None:
                set_more(group, step)
        for tensor, g in zip(tensors, slope([t.detach().numpy() for t in tensors]), strict=True):
            tensor.grad = torch.tensor(g)
        optimizer.step()
    return [t.detach().numpy() for t in tensors]


def far(found: list[np.ndarray], wanted: list[np.ndarray]) -> float:
    return max(np.abs(a - b).max() for a, b in zip(found, wanted, strict=True))


LARS_CASES: list[dict[str, Any]] = [
    {},
    {"decay": 0.01, "trust": 0.02},
    {"decay": 0.01, "nesterov": True},
    {"decay": 0.1, "vectors": True, "momentum": 0.5},
    {"decay": 0.01, "corrected": False},
    {"nesterov": True, "corrected": False, "vectors": True},
    {"eps": 0.5, "decay": 0.01},
    {"eps": 0.0},
]


@pytest.mark.parametrize("case", LARS_CASES, ids=str)
def test_lars_equals_its_oracle(case: dict[str, Any]) -> None:
    said = {"weight_decay" if name == "decay" else name: value for name, value in case.items()}
    found = played(lambda tensors: LARS(tensors, **said), start())
    assert far(found, oracles.lars(start(), slope, STEPS, rate, **case)) < 1e-12
    for other in LARS_CASES:
        if other != case and {**other, "eps": 0} != {**case, "eps": 0}:
            assert far(found, oracles.lars(start(), slope, STEPS, rate, **other)) > 1e-6, other


@pytest.mark.parametrize("case", [{}, {"decay": 0.1, "vectors": True}, {"betas": (0.8, 0.9), "decay": 0.0}], ids=str)
def test_lamb_equals_its_oracle(case: dict[str, Any]) -> None:
    said = {"weight_decay" if name == "decay" else name: value for name, value in case.items()}
    found = played(lambda tensors: LAMB(tensors, **said), start())
    assert far(found, oracles.lamb(start(), slope, STEPS, rate, **case)) < 1e-12
    assert far(found, oracles.lamb(start(), slope, STEPS, rate, **case | {"eps": 0.1})) > 1e-6
    assert far(found, oracles.lamb(start(), slope, STEPS, rate, **case | {"vectors": "vectors" not in case})) > 1e-6


def test_lamb_without_adapting_is_adamw() -> None:
    vectors = [np.ones(3), np.array([0.5, -2.0])]
    found = played(lambda tensors: LAMB(tensors, eps=1e-8), vectors)
    wanted = played(lambda tensors: torch.optim.AdamW(tensors, weight_decay=0.0), vectors)
    assert far(found, wanted) < 1e-12


@pytest.mark.parametrize("corrected", [True, False])
def test_a_velocity_that_holds_the_rate(corrected: bool) -> None:
    found = played(lambda tensors: VelocitySGD(tensors, momentum=0.8, corrected=corrected), start())
    assert far(found, oracles.velocity(start(), slope, STEPS, rate, momentum=0.8, corrected=corrected)) < 1e-12
    torchs = played(lambda tensors: torch.optim.SGD(tensors, 0.1, momentum=0.8), start())
    assert (far(found, torchs) < 1e-12) == corrected, "torch's own keeps the rate out of it"


def test_rmsprop_becomes_sgd() -> None:
    def share(step: int) -> float:
        return sgd_share(step, center=5.0, period=6.0)

    def follow(group: dict[str, Any], step: int) -> None:
        group["share"] = share(step)

    found = played(lambda tensors: RMSpropToSGD(tensors, weight_decay=0.01), start(), set_more=follow)
    assert far(found, oracles.rmsprop_to_sgd(start(), slope, STEPS, rate, share, decay=0.01)) < 1e-12
    assert far(found, oracles.rmsprop_to_sgd(start(), slope, STEPS, rate, lambda _: 1.0, decay=0.01)) > 1e-3
    ended = played(lambda tensors: RMSpropToSGD(tensors, share=1.0), start())
    assert far(ended, played(lambda tensors: torch.optim.SGD(tensors, 0.1, momentum=0.9), start())) < 1e-12


def test_the_share_rises_without_a_jump_or_a_kink() -> None:
    shares = [sgd_share(step / 100, 10.0, 5.0) for step in range(2000)]
    assert shares[0] < 0.01 and sgd_share(10.0) == 0.5 and sgd_share(12.5) == 1.0 == shares[-1]
    rises = np.diff(shares)
    assert rises.min() >= 0 and np.abs(np.diff(rises[:1249])).max() < 1e-4


@pytest.mark.parametrize("make", [LARS, LAMB, RMSpropToSGD, VelocitySGD])
@pytest.mark.parametrize("zero", ["weights", "gradients", "both"])
def test_zeros_step_to_numbers(make: Callable[..., torch.optim.Optimizer], zero: str) -> None:
    w = torch.zeros(3, 2) if zero in ("weights", "both") else torch.ones(3, 2)
    p = torch.nn.Parameter(w)
    more = {"eps": 0.0} if make is LARS else {}
    optimizer = make([p], lr=0.1, **more)
    for _ in range(3):
        p.grad = torch.zeros_like(p) if zero in ("gradients", "both") else torch.ones_like(p)
        optimizer.step()
    assert p.isfinite().all()
    if zero == "weights":
        assert (p < 0).all(), "a tensor of zeros is stepped with the rate alone"
    if zero == "both":
        assert (p == 0).all()


@pytest.mark.parametrize("scale", [1e-6, 1e-2, 1e3, 1e6])
def test_lars_does_not_know_the_scale_of_gradients(scale: float) -> None:
    """C57: with neither decay nor eps."""
    matrices = [each for each in start() if each.ndim > 1]
    one, other = (
        played(lambda tensors: LARS(tensors, eps=0.0), matrices, lambda w, by=by: [by * g for g in slope(w)])  # type: ignore[misc]
        for by in (1.0, scale)
    )
    assert far(one, other) / np.abs(one[0]).max() < 1e-5
    decayed = played(
        lambda tensors: LARS(tensors, eps=0.0, weight_decay=0.5), matrices, lambda w: [scale * g for g in slope(w)]
    )
    assert far(one, decayed) > 1e-5 or scale > 1, "decay is of no weight beside large gradients alone"


@pytest.mark.parametrize("make", [LARS, LAMB, RMSpropToSGD, VelocitySGD])
def test_states_go_through_a_checkpoint(make: Callable[..., torch.optim.Optimizer]) -> None:
    def tensors() -> list[Tensor]:
        return [torch.tensor(each, requires_grad=True) for each in start()]

    mine, theirs = tensors(), tensors()
    first, second = make(mine, lr=0.01), make(theirs, lr=0.01)
    for step in range(6):
        if step == 3:
            with torch.no_grad():
                for a, b in zip(mine, theirs, strict=True):
                    b.copy_(a)
            second.load_state_dict(copy.deepcopy(first.state_dict()))
        for optimizer, held in ((first, mine), (second, theirs)) if step >= 3 else ((first, mine),):
            for t, g in zip(held, slope([t.detach().numpy() for t in held]), strict=True):
                t.grad = torch.tensor(g)
            optimizer.step()
    assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))


@pytest.mark.parametrize("make", [LARS, LAMB, RMSpropToSGD, VelocitySGD])
def test_numbers_that_cannot_be_are_refused(make: Callable[..., torch.optim.Optimizer]) -> None:
    p = torch.nn.Parameter(torch.ones(2, 2))
    for wrong in ({"lr": -1.0}, {"weight_decay": 2.0}, {"lr": float("nan")}):
        with pytest.raises(Refused, match=f"{make.__name__}: "):
            make([p], **wrong)


@pytest.mark.parametrize("make", [LARS, LAMB])
def test_weights_of_16_bits_are_refused(make: Callable[..., torch.optim.Optimizer]) -> None:
    p = torch.nn.Parameter(torch.ones(2, 2, dtype=torch.bfloat16))
    p.grad = torch.ones_like(p)
    with pytest.raises(Refused, match=f"{make.__name__}: a weight is torch.bfloat16"):
        make([p]).step()


def test_groups_and_tensors_without_gradient() -> None:
    a, b = torch.nn.Parameter(torch.ones(2, 2)), torch.nn.Parameter(torch.ones(3, 3))
    optimizer = LARS([{"params": [a], "lr": 0.5}, {"params": [b], "vectors": True}], lr=0.1)
    a.grad = torch.ones_like(a)
    optimizer.step()
    assert (a != 1).all() and (b == 1).all()


@pytest.mark.parametrize(
    ("make", "more"),
    [
        (VelocitySGD, {}),
        (VelocitySGD, {"corrected": False, "weight_decay": 0.01}),
        *((RMSpropToSGD, {"share": share, "weight_decay": 0.01}) for share in (0.0, 0.5, 1.0)),
    ],
)
def test_all_at_once_is_one_by_one_to_the_bit(make: Callable[..., Any], more: dict[str, Any]) -> None:
    one, other = (played(lambda held, f=f: make(held, foreach=f, **more), start()) for f in (False, True))  # type: ignore[misc]
    assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize("make", [LARS, LAMB, RMSpropToSGD, VelocitySGD])
def test_more_tensors_are_not_more_calls(make: Callable[..., torch.optim.Optimizer]) -> None:
    def calls(count: int) -> int:
        held = [torch.nn.Parameter(torch.ones(2, 2)) for _ in range(count)]
        optimizer = make(held, **({} if make in (LARS, LAMB) else {"foreach": True}))
        for _ in range(2):
            for p in held:
                p.grad = torch.ones_like(p)
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
                optimizer.step()
        return sum(event.name.startswith("aten::_foreach") for event in seen.events())

    assert calls(2) == calls(20) > 0
