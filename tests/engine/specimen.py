"""A small checkpoint of two members, for tests that damage it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from gossamer.engine.checkpoint import Draft


def write(root: Path, step: int, facts: dict[str, Any] | None = None, keep: int = 2, size: int = 5) -> Path:
    """Save a checkpoint whose every number is its step, or the fact `value`."""
    first, second, facts = Draft.begin(root, step, 0), Draft.begin(root, step, 1), facts or {}
    value = facts.get("value", step)
    digests = {"model": first.put("model", {"layer.weight": torch.full((size, 2), float(value))})}
    for draft in (first, second):
        name = f"member-{draft.member}"
        digests[name] = draft.put_tree(name, {"x": torch.full((size,), value), "member": draft.member, 0: (value,)})
    return first.seal({"step": step, **facts}, digests, keep)
