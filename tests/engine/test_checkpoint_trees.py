"""Packed trees: whatever a training loop keeps comes back to the last bit, and training goes on as if never stopped."""

from __future__ import annotations

import json
import math
import random
import struct
from collections import Counter, OrderedDict
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.optim import lr_scheduler

from gossamer.engine.checkpoint import Draft, load, pack, rng_state, set_rng_state, unpack
from gossamer.parts.refusal import Refused


def same(one: Any, other: Any) -> bool:
    """Equal in type, keys, order, shape, layout and every bit."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        pairs = zip(one.items(), other.items(), strict=True) if len(one) == len(other) else [(0, 1)]
        return all(same(a, b) for a, b in pairs)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return struct.pack("d", one) == struct.pack("d", other)
    if isinstance(one, Tensor):
        return (one.dtype, one.shape, paces(one)) == (other.dtype, other.shape, paces(other)) and raw(one) == raw(other)
    if isinstance(one, np.ndarray | np.generic):
        return (one.dtype, one.shape) == (other.dtype, other.shape) and one.tobytes() == other.tobytes()
    return bool(one == other)


def paces(tensor: Tensor) -> list[int]:
    """The strides that mean something."""
    return [pace for pace, size in zip(tensor.stride(), tensor.shape, strict=True) if size > 1 and tensor.numel()]


def raw(tensor: Tensor) -> bytes:
    """The bytes of a tensor of any dtype."""
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def through_disk(tree: Any) -> Any:
    """Put into a checkpoint, sealed, loaded, and read out again."""
    with TemporaryDirectory() as root:
        draft = Draft.begin(Path(root), 0, 0)
        draft.seal({}, {"tree": draft.put_tree("tree", tree)})
        return load(root).tree("tree")


DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool, torch.complex64, torch.complex128]
keys = st.recursive(
    st.text(max_size=5) | st.integers() | st.booleans() | st.none(), lambda inner: st.tuples(inner, inner), max_leaves=3
)
numbers = st.integers() | st.floats() | st.sampled_from([2**63, -(2**63) - 1, -0.0, math.inf, -math.inf])
arrays = st.builds(
    lambda dtype, shape: np.arange(math.prod(shape)).astype(dtype).reshape(shape),
    st.sampled_from(["<f8", ">f4", "uint16", "int8", "c16", "M8[s]"]),
    st.lists(st.integers(0, 3), max_size=3),
)
texts = st.lists(st.text(st.characters(codec="ascii", exclude_characters="\0"), max_size=3)).map(
    lambda words: np.array(words, "U3")
)
tensors = st.builds(
    lambda dtype, shape, turned: (
        torch.randn(shape, dtype=torch.float64).to(dtype).permute(tuple(range(len(shape)))[::turned])
    ),
    st.sampled_from(DTYPES),
    st.lists(st.integers(0, 3), max_size=4),
    st.sampled_from([1, -1]),
)
scalars = st.floats(width=32).map(np.float32) | st.integers(0, 255).map(np.uint8) | st.booleans().map(np.bool_)
leaves = st.none() | st.booleans() | numbers | st.text() | tensors | arrays | texts | scalars
trees = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(keys, inner, max_size=4)
        | st.dictionaries(keys, inner, max_size=3).map(OrderedDict)
        | st.dictionaries(st.integers(), st.integers()).map(Counter)
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(trees)
def test_a_tree_comes_back_to_the_last_bit(tree: Any) -> None:
    plain, tensors = pack(tree)
    assert same(unpack(json.loads(json.dumps(plain, allow_nan=False)), tensors), tree)


def test_keys_that_look_alike_stay_apart() -> None:
    tree = {
        0: "number",
        "0": "text",
        "a.b": torch.ones(1),
        "a": {"b": torch.zeros(1)},
        (0, "x"): 1,
        "__metadata__": torch.ones(2),
    }
    assert same(through_disk(tree), tree)
    assert same(
        through_disk({"\ud800": torch.ones(1), "is": "dict", "of": []}),
        {"\ud800": torch.ones(1), "is": "dict", "of": []},
    )


def test_every_bit_of_a_nan_is_kept() -> None:
    odd = struct.unpack("d", bytes([1, 2, 3, 4, 5, 6, 0xF8, 0x7F]))[0]
    assert same(through_disk([odd, -math.nan, math.nan]), [odd, -math.nan, math.nan])


def test_layouts_views_and_odd_dtypes() -> None:
    image = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    back = through_disk({"image": image})["image"]
    assert back.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(back, image)
    assert torch.equal(through_disk(torch.arange(3).expand(2, 3)), torch.arange(3).expand(2, 3))
    assert torch.equal(through_disk(torch.arange(9)[::3]), torch.tensor([0, 3, 6]))
    turned = torch.tensor([1 + 2j, 3 - 1j]).conj()
    assert torch.equal(through_disk(turned), turned.resolve_conj())
    assert raw(through_disk(torch.tensor([1.0, 4.0]).to(torch.float8_e8m0fnu))) == bytes([127, 129])
    assert type(through_disk(nn.Parameter(torch.ones(2)))) is Tensor


@pytest.mark.parametrize(
    ("tree", "path"),
    [
        ({"a": [1, {"b": object()}]}, "the tree['a'][1]['b'] is a builtins.object"),
        ([torch.ones(2).to_sparse()], "the tree[0] is no plain dense tensor"),
        ({"x": torch.ones(2, device="meta")}, "the tree['x'] is on the meta device"),
        ({"f": {1.5: 0}}, "the tree['f'] has the key 1.5"),
        ({"o": np.array([object()])}, "the tree['o'] is a numpy ndarray of object"),
        ({"s": {1, 2}}, "the tree['s'] is a builtins.set"),
        ((torch.Size([2]),), "the tree[0] is a torch.Size"),
        ([lambda: 0], "the tree[0] is a builtins.function"),
    ],
)
def test_what_is_not_held_is_refused_by_its_path(tree: Any, path: str) -> None:
    with pytest.raises(Refused) as no:
        pack(tree)
    assert path in str(no.value)


def test_a_tree_that_holds_itself_is_refused() -> None:
    tree: list[Any] = []
    tree.append(tree)
    with pytest.raises(Refused, match="holds itself"):
        pack(tree)


@pytest.mark.parametrize(
    "plain",
    [
        {"is": "tensor", "name": "nowhere"},
        {"is": "function", "of": []},
        {"no": "tag"},
        {"is": "dict", "of": [[1]]},
        {"is": "dict", "of": [[[], 1]]},
        {"is": "float", "hex": "00"},
        {"is": "array", "name": "t", "dtype": "O", "shape": [1]},
        {"is": "array", "name": "t", "dtype": "f8", "shape": [2]},
        {"is": "tensor", "name": "t", "dtype": "save", "shape": [1]},
        {"is": "tensor", "name": "t", "dtype": "float64", "shape": [2]},
        {"is": "tensor", "name": "t", "order": [3]},
    ],
)
def test_what_nobody_packed_is_refused(plain: Any) -> None:
    with pytest.raises(Refused, match="not a packed tree"):
        unpack(plain, {"t": torch.zeros(8, dtype=torch.uint8)})


def test_generators_draw_on() -> None:
    random.seed(3)
    np.random.seed(4)
    torch.manual_seed(5)
    np.random.normal(), random.gauss(0.0, 1.0)  # both hold a second draw back
    kept = through_disk(rng_state())
    first = [random.gauss(0.0, 1.0), random.random(), np.random.normal(), np.random.rand(), torch.rand(3)]
    set_rng_state(kept)
    assert same([random.gauss(0.0, 1.0), random.random(), np.random.normal(), np.random.rand(), torch.rand(3)], first)


OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, 0.01, amsgrad=True),
    "adamw": lambda p: torch.optim.AdamW(p, torch.tensor(0.01), foreach=False),
}
SCHEDULERS: dict[str, Callable[[torch.optim.Optimizer], Any]] = {
    "steps": lambda o: lr_scheduler.MultiStepLR(o, [2, 4]),
    "cosine": lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 3),
    "plateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=0),
    "chain": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.LinearLR(o), lr_scheduler.ExponentialLR(o, 0.9)], milestones=[2]
    ),
    "one cycle": lambda o: lr_scheduler.OneCycleLR(o, 0.2, total_steps=20, cycle_momentum=False),
}
INPUTS, TARGETS = torch.randn(8, 3, generator=torch.Generator().manual_seed(0)), torch.arange(8) % 2


class Training:
    """A model in training, with all that a loop keeps."""

    def __init__(self, optimizer: str, scheduler: str) -> None:
        torch.manual_seed(1)
        self.model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.2), nn.Linear(4, 2))
        self.optimizer = OPTIMIZERS[optimizer](self.model.parameters())
        self.scheduler = SCHEDULERS[scheduler](self.optimizer)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=2)

    def parts(self) -> dict[str, Any]:
        return {"model": self.model, "optimizer": self.optimizer, "scheduler": self.scheduler, "scaler": self.scaler}

    def kept(self) -> dict[str, Any]:
        return {**{name: dict(part.state_dict()) for name, part in self.parts().items()}, "rng": rng_state()}

    def resume(self, tree: dict[str, Any]) -> None:
        for name, part in self.parts().items():
            part.load_state_dict(tree[name])
        set_rng_state(tree["rng"])

    def steps(self, count: int) -> None:
        for _ in range(count):
            loss = self._step()
            watched = isinstance(self.scheduler, lr_scheduler.ReduceLROnPlateau)
            self.scheduler.step(loss) if watched else self.scheduler.step()

    def _step(self) -> float:
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(INPUTS), TARGETS)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.item()


@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_training_goes_on_bit_identically(optimizer: str, scheduler: str) -> None:
    whole = Training(optimizer, scheduler)
    whole.steps(3)
    kept = through_disk(whole.kept())
    whole.steps(4)
    after = whole.kept()
    resumed = Training(optimizer, scheduler)
    resumed.resume(kept)
    resumed.steps(4)
    assert same(pack(resumed.kept())[0], pack(after)[0])
    assert same(through_disk(resumed.kept()), through_disk(after))
