"""save, load and averaged in a world of one: several models, tied tensors, other things beside, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import gossamer
from gossamer.engine.checkpoint import load
from gossamer.engine.loop.checkpoints import differs


class Tied(nn.Module):
    """Two layers that share one weight, and a buffer that no state_dict holds."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
        self.second.weight = self.first.weight
        self.register_buffer("seen", torch.zeros(1), persistent=False)

    def forward(self, given: Tensor) -> Tensor:
        self.seen += 1
        return self.second(self.first(given).relu())


def made(seed: int) -> list[Any]:
    """Two models with an optimizer each, and a scaler."""
    torch.manual_seed(seed)
    models = [Tied(), nn.Sequential(nn.Linear(3, 2), nn.Linear(2, 1)).to(torch.float64)]
    optimizers = [
        torch.optim.SGD(models[0].parameters(), lr=0.1, momentum=0.9),
        torch.optim.AdamW(models[1].parameters()),
    ]
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0 ** (seed + 3))
    return [*gossamer.prepare(*models, *optimizers), scaler]


def stepped(given: list[Any], times: int) -> None:
    for _ in range(times):
        for model, optimizer in zip(given[:2], given[2:4], strict=True):
            optimizer.zero_grad()
            model(torch.randn(4, 3, dtype=next(model.parameters()).dtype)).square().sum().backward()
            optimizer.step()


def numbers(given: list[Any]) -> list[Tensor]:
    """All that a loop has come to."""
    found = [tensor for model in given[:2] for tensor in (*model.parameters(), *model.buffers())]
    states = [state for optimizer in given[2:4] for state in optimizer.state.values()]
    return [*found, *(value for state in states for value in state.values() if isinstance(value, Tensor))]


def test_several_models_and_optimizers_go_on_to_the_bit(tmp_path: Path) -> None:
    one, other = made(1), made(2)
    stepped(one, 3)
    assert gossamer.save(tmp_path, *one, extra={"best": (1, 2.5)}) == tmp_path / "step-3"
    stepped(one, 2)
    stepped(other, 1)
    assert gossamer.load(tmp_path, *other) == gossamer.Loaded(3, {"best": (1, 2.5)})
    stepped(other, 2)
    assert len(numbers(one)) == len(numbers(other)) > 20
    assert all(torch.equal(a, b) for a, b in zip(numbers(one), numbers(other), strict=True))
    assert other[4].get_scale() == 16.0


def test_files_have_plain_names_and_load_plainly(tmp_path: Path) -> None:
    given = made(1)
    stepped(given, 2)
    gossamer.save(tmp_path, *given)
    fresh = Tied()
    fresh.load_state_dict(load_file(tmp_path / "step-2" / "model.safetensors"))
    assert torch.equal(fresh.second.weight, given[0].first.weight)
    assert sorted(load_file(tmp_path / "step-2" / "model-1.safetensors")) == [
        "0.bias",
        "0.weight",
        "1.bias",
        "1.weight",
    ]
    state = load(tmp_path).tree("optimizer-1")["state"]
    assert torch.equal(state["1.0.weight"]["exp_avg"], given[3].state[given[1][0].weight]["exp_avg"])


def test_the_newest_are_kept_and_none_is_a_beginning(tmp_path: Path) -> None:
    given = made(1)
    assert gossamer.load(tmp_path / "none", *given, start=True) == gossamer.Loaded(0, {})
    for step in range(1, 5):
        gossamer.save(tmp_path, *given, step=step, keep=3)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["step-2", "step-3", "step-4"]
    assert gossamer.load(tmp_path, *given, step=2).step == 2


def test_what_cannot_be_saved_or_loaded_says_why(tmp_path: Path) -> None:
    given = made(1)
    with pytest.raises(gossamer.Refused, match="no prepared model was given"):
        gossamer.save(tmp_path, nn.Linear(1, 1))
    with pytest.raises(gossamer.Refused, match="2 models were prepared together"):
        gossamer.save(tmp_path, *given[1:])
    with pytest.raises(gossamer.Refused, match="a object has no state_dict"):
        gossamer.save(tmp_path, *given, object())
    with pytest.raises(gossamer.Refused, match="holds no checkpoint"):
        gossamer.load(tmp_path, *given)
    with pytest.raises(gossamer.Refused, match="step must be from 0"):
        gossamer.save(tmp_path, *given, step=-1)
    assert not any(tmp_path.iterdir())


def test_alone_the_average_is_the_model_itself() -> None:
    model, *_ = given = made(1)
    before = [tensor.clone() for tensor in numbers(given)]
    with gossamer.averaged(model):
        assert torch.equal(model.first.weight, before[0])
    assert all(torch.equal(a, b) for a, b in zip(numbers(given), before, strict=True))


FACTS = {"strategy": "Exchange()", "seed": 0, "optimizers": ["SGD"], "things": [], "tensors": [["w", "2 float32"]]}


@pytest.mark.parametrize(
    ("here", "said"),
    [
        ({}, None),
        ({"seed": 1}, "seed is 0 there, 1 here"),
        ({"optimizers": ["Adam"]}, "optimizers is ['SGD'] there, ['Adam'] here"),
        ({"same": {"task": "idx"}}, "task is 'digits' there, 'idx' here"),
        ({"tensors": [["w", "3 float32"]]}, "parameter w is 2 float32 there, w is 3 float32 here"),
        ({"tensors": [["w", "2 float32"]] * 2}, "its model has 1 parameters that train, this one 2"),
    ],
)
def test_what_differs_is_named(here: dict[str, Any], said: str | None) -> None:
    there = {**FACTS, "same": {"task": "digits"}}
    assert differs(there, {**there, **here}) == said
