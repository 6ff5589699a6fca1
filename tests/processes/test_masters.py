"""32-bit masters of a 16-bit model after `prepare` are what is exchanged, stepped and kept; weights are rounded."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from safetensors.torch import load_file
from tests.processes.pool import Member, everywhere
from tests.processes.user import inputs, net
from torch import Tensor, nn
from torch.optim.lr_scheduler import StepLR

import gossamer
from gossamer.recipes import Master, Precision, decayed

EXCHANGES = (
    "allreduce",
    "allreduce(sharded)",
    "local_sgd(every=2)",
    "Exchange(payload=DELTAS, synchrony=Synchrony(every=2))",
    "parameter_server",
)
ALIKE = (
    *EXCHANGES,
    "diloco(every=3)",
    "dpsgd",
    "easgd(every=2)",
    "one_bit(where=Matrices(0))",
    "Exchange(synchrony=Synchrony(delay=1))",
    "Exchange(PARAMETERS, merge=Elastic(lookahead=0.9), order=BEFORE, topology=Hub(), synchrony=Synchrony(every=2))",
)


def sgd(held: list[Tensor], momentum: float = 0.9) -> torch.optim.Optimizer:
    return torch.optim.SGD(held, lr=0.1, momentum=momentum)


def flat(tensors: list[Tensor]) -> Tensor:
    return torch.cat([tensor.detach().flatten().float() for tensor in tensors])


def masters(optimizer: Master) -> Tensor:
    return flat([master for _, master in optimizer.pairs])


@everywhere(worlds=(2,), kind=("bfloat16", "float16"), strategy=EXCHANGES)
def test_small_updates_survive(member: Member, kind: str, strategy: str) -> None:
    """w = 1, and a step of 1e-4 on the mean that each member sees another part of; 16 bits alone stay at 1."""
    model, bare = (nn.Linear(64, 1, bias=False).to(getattr(torch, kind)) for _ in range(2))
    for each in (model, bare):
        nn.init.ones_(each.weight)
    optimizer = Master(model.parameters(), lambda held: torch.optim.SGD(held, lr=1e-4))
    plain = torch.optim.SGD(bare.parameters(), lr=1e-4)
    member.prepare(model, optimizer, strategy=strategy)
    mine = 0.5 + member.rank  # 1 on the mean
    for _ in range(100):
        for each, stepper in ((model, optimizer), (bare, plain)):
            stepper.zero_grad()
            (each(torch.ones(1, 64, dtype=each.weight.dtype)).float().sum() * mine).backward()
            stepper.step()
    assert (masters(optimizer) - 0.99).abs().max() < 1e-5
    assert torch.equal(model.weight, torch.full_like(model.weight, 0.99))
    assert (bare.weight == 1).all()
    member.same(masters(optimizer))


@everywhere(worlds=(2,), strategy=("gossip_pull", "gossip_push", "adpsgd", "hogwild", "ssp(2)"))
def test_small_updates_survive_where_nobody_waits(member: Member, strategy: str) -> None:
    """A hub steps with every gradient, or its share. Where parameters are mixed, as long as nobody waits, a member has
    taken all its own steps and at most the other's, and may have heard no more than how the other began."""
    model = nn.Linear(64, 1, bias=False).bfloat16()
    nn.init.ones_(model.weight)
    optimizer = Master(model.parameters(), lambda held: torch.optim.SGD(held, lr=1e-4))
    member.prepare(model, optimizer, strategy=strategy)
    for _ in range(100):
        optimizer.zero_grad()
        model(torch.ones(1, 64).bfloat16()).float().sum().backward()
        optimizer.step()
    with gossamer.averaged(model):
        mean = masters(optimizer).mean()
        assert torch.equal(flat(list(model.parameters())), masters(optimizer).bfloat16().float())
    if wanted := {"hogwild": 0.98, "ssp(2)": 0.99}.get(strategy):
        assert abs(float(mean) - wanted) < 1e-5
    else:
        assert 0.98 - 1e-5 < float(mean) < 0.998  # 16 bits alone stay at 1


