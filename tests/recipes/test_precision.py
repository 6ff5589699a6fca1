"""Mixed precision: what 16 bits lose and masters, scales and unscaling keep; an overflow skips and halves."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from gossamer.parts.refusal import Refused
from gossamer.recipes import Master, Precision, decayed
from gossamer.recipes.precision import LossScale

CPU = torch.device("cpu")


def test_small_updates_survive() -> None:
    """C64: w = 1, and 1e-4 off it a hundred times; 16 bits alone stay where they are."""
    alone, kept = (nn.Parameter(torch.ones(4, dtype=torch.float16)) for _ in range(2))
    plain = torch.optim.SGD([alone], lr=1e-4)
    master = Master([kept], lambda held: torch.optim.SGD(held, lr=1e-4))
    for _ in range(100):
        for p in (alone, kept):
            p.grad = torch.ones_like(p)
        plain.step()
        master.step()
    assert (alone == 1.0).all()
    assert kept.float().tolist() == pytest.approx([0.99] * 4, abs=5e-4)
    assert master.state[kept]["master"].tolist() == pytest.approx([0.99] * 4, abs=1e-5)


def test_masters_go_through_a_checkpoint_and_follow_rates() -> None:
    def made() -> tuple[nn.Parameter, Master]:
        p = nn.Parameter(torch.ones(4, dtype=torch.float16))
        return p, Master([p], lambda held: torch.optim.SGD(held, lr=1e-4, momentum=0.9))

    (one, first), (other, second) = made(), made()
    for step in range(8):
        if step == 4:
            second.load_state_dict(copy.deepcopy(first.state_dict()))
        for optimizer, p in ((first, one), (second, other)) if step >= 4 else ((first, one),):
            optimizer.param_groups[0]["lr"] = 1e-4 * (step + 1)
            p.grad = torch.ones_like(p)
            optimizer.step()
    assert torch.equal(one, other) and torch.equal(first.state[one]["master"], second.pairs[0][1])


def test_gradients_that_would_vanish_are_recovered() -> None:
    """C66: a gradient below 2^-24 is nothing in 16 bits, and there if the loss was scaled."""
    for scale, there in ((0.0, True), (2.0**14, True), (1.0, False)):
        w = nn.Parameter(torch.ones(2, dtype=torch.float16))
        Precision("fp16", scale).scaler(CPU).backward((w.float() * 2.0**-26).sum())
        assert w.grad is not None and (w.grad != 0).all().item() == there


def test_the_scale_is_off_before_gradients_are_clipped() -> None:
    """C65: clipped to length 1 as they are, not as they were scaled."""
    w = nn.Parameter(torch.zeros(4))
    optimizer = torch.optim.SGD([w], lr=1.0)
    scaler = Precision("fp16", 1024.0).scaler(CPU)
    scaler.backward((w * torch.tensor([0.3, 0.0, 0.0, 0.4])).sum())
    scaler.unscale(optimizer)
    assert float(nn.utils.clip_grad_norm_([w], 1.0)) == pytest.approx(0.5)
    scaler.step(optimizer)
    assert w.tolist() == pytest.approx([-0.3, 0.0, 0.0, -0.4])


@pytest.mark.parametrize("scale", [0.0, 256.0])
def test_an_overflow_skips_the_step_and_keeps_the_state(scale: float) -> None:
    w = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([w], lr=0.1, momentum=0.9)
    scaler = Precision("fp16", scale).scaler(CPU)
    scaler.backward(w.sum())
    scaler.step(optimizer)
    first, held, before = scaler.scale, w.detach().clone(), optimizer.state[w]["momentum_buffer"].clone()
    optimizer.zero_grad()
    scaler.backward((w * float("inf")).sum())
    scaler.step(optimizer)
    assert torch.equal(w, held) and torch.equal(optimizer.state[w]["momentum_buffer"], before)
    assert scaler.scale == (scale or first / 2)


@pytest.mark.parametrize("kind", ["fp32", "bf16", "fp16"])
def test_products_are_short_and_sums_are_wide(kind: str) -> None:
    """C67, and that it trains."""
    torch.manual_seed(0)
    model, precision = nn.Linear(8, 3), Precision(kind)
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.5), precision.scaler(CPU)
    x, y = torch.randn(32, 8), torch.randint(0, 3, (32,))
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        with precision.casting(CPU):
            scores = model(x)
            loss = nn.functional.cross_entropy(scores, y)
        assert scores.dtype == {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[kind]
        assert loss.dtype == torch.float32 and model.weight.dtype == torch.float32
        scaler.backward(loss)
        scaler.step(optimizer)
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0]


def test_a_scale_that_nobody_downstream_sees() -> None:
    """Gradients come out of backward as they are; the scale halves with an overflow and grows after many steps."""
    w = nn.Parameter(torch.ones(2))
    scale = LossScale(Precision("fp16"), [w])
    scale.backward((w * torch.tensor([0.25, 3.0])).sum())
    assert w.grad is not None and w.grad.tolist() == [0.25, 3.0] and scale.scale == 2.0**16
    scale.stepped(overflown=True)
    assert scale.scale == 2.0**15
    for _ in range(2000):
        scale.stepped(overflown=False)
    assert scale.scale == 2.0**16
    again = LossScale(Precision("fp16"), [])
    again.load_state_dict(scale.state_dict())
    assert again.state_dict() == scale.state_dict()
    constant = LossScale(Precision("fp16", 8.0), [])
    constant.stepped(overflown=True)
    assert constant.scale == 8.0 and LossScale(Precision(), [w]).scale == 1.0


@pytest.mark.parametrize(("scale", "nearest"), [(2.0**24, "scale 0, a dynamic one"), (1.0, "bf16, or fp32")])
def test_a_constant_scale_of_which_only_overflows_come_is_named(scale: float, nearest: str) -> None:
    constant = LossScale(Precision("fp16", scale), [])
    for overflown in (*[True] * 9, False, *[True] * 9):
        constant.stepped(overflown=overflown)
    with pytest.raises(Refused, match=f"10 steps in a row.* with scale {scale:.10g}; nearest that works: {nearest}"):
        constant.stepped(overflown=True)
    for precision in (Precision("fp16"), Precision("fp32")):
        free = LossScale(precision, [])
        for _ in range(40):
            free.stepped(overflown=True)


def test_masters_of_a_model_of_16_bits_under_a_scaler() -> None:
    model = nn.Linear(2, 1, bias=False).half()
    nn.init.ones_(model.weight)
    master = Master(model.parameters(), lambda held: torch.optim.SGD(held, lr=1e-4))
    scaler = Precision("fp16", 1024.0).scaler(CPU)
    scaler.backward(model.weight.float().sum() * 0.5)
    scaler.step(master)
    assert master.state[model.weight]["master"].flatten().tolist() == pytest.approx([1 - 5e-5] * 2, abs=1e-7)
    model.weight.grad = torch.full_like(model.weight, float("inf"))
    scaler.backward(model.weight.float().sum() * 0.0)
    scaler.step(master)
    assert master.state[model.weight]["master"].isfinite().all()


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_gradients_of_16_bits_are_clipped_in_32(kind: torch.dtype) -> None:
    """C65 for a model that is 16 bits itself: the scale comes off, and the clip is taken, where the bits are."""
    w = nn.Parameter(torch.zeros(4, dtype=kind))
    master = Master([w], lambda held: torch.optim.SGD(held, lr=1.0))
    scaler = Precision("fp16", 1024.0).scaler(CPU)
    for step in range(2):
        master.zero_grad()
        scaler.backward((w.float() * torch.tensor([0.375, 0.0, 0.0, 0.5])).sum())
        scaler.unscale(master)
        assert float(nn.utils.clip_grad_norm_(master.masters, 0.5)) == pytest.approx(0.625)
        scaler.step(master)
        assert master.masters[0].tolist() == pytest.approx([-0.3 * (step + 1), 0.0, 0.0, -0.4 * (step + 1)], abs=1e-5)
    master.zero_grad()
    scaler.backward((w.float() * float("inf")).sum())
    scaler.unscale(master)
    scaler.step(master)
    assert master.masters[0].tolist() == pytest.approx([-0.6, 0.0, 0.0, -0.8], abs=1e-5) and not master.taken


def test_masters_have_groups() -> None:
    """Each with settings of its own, followed and kept; in whatever order the optimizer within has them."""
    model = nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2)).bfloat16()
    plain = copy.deepcopy(model).float()
    master = Master(decayed(model, 0.1), lambda held: torch.optim.SGD(held, lr=0.1))
    wide = torch.optim.SGD(decayed(plain, 0.1), lr=0.1)
    assert [group["weight_decay"] for group in master.param_groups] == [0.1, 0.0]
    master.param_groups[1]["lr"] = wide.param_groups[1]["lr"] = 0.5
    for each, stepped in ((model, master), (plain, wide)):
        for p in each.parameters():
            p.grad = torch.ones_like(p)
        stepped.step()
    wanted = [p for group in wide.param_groups for p in group["params"]]
    assert all(torch.equal(a, b) for a, b in zip(master.masters, wanted, strict=True))
    again = Master(model.parameters(), lambda held: torch.optim.SGD([{"params": held[::-1]}], lr=0.1))
    assert [p.shape for p in again.param_groups[0]["params"]] == [p.shape for p in [*model.parameters()][::-1]]
    with pytest.raises(Refused, match="does not step what it was given, all of it"):
        Master(model.parameters(), lambda held: torch.optim.SGD(held[1:], lr=0.1))


def test_weights_are_rounded_to_masters_that_are_loaded() -> None:
    model = nn.Linear(2, 2).bfloat16()
    master = Master(decayed(model, 0.1), lambda held: torch.optim.SGD(held, lr=0.1))
    kept = copy.deepcopy(master.state_dict())
    for each in kept["state"].values():
        each["master"] += 1.0
    kept["param_groups"][1]["lr"] = 0.3
    master.load_state_dict(kept)
    assert master.param_groups[1]["lr"] == 0.3
    for number, (p, held) in enumerate(master.pairs):
        assert torch.equal(held, kept["state"][number]["master"]) and torch.equal(p, held.bfloat16())


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(Refused, match="there is no 'fp8'; nearest that works: fp32, bf16, fp16"):
        Precision("fp8")
    with pytest.raises(Refused, match="needs no scale"):
        Precision("bf16", 8.0)
    with pytest.raises(Refused, match="scale must lie"):
        Precision("fp16", -1.0)
