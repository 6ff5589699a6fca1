"""The examples of the pages in docs/ run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
BLOCKS = re.findall(r"## (\w+)\n\n```python\n(.*?)```", (DOCS / "recipes.md").read_text(), re.S)
OTHERS = [
    (f"{page}-{number}", code)
    for page in ("simulation",)
    for number, code in enumerate(re.findall(r"```python\n(.*?)```", (DOCS / f"{page}.md").read_text(), re.S))
]
ALL = [*BLOCKS, *OTHERS]


@pytest.mark.parametrize(("title", "code"), ALL, ids=[title for title, _ in ALL])
def test_it_runs(title: str, code: str) -> None:
    exec(compile(code, title, "exec"), {})


def test_every_piece_has_one() -> None:
    pieces = ["Rates", "Batches", "Optimizers", "Norms", "Precision", "Scaler", "Masters", "Clipping", "Noise"]
    assert [title for title, _ in BLOCKS] == pieces
    assert OTHERS
