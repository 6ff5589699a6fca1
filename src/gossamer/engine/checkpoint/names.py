"""How the folders and files of checkpoints are called, and which are there. Opens none of them."""

from __future__ import annotations

import re
from pathlib import Path

from gossamer.parts.refusal import ABSURD, Refused, told, whole

MANIFEST = "manifest.json"
SUFFIX = ".safetensors"
_STEP = re.compile(r"step-(0|[1-9][0-9]{0,12})", re.ASCII)
_LEFT = re.compile(r"\.step-[0-9]+\.(draft|gone)", re.ASCII)
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,150}\.safetensors", re.ASCII)


def folder_of(root: Path, step: int) -> Path:
    """Where the checkpoint of a step appears once it is sealed."""
    whole("checkpoint", "step", step, 0, ABSURD)
    return root / f"step-{step}"


def draft_of(root: Path, step: int) -> Path:
    """Where it is written until then: the same path for every member, and no checkpoint to any reader."""
    return root / f".{folder_of(root, step).name}.draft"


def file_of(name: str) -> str:
    """The file of a name, with or without its suffix; a name is never a path."""
    file = name if name.endswith(SUFFIX) else name + SUFFIX
    if not is_file_name(file):
        raise Refused(f"checkpoint: {told(name)} is no name for a file in it", "letters, digits, '_', '-' and '.'")
    return file


def is_file_name(file: str) -> bool:
    """True for what `file_of` gives; no separators, nothing hidden, no way out of the folder."""
    return _FILE.fullmatch(file) is not None


def step_of(folder: Path) -> int | None:
    """The step a folder's name speaks of, if it is that of a checkpoint."""
    named = _STEP.fullmatch(folder.name)
    return None if named is None else int(named[1])


def steps(root: Path) -> list[int]:
    """The steps of the sealed checkpoints in `root`, oldest first; nothing is verified."""
    if not root.is_dir():
        return []
    found = (step_of(folder) for folder in root.iterdir() if folder.is_dir() and not folder.is_symlink())
    return sorted(step for step in found if step is not None)


def latest(root: Path) -> int | None:
    """The newest step in `root`, if there is any; nothing is verified."""
    return max(steps(root), default=None)


def leavings(root: Path) -> list[Path]:
    """What killed runs left: drafts never sealed, checkpoints not removed to the end."""
    return [folder for folder in root.iterdir() if _LEFT.fullmatch(folder.name)]
