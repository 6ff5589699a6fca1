"""Layers of models of text: each tensor's name and sides, and the work a sample makes of it. Knows no torch.

Work is multiply-adds of a forward pass over all words of a sample. Names and order are Hugging Face's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from benchmarks.layers import NORM, Row


def gpt(layers: int, width: int, words: int = 50257, context: int = 1024) -> list[Row]:
    """GPT-2, a sample being `context` words. The head is the embedding again (tied): its work is done before backward
    comes to the last tensor, and so stands there."""
    rows: list[Row] = [("wte.weight", (words, width), 0.0), ("wpe.weight", (context, width), 0.0)]
    for number in range(layers):
        rows += _decoder(f"h.{number}", width, context)
    head = float(context * words * width)
    return [*rows, ("ln_f.weight", (width,), NORM * context * width), ("ln_f.bias", (width,), head)]


def _decoder(name: str, width: int, context: int) -> Iterator[Row]:
    def dense(part: str, inputs: int, out: int, more: float = 0.0) -> Iterator[Row]:
        yield f"{name}.{part}.weight", (inputs, out), float(context * inputs * out) + more
        yield f"{name}.{part}.bias", (out,), float(context * out)

    def norm(part: str) -> Iterator[Row]:
        yield f"{name}.{part}.weight", (width,), NORM * context * width
        yield f"{name}.{part}.bias", (width,), 0.0

    yield from norm("ln_1")
    yield from dense("attn.c_attn", width, 3 * width, 2.0 * context**2 * width)  # scores and what they weigh
    yield from dense("attn.c_proj", width, width)
    yield from norm("ln_2")
    yield from dense("mlp.c_fc", width, 4 * width)
    yield from dense("mlp.c_proj", 4 * width, width)


def halves(rows: Sequence[Row]) -> list[Row]:
    """The same with the tensors of each half of a block (attention, mlp) as one: for models of a thousand tensors."""
    found: dict[str, tuple[int, float]] = {}
    for name, sides, work in rows:
        parts = name.split(".")
        one = f"h.{parts[1]}.{'attn' if parts[2] in ('ln_1', 'attn') else 'mlp'}" if parts[0] == "h" else name
        count, before = found.get(one, (0, 0.0))
        found[one] = (count + prod(sides), before + work)
    whole = {name: sides for name, sides, _ in rows}
    return [(name, whole.get(name, (count,)), work) for name, (count, work) in found.items()]


def bert(layers: int, width: int, context: int = 384, words: int = 30522) -> list[Row]:
    """BERT with a head that answers questions (SQuAD), a sample being `context` words."""

    def norm(name: str) -> Iterator[Row]:
        yield f"{name}.weight", (width,), NORM * context * width
        yield f"{name}.bias", (width,), 0.0

    def dense(name: str, inputs: int, out: int, more: float = 0.0) -> Iterator[Row]:
        yield f"{name}.weight", (out, inputs), float(context * inputs * out) + more
        yield f"{name}.bias", (out,), float(context * out)

    parts = (("word", words), ("position", 512), ("token_type", 2))
    rows: list[Row] = [(f"bert.embeddings.{part}_embeddings.weight", (count, width), 0.0) for part, count in parts]
    rows += norm("bert.embeddings.LayerNorm")
    for number in range(layers):
        at = f"bert.encoder.layer.{number}"
        rows += dense(f"{at}.attention.self.query", width, width, 2.0 * context**2 * width)
        for part in ("self.key", "self.value", "output.dense"):
            rows += dense(f"{at}.attention.{part}", width, width)
        rows += norm(f"{at}.attention.output.LayerNorm")
        rows += dense(f"{at}.intermediate.dense", width, 4 * width)
        rows += dense(f"{at}.output.dense", 4 * width, width)
        rows += norm(f"{at}.output.LayerNorm")
    return [*rows, *dense("qa_outputs", width, 2)]
