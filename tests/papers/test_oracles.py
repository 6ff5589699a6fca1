"""The oracles themselves: they import nothing of ours, no entry is without one, and their gradient is the gradient."""

from __future__ import annotations

import ast
import inspect
import sys

import numpy as np
import pytest
import torch
from tests.papers import codec_oracles, oracles, relaxed_oracles, route_oracles
from tests.papers.problem import gap, given, squared, start, tiny

from gossamer.strategy import CATALOG
from gossamer.strategy.catalog import OURS

BOOKS = (oracles, route_oracles, relaxed_oracles, codec_oracles)


def rooms(source: str) -> set[str]:
    """The top packages a source imports, by statement or by calling for them."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {name.name.split(".")[0] for name in node.names}
        elif isinstance(node, ast.ImportFrom):
            other_book = node.module == oracles.__name__  # which is looked at as well
            found.add("numpy" if other_book else "." if node.level else (node.module or "").split(".")[0])
        elif isinstance(node, ast.Name) and node.id in {"__import__", "importlib", "exec", "eval"}:
            found.add(node.id)
    return found


def allowed(source: str) -> bool:
    return rooms(source) <= {"numpy", *sys.stdlib_module_names} - {"importlib"}


@pytest.mark.parametrize("module", BOOKS, ids=lambda module: module.__name__)
def test_oracles_import_only_numpy_and_the_standard_library(module):
    assert allowed(inspect.getsource(module))
    assert "numpy" in rooms(inspect.getsource(module))


@pytest.mark.parametrize(
    "source",
    ["import gossamer", "from gossamer.parts import merge", "def f():\n    import torch.nn", "from . import problem",
     "__import__('gossamer')", "import importlib"],
)  # fmt: skip
def test_an_import_of_ours_would_be_seen(source):
    assert not allowed(source)


def test_every_entry_from_a_paper_has_an_oracle():
    known = {name for book in BOOKS for name in vars(book)}
    assert {entry.name for entry in CATALOG if entry.paper != OURS} <= known


def test_the_oracle_network_is_the_torch_network():
    task, (w, data) = tiny(), given(1, 1)
    assert tuple(tuple(p.shape) for p in task.model.parameters()) == oracles.SHAPES
    value = squared(task.model, tuple(torch.as_tensor(part) for part in data[0][0]))[0]
    slopes = torch.autograd.grad(value, list(task.model.parameters()))
    assert oracles.loss(w, data[0][0]) == pytest.approx(value.item(), abs=1e-14)
    assert gap(torch.cat([slope.reshape(-1) for slope in slopes]), oracles.gradient(w, data[0][0])) < 1e-14


def test_the_gradient_is_the_slope_of_the_loss():
    (w, data), small = given(1, 1), 1e-6
    batch, moves = data[0][0], small * np.eye(len(given(1, 1)[0]))
    slopes = [(oracles.loss(w + move, batch) - oracles.loss(w - move, batch)) / (2 * small) for move in moves]
    assert np.allclose(slopes, oracles.gradient(w, batch), atol=1e-8)
    assert not np.allclose(slopes, 1.001 * oracles.gradient(w, batch), atol=1e-8)


def test_members_start_alike_and_read_different_samples():
    w, data = given(3, 4)
    assert np.array_equal(w, start(tiny()))
    rows = np.concatenate([x for mine in data for x, _ in mine])
    assert len(np.unique(rows, axis=0)) == 3 * 4 * 4
