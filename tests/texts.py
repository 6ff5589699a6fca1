"""Texts of strategies for models so small that the catalogue's entries would send all of them as they are."""

from __future__ import annotations

import inspect

from gossamer.strategy import CATALOG

SPARING = {entry.name for entry in CATALOG if "where" in inspect.signature(entry.make).parameters}


def small(text: str, where: str = "Matrices(least=0)") -> str:
    """The text of an entry, its codec on matrices of any size; what is no entry, or spares nothing, as it is."""
    name, _, rest = text.partition("(")
    return f"{name}(where={where}{')' if rest in ('', ')') else ', ' + rest}" if name in SPARING else text