@everywhere(worlds=(2, 3), strategy=ALIKE)
def test_masters_of_32_bits_are_the_weights_themselves(member: Member, strategy: str) -> None:
    """With nothing to round, a run is that of the optimizer within, to the bit: whatever is exchanged, and how."""
    found = []
    for wrapped in (False, True):
        model = net(torch.float32)
        momentum = 0.0 if "lookahead" in strategy else 0.9
        params = list(model.parameters())
        optimizer = Master(params, lambda held, m=momentum: sgd(held, m)) if wrapped else sgd(params, momentum)
        rates = StepLR(optimizer, 2, 0.5)
        member.prepare(model, optimizer, rates, strategy=strategy)
        for step in range(6):
            optimizer.zero_grad()
            model(inputs(member.rank, step)).square().mean().backward()
            if "Synchrony(delay" not in strategy:
                nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            rates.step()
        with gossamer.averaged(model):
            mean = flat(params)
        found.append((mean, flat(params)))
    for plain, mastered in zip(*found, strict=True):
        assert torch.equal(plain, mastered)


@everywhere(worlds=(2,), strategy=("allreduce", "local_sgd(every=2)"))
def test_a_master_follows_whoever_writes_to_its_weight(member: Member, strategy: str) -> None:
    model = nn.Linear(4, 1, bias=False).bfloat16()
    nn.init.ones_(model.weight)
    optimizer = Master(model.parameters(), lambda held: torch.optim.SGD(held, lr=1e-4))
    member.prepare(model, optimizer, strategy=strategy)

    def step() -> None:
        optimizer.zero_grad()
        model(torch.ones(1, 4).bfloat16()).float().sum().backward()
        optimizer.step()

    step()
    with torch.no_grad():
        model.weight[0, 0] = 3.0
        model.weight[0, 1].mul_(1.0)  # written to, and still what its master rounds to
    step()
    wanted = torch.tensor([3.0 - 1e-4, *[1.0 - 2e-4] * 3])
    assert torch.allclose(masters(optimizer), wanted, rtol=0.0, atol=2e-7)
    with torch.no_grad():
        model.weight[0, 0] = 2.0
    with gossamer.averaged(model):
        assert model.weight[0, 0] == 2.0
    assert model.weight[0, 0] == 2.0


@everywhere(worlds=(2,), strategy=("local_sgd(every=4)",))
def test_an_average_is_that_of_the_masters(member: Member, strategy: str) -> None:
    model = net(torch.bfloat16)
    optimizer = Master(model.parameters(), sgd)
    member.prepare(model, optimizer, strategy=strategy)
    for step in range(3):  # no exchange has come yet: all differ
        optimizer.zero_grad()
        model(inputs(member.rank, step, torch.bfloat16)).square().mean().backward()
        optimizer.step()
    mine, weights = masters(optimizer), flat(list(model.parameters()))
    assert torch.equal(weights, mine.bfloat16().float()) and not torch.equal(weights, mine)
    mean = mine.clone()
    dist.all_reduce(mean)
    with gossamer.averaged(model):
        assert torch.equal(flat(list(model.parameters())), (mean / 2).bfloat16().float())
    assert torch.equal(flat(list(model.parameters())), weights) and torch.equal(masters(optimizer), mine)


@everywhere(worlds=(2,), strategy=("allreduce", "allreduce(sharded)", "local_sgd(every=2)", "parameter_server"))
def test_checkpoints_keep_masters(member: Member, strategy: str) -> None:
    """Saved after three steps and loaded into another model, a run goes on to the bit; rates go on, too."""
    home, ends = Path(tempfile.gettempdir()) / f"masters-{os.getppid()}-{strategy}-{member.fabric}", []
    for resumed in (False, True):
        model = net(torch.bfloat16)
        optimizer = Master(model.parameters(), sgd)
        rates = StepLR(optimizer, 2, 0.5)
        member.prepare(model, optimizer, rates, strategy=strategy)
        if resumed:
            assert gossamer.load(home, model, optimizer, rates).step == 3
            assert optimizer.param_groups[0]["lr"] == 0.05
        for step in range(3 if resumed else 0, 7):
            optimizer.zero_grad()
            model(inputs(member.rank, step, torch.bfloat16)).square().mean().backward()
            optimizer.step()
            rates.step()
            if step == 2 and not resumed:
                gossamer.save(home, model, optimizer, rates)
        ends.append((masters(optimizer), flat(list(model.parameters()))))
    for whole, again in zip(*ends, strict=True):
        assert torch.equal(whole, again)
    if member.rank == 0:
        kept = load_file(home / "step-3" / "model.safetensors")
        assert {value.dtype for value in kept.values()} == {torch.float32}
        net(torch.bfloat16).load_state_dict(kept)
        shutil.rmtree(home)


