"""A checkpoint in the making: a hidden folder that every member puts its files in and member 0 seals."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor

from gossamer.engine.checkpoint import durable
from gossamer.engine.checkpoint.manifest import FORMAT, FileNote, Manifest, encode
from gossamer.engine.checkpoint.names import MANIFEST, draft_of, file_of, folder_of, leavings, steps
from gossamer.engine.checkpoint.pack import WRITABLE, pack
from gossamer.engine.checkpoint.unpack import unpack
from gossamer.parts.refusal import Refused, whole

TREE = ".tree"  # the name of the tensor whose bytes are the JSON of a packed tree


@dataclass(frozen=True)
class Draft:
    """What one member writes of one step's checkpoint; no reader sees any of it before it is sealed.

    Order: member 0 begins, then the others; all put; member 0 seals. The caller waits in between.
    """

    root: Path
    step: int
    member: int

    @staticmethod
    def begin(root: Path, step: int, member: int) -> Draft:
        """Member 0 clears away what killed runs left and makes the folder; the others find it there."""
        draft = Draft(Path(root), step, member)
        folder = draft.folder  # refuses what is no step before anything is touched
        if member == 0:
            draft.root.mkdir(parents=True, exist_ok=True)
            for left in leavings(draft.root):
                durable.remove(left)
            folder.mkdir()
        return draft

    @property
    def folder(self) -> Path:
        """Where it is written."""
        return draft_of(self.root, self.step)

    def put(self, name: str, tensors: Mapping[str, Tensor]) -> str:
        """Write one safetensors file, flushed to the disk; its sha256. Any device; tied tensors are written twice."""
        path = self.folder / file_of(name)
        if path.exists():
            raise Refused(f"checkpoint: {path.name} of step {self.step} was put twice", "one name per member and file")
        return durable.write(path, save(_apart(path.name, tensors)))

    def put_tree(self, name: str, tree: object) -> str:
        """Write any tree that `pack` takes as one file, its tensors under the paths to them; its sha256."""
        plain, tensors = pack(tree)
        text = torch.frombuffer(bytearray(json.dumps(plain).encode()), dtype=torch.uint8)
        return self.put(name, {**tensors, TREE: text})

    def tree(self, name: str) -> Any:
        """What somebody has `put_tree` under this name just now."""
        tensors = load((self.folder / file_of(name)).read_bytes())
        return unpack(json.loads(tensors.pop(TREE).numpy().tobytes()), tensors)

    def seal(self, facts: dict[str, Any], digests: Mapping[str, str], keep: int = 2) -> Path:
        """Make the checkpoint appear in one move, then remove all but the newest `keep` up to this one."""
        whole("checkpoint", "keep", keep, 2)
        noted = {file_of(name): digest for name, digest in digests.items()}
        written = {path.name: path.stat().st_size for path in self.folder.glob("[!.]*")}
        if noted.keys() != written.keys():
            odd = ", ".join(sorted(noted.keys() ^ written.keys()))
            raise Refused(
                f"checkpoint: step {self.step} cannot be sealed; put without digest, or digest without put: {odd}"
            )
        files = {name: FileNote(written[name], noted[name]) for name in sorted(noted)}
        durable.write(self.folder / MANIFEST, encode(Manifest(FORMAT, self.step, files, facts)))
        durable.flush(self.folder)
        sealed = folder_of(self.root, self.step)
        durable.appear(self.folder, sealed)
        for old in [step for step in steps(self.root) if step <= self.step][:-keep]:
            durable.vanish(folder_of(self.root, old))
        return sealed

    def discard(self) -> None:
        """Remove the folder with all in it; a sealed checkpoint is untouched."""
        durable.remove(self.folder)


def _apart(file: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Each tensor in memory of its own, as safetensors wants it; only those that overlap another are copied."""
    ready = {name: tensor.detach().resolve_conj().resolve_neg().contiguous() for name, tensor in tensors.items()}
    end: dict[torch.device, int] = {}
    for name in sorted(ready, key=lambda name: ready[name].data_ptr()):
        tensor = ready[name]
        if tensor.dtype not in WRITABLE or name == "__metadata__":
            raise Refused(
                f"checkpoint: {file} cannot hold {name!r} of {tensor.dtype}", "put_tree, which writes any dtype"
            )
        start = tensor.data_ptr()
        if start < end.get(tensor.device, 0):
            ready[name] = tensor.clone()
        end[tensor.device] = max(end.get(tensor.device, 0), start + tensor.nbytes)
    return ready
