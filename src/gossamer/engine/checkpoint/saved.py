"""Checkpoints read back: everything is verified before anything is used. Knows no strategy and no model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load as tensors_of
from torch import Tensor

from gossamer.engine.checkpoint.draft import TREE
from gossamer.engine.checkpoint.manifest import BadCheckpoint, Manifest
from gossamer.engine.checkpoint.names import MANIFEST, SUFFIX, file_of, folder_of, step_of, steps
from gossamer.engine.checkpoint.unpack import unpack
from gossamer.engine.checkpoint.verify import contents, verify


@dataclass(frozen=True)
class Saved:
    """A verified checkpoint; `skipped` says which newer ones were passed over, and why."""

    folder: Path
    manifest: Manifest
    skipped: list[str] = field(default_factory=list)

    @property
    def step(self) -> int:
        """The step it was saved at."""
        return self.manifest.step

    @property
    def facts(self) -> dict[str, Any]:
        """What its writer sealed beside the files."""
        return self.manifest.facts

    @property
    def names(self) -> list[str]:
        """The names of its files, without suffix."""
        return [name.removesuffix(SUFFIX) for name in self.manifest.files]

    def tensors(self, name: str) -> dict[str, Tensor]:
        """The tensors of one file, on the CPU, decoded from bytes that were hashed once more after they were read."""
        file = file_of(name)
        if file not in self.manifest.files:
            raise BadCheckpoint(f"{self.folder} holds no {file}", f"one of {', '.join(self.names)}")
        data = contents(self.folder, file, self.manifest)
        try:
            return tensors_of(data)
        except (SafetensorError, KeyError, ValueError, RuntimeError) as error:
            raise BadCheckpoint(f"{self.folder / file} is sealed, but no safetensors file: {error}") from error

    def tree(self, name: str) -> Any:
        """The tree that `put_tree` wrote."""
        tensors = self.tensors(name)
        if TREE not in tensors:
            raise BadCheckpoint(f"{self.folder / file_of(name)} holds tensors, but no tree", "tensors(name)")
        try:
            plain = json.loads(tensors.pop(TREE).numpy().tobytes())
        except (ValueError, TypeError, RecursionError) as error:
            raise BadCheckpoint(f"{self.folder / file_of(name)} is sealed, but its tree is no JSON: {error}") from error
        return unpack(plain, tensors)


def load(place: Path | str, step: int | None = None, *, fallback: bool = False) -> Saved:
    """The newest checkpoint in `place`, or that of `step`, or `place` itself; every file's sha256 is checked first.

    A bad one is refused with its reason and the newest earlier one that is whole; `fallback` takes that one.
    """
    folders, skipped = _folders(Path(place), step), list[str]()
    for at, folder in enumerate(folders):
        try:
            return Saved(folder, verify(folder), skipped)
        except BadCheckpoint as bad:
            skipped.append(bad.reason)
            if not fallback:
                raise BadCheckpoint(bad.reason, partial(_whole, folders[at + 1 :])) from bad
    raise BadCheckpoint(f"no checkpoint in {place} is whole: {'; '.join(skipped)}")


def _folders(place: Path, step: int | None) -> list[Path]:
    """The checkpoint asked for, then the earlier ones beside it, newest first."""
    if not place.is_dir():
        raise BadCheckpoint(f"there is no folder {place}")
    itself = step is None and (step_of(place) is not None or (place / MANIFEST).exists())
    root, wanted = (place.absolute().parent, step_of(place)) if itself else (place, step)
    there = steps(root)
    if itself:
        return [place, *(folder_of(root, older) for older in reversed(there) if wanted is not None and older < wanted)]
    if not there:
        raise BadCheckpoint(f"{place} holds no checkpoint")
    if step is not None and step not in there:
        raise BadCheckpoint(f"{place} holds no checkpoint of step {step}", f"step {' or '.join(map(str, there))}")
    return [folder_of(root, older) for older in reversed(there) if step is None or older <= step]


def _whole(folders: Sequence[Path]) -> str | None:
    """The first of these that is whole."""
    for folder in folders:
        try:
            verify(folder)
        except BadCheckpoint:
            continue
        return str(folder)
    return None
