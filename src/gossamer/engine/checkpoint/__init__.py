"""Checkpoints on disk: written whole or not at all, verified before use, never pickled."""

from gossamer.engine.checkpoint.draft import Draft
from gossamer.engine.checkpoint.keeper import Keeper, Role
from gossamer.engine.checkpoint.manifest import BadCheckpoint
from gossamer.engine.checkpoint.names import latest, steps
from gossamer.engine.checkpoint.pack import JSON, pack
from gossamer.engine.checkpoint.rng import rng_state, set_rng_state
from gossamer.engine.checkpoint.saved import Saved, load
from gossamer.engine.checkpoint.unpack import unpack

__all__ = [
    "JSON",
    "BadCheckpoint",
    "Draft",
    "Keeper",
    "Role",
    "Saved",
    "latest",
    "load",
    "pack",
    "rng_state",
    "set_rng_state",
    "steps",
    "unpack",
]