@everywhere(worlds=(2,), strategy=("allreduce", "local_sgd(every=2)", "strom(threshold=1e-6, where=Matrices(0))"))
def test_masters_under_a_scaler(member: Member, strategy: str) -> None:
    """Gradients below what fp16 can hold are scaled into it, and the scale comes off in 32 bits."""
    model = nn.Linear(64, 1, bias=False).half()
    nn.init.ones_(model.weight)
    optimizer = Master(model.parameters(), lambda held: torch.optim.SGD(held, lr=2.0**10))
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16)
    member.prepare(model, optimizer, scaler, strategy=strategy)
    small, x = (1.0 + member.rank) * 2.0**-26, torch.ones(1, 64).half()  # 1.5 on the mean
    for step in range(8):
        optimizer.zero_grad()
        loss = model(x).float().sum() * small
        scaler.scale(loss * float("inf") if step == 3 and member.rank == 1 else loss).backward()
        scaler.step(optimizer)
        scaler.update()
    if strategy.startswith("local"):  # who saw it skips alone
        assert torch.isfinite(masters(optimizer)).all()
        return
    taken = 7 if strategy == "allreduce" else 0
    assert (masters(optimizer) - (1.0 - taken * 1.5 * 2.0**-16)).abs().max() < 1e-6
    assert scaler.get_scale() == 2.0**15
    member.same(masters(optimizer))


@everywhere(worlds=(2,), strategy=(*EXCHANGES[:3], "parameter_server"))
def test_masters_are_clipped_in_32_bits_under_a_scaler(member: Member, strategy: str) -> None:
    """In groups of their own: what is left in masters' gradients is stepped with, and no scale comes off again."""
    model = nn.Linear(4, 1).half()
    for p in model.parameters():
        nn.init.zeros_(p)
    optimizer = Master(decayed(model, 0.0), lambda held: torch.optim.SGD(held, lr=1.0))
    scaler = Precision("fp16", 2.0**10).scaler(torch.device("cpu"))
    member.prepare(model, optimizer, scaler, strategy=strategy)
    for _ in range(2):
        optimizer.zero_grad()
        scaler.backward(model(torch.ones(1, 4).half()).float().sum())
        scaler.unscale(optimizer)
        assert abs(float(nn.utils.clip_grad_norm_(optimizer.masters, 0.1)) - 5**0.5) < 1e-3
        scaler.step(optimizer)
    assert (masters(optimizer) + 0.2 / 5**0.5).abs().max() < 1e-6
    assert torch.equal(flat(list(model.parameters())), masters(optimizer).half().float())


class Two(nn.Module):
    """Two parts, either of which may be left out."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.one, self.two = nn.Linear(5, 2), nn.Linear(5, 2)

    def forward(self, x: Tensor, which: int) -> Tensor:
        found: Tensor = (self.one if which == 1 else self.two)(x)
        return found


@everywhere(worlds=(2,), strategy=("allreduce", "local_sgd(every=2)"))
def test_gradients_gather_and_are_not_kept_for_the_next_step(member: Member, strategy: str) -> None:
    """A part that only an earlier backward used counts; one that no backward of this step used has no gradient."""
    ends = []
    for wrapped in (False, True):
        model = Two()
        params = list(model.parameters())
        optimizer = Master(params, sgd) if wrapped else sgd(params)
        member.prepare(model, optimizer, strategy=strategy)
        for step in range(4):
            optimizer.zero_grad()
            if step % 2:
                with model.no_sync():
                    model(inputs(member.rank, step), 2).square().mean().backward()
            model(inputs(member.rank, step + 9), 1).square().mean().backward()
            optimizer.step()
            ends.append(flat(params))
    for plain, mastered in zip(ends[:4], ends[4:], strict=True):
        assert torch.equal(plain, mastered)
