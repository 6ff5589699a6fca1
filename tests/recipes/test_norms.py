"""Norms and biases: which decay, which begin at zero, and statistics of all batches instead of moving averages."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from gossamer.engine.norms import SharedBatchNorm, shared_norms
from gossamer.parts.refusal import Refused
from gossamer.recipes import decayed, fresh_statistics, zero_last_gamma
from gossamer.recipes.norms import parts_called


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.second = nn.BatchNorm1d(width), nn.BatchNorm1d(width)
        self.inner = nn.Sequential(nn.Linear(width, width), self.first, nn.ReLU(), nn.Linear(width, width), self.second)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = x + self.inner(x)
        return found


def test_biases_and_norms_do_not_decay() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm((2, 2)), nn.Conv1d(2, 2, 1), nn.BatchNorm1d(2))
    rest, bare = decayed(model, 0.1)
    assert [p.shape for p in rest["params"]] == [(4, 3), (2, 2, 1)] and rest["weight_decay"] == 0.1
    assert len(bare["params"]) == 6 and bare["weight_decay"] == 0.0  # the layer norm's are matrices
    optimizer = torch.optim.SGD(decayed(model, 0.1), lr=1.0)
    before = [p.detach().clone() for p in model.parameters()]
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    moved = [not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True)]
    assert moved == [True, False, False, False, True, False, False, False]


def test_a_block_whose_last_gamma_is_zero_is_the_identity() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(Block(4), Block(4))
    x = torch.randn(8, 4)
    assert not torch.equal(model(x), x)
    assert zero_last_gamma(m for m in model.modules() if isinstance(m, Block)) == 2
    assert torch.equal(model(x), x)
    assert (model[0].first.weight == 1).all() and (model[0].second.weight == 0).all()


def test_a_norm_of_the_shortcut_is_not_the_last_one() -> None:
    """As in torchvision's blocks, whose `downsample` comes after all else."""
    block = Block(4)
    block.downsample = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    assert parts_called(nn.Sequential(block), "Block") == [block] and zero_last_gamma([block]) == 1
    assert (block.second.weight == 0).all() and (block.downsample[1].weight == 1).all()
    with pytest.raises(Refused, match="no part 'Linear' with a norm in it; nearest that works: Block"):
        parts_called(nn.Sequential(block), "Linear")


def test_statistics_are_those_of_the_batches() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.BatchNorm1d(3))
    for _ in range(5):
        model(torch.randn(16, 3) * 9 + 4)
    old = [each.clone() for each in model.buffers()]
    batches = list(torch.randn(4, 32, 3) * 2 + 1)
    with fresh_statistics(model, batches):
        norm = model[0]
        assert torch.allclose(norm.running_mean, torch.stack([b.mean(0) for b in batches]).mean(0), atol=1e-6)
        assert torch.allclose(norm.running_var, torch.stack([b.var(0) for b in batches]).mean(0), atol=1e-5)
    assert all(torch.equal(a, b) for a, b in zip(old, model.buffers(), strict=True)) and model[0].momentum == 0.1
    assert model.training


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(Refused, match="no batch norm"), fresh_statistics(nn.Linear(2, 2), [torch.ones(2, 2)]):
        pass
    model = nn.BatchNorm1d(2)
    with pytest.raises(Refused, match="no batch to take them from"), fresh_statistics(model, []):
        pass
    assert model.momentum == 0.1


def test_a_forward_that_fails_leaves_the_model_as_it_was() -> None:
    model = nn.BatchNorm1d(2).eval()
    with (
        pytest.raises(ValueError, match="no"),
        fresh_statistics(model, [1], lambda *_: (_ for _ in ()).throw(ValueError("no"))),
    ):
        pass
    assert model.momentum == 0.1 and not model.training and (model.running_var == 1).all()


def test_a_shared_norm_keeps_type_and_what_is_frozen() -> None:
    model = nn.Sequential(nn.BatchNorm1d(2)).double()
    model[0].weight.requires_grad_(False)
    made = shared_norms(model)
    assert made[0].weight.dtype == torch.float64 and not made[0].weight.requires_grad and made[0].bias.requires_grad


def test_alone_a_shared_norm_is_the_usual_one() -> None:
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Conv2d(2, 3, 1), nn.BatchNorm2d(3), nn.Sequential(nn.BatchNorm2d(3)))
    x = torch.randn(4, 2, 5, 5)
    wanted = plain(x)
    import copy

    shared = shared_norms(copy.deepcopy(plain))
    assert isinstance(shared[1], SharedBatchNorm) and isinstance(shared[2][0], SharedBatchNorm)
    assert torch.allclose(shared(x), wanted)
    assert list(shared.state_dict()) == list(plain.state_dict())
