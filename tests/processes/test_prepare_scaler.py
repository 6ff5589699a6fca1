"""torch's own scaler, given to `prepare`: codecs see gradients without its scale, and the loop sees them with it."""

from __future__ import annotations

import pytest
import torch
from tests.processes.pool import Member, everywhere
from tests.processes.user import inputs, net
from torch import Tensor, nn

import gossamer
from gossamer.engine.loop.prepare import session_of
from gossamer.recipes import Precision

MINDING = (
    "strom(threshold=0.01, where=Matrices(0))",
    "one_bit(where=Matrices(0))",
    "Exchange(synchrony=Synchrony(delay=1))",
)


def scaler(first: float, every: int = 2) -> torch.amp.GradScaler:
    return torch.amp.GradScaler("cpu", init_scale=first, growth_interval=every)


def trained(
    member: Member, strategy: str, by: torch.amp.GradScaler | None, clip: bool = False, told: bool = True
) -> list[Tensor]:
    """The parameters, and whatever codecs remember, after some steps in which a scale of the loss changes."""
    model = net(torch.float32)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    given = [model, optimizer, *([by] if by is not None and told else [])]
    assert all(a is b for a, b in zip(member.prepare(*given, strategy=strategy), given, strict=True))
    for step in range(7):
        optimizer.zero_grad()
        loss = model(inputs(member.rank, step)).square().mean()
        (loss if by is None else by.scale(loss)).backward()
        if clip and by is not None:
            by.unscale_(optimizer)
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        if by is None:
            optimizer.step()
        else:
            by.step(optimizer)
            by.update()
    desks = [desk for strand in session_of(model).courses[0].strands for desk in strand.replica.desks]
    kept = [desk.memory[name] for desk in desks for name in sorted(desk.memory)]
    return [nn.utils.parameters_to_vector(model.parameters()).detach(), *kept]


@everywhere(worlds=(2,), strategy=(*MINDING, "allreduce"), clip=(False, True))
def test_codecs_know_nothing_of_the_scale(member: Member, strategy: str, clip: bool) -> None:
    """Powers of two come off and on without rounding: parameters and residuals are those of 32 bits, to the bit."""
    mine = scaler(2.0**10)
    wanted, found = trained(member, strategy, None, clip), trained(member, strategy, mine, clip)
    assert mine.get_scale() == 2.0**13  # seven steps without an overflow; it has changed on the way
    for a, b in zip(wanted, found, strict=True):
        assert torch.allclose(a, b, rtol=1e-6 if clip else 0.0, atol=0.0), strategy


@everywhere(worlds=(2,), fabrics=("shared",))
def test_a_scaler_that_is_not_given_is_seen(member: Member) -> None:
    """As the page says: then a threshold means another thing."""
    wanted, found = (trained(member, MINDING[0], scaler(2.0**10), told=told)[0] for told in (True, False))
    assert not torch.allclose(wanted, found, rtol=1e-3)


@everywhere(worlds=(2,), strategy=("allreduce", "half", "strom(threshold=0.01, where=Matrices(0))"))
def test_the_scale_is_on_in_what_is_handed_out(member: Member, strategy: str) -> None:
    model = net(torch.float32)
    optimizer, by = torch.optim.SGD(model.parameters(), lr=0.2), scaler(2.0**10)
    member.prepare(model, optimizer, by, strategy=strategy)
    by.scale(model(inputs(member.rank, 0)).square().mean()).backward()
    before = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    by.unscale_(optimizer)
    after = [p.grad for p in model.parameters() if p.grad is not None]
    assert len(after) == 4 and max(float(slope.abs().max()) for slope in before) > 4.0
    assert all(torch.equal(a, b * 2.0**10) for a, b in zip(before, after, strict=True))
    by.step(optimizer)


@everywhere(worlds=(2,), fabrics=("shared",), strategy=("allreduce", "half"))
def test_where_the_scale_changes_nothing_nobody_takes_it_off(member: Member, strategy: str) -> None:
    model = net(torch.float32)
    optimizer, by = torch.optim.SGD(model.parameters(), lr=0.2), scaler(2.0**10)
    member.prepare(model, optimizer, by, strategy=strategy)
    (strand,) = session_of(model).courses[0].strands
    strand.multiply = None  # type: ignore[assignment, method-assign]
    by.scale(model(inputs(member.rank, 0)).square().mean()).backward()
    assert strand.scale == 1.0
    by.step(optimizer)


@everywhere(worlds=(4,), strategy=("allreduce", "allreduce(sharded)", "parameter_server", *MINDING[:2]))
def test_an_overflow_on_one_skips_all_four_and_scales_stay_equal(member: Member, strategy: str) -> None:
    model = net(torch.float32)
    optimizer, by = torch.optim.SGD(model.parameters(), lr=0.1), Precision("fp16").scaler(torch.device("cpu"))
    member.prepare(model, optimizer, by, strategy=strategy)
    first, moved = by.scale, []
    for step in range(5):
        before = nn.utils.parameters_to_vector(model.parameters()).detach().clone()
        optimizer.zero_grad()
        loss = model(inputs(member.rank, step)).square().mean()
        by.backward(loss * float("inf") if step == 1 and member.rank == 2 else loss)
        by.step(optimizer)
        moved.append(not torch.equal(before, nn.utils.parameters_to_vector(model.parameters())))
    assert moved == [True, False, True, True, True]
    assert by.scale == first / 2
    member.same(torch.tensor(by.scale))
    member.same(nn.utils.parameters_to_vector(model.parameters()))


@everywhere(worlds=(2,), fabrics=("shared",))
def test_a_hub_sees_no_scale_and_it_comes_off_once(member: Member) -> None:
    found = trained(member, "parameter_server", scaler(2.0**10))[0]
    assert torch.allclose(found, trained(member, "allreduce", None)[0], rtol=1e-4, atol=1e-6)


@everywhere(worlds=(2,), fabrics=("shared",))
def test_what_cannot_be_is_refused(member: Member) -> None:
    model = net(torch.float32)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(gossamer.Refused, match="2 scalers were given"):
        member.prepare(model, optimizer, scaler(8.0), scaler(8.0))
    short = net(torch.float16)
    with pytest.raises(gossamer.Refused, match=r"16-bit gradients are too short.*recipes\.Master"):
        member.prepare(short, torch.optim.SGD(short.parameters(), lr=0.1), scaler(8.0), strategy="one_bit")
