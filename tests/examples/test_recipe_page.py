"""The examples of docs/recipes.md run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "recipes.md").read_text()
BLOCKS = re.findall(r"## (\w+)\n\n```python\n(.*?)```", PAGE, re.S)


@pytest.mark.parametrize(("title", "code"), BLOCKS, ids=[title for title, _ in BLOCKS])
def test_it_runs(title: str, code: str) -> None:
    exec(compile(code, title, "exec"), {})


def test_every_piece_has_one() -> None:
    assert [title for title, _ in BLOCKS] == ["Rates", "Batches", "Optimizers", "Norms", "Precision", "Noise"]
