"""The table is complete: every concrete part and every catalogue entry is tried by the laws."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from tests.laws.specimens import TABLE

import gossamer.parts
from gossamer.parts.route import Ring
from gossamer.strategy import CATALOG, parse


def everywhere() -> None:
    """Import every module of the parts, so that no subclass is unknown."""
    for module in pkgutil.walk_packages(gossamer.parts.__path__, "gossamer.parts."):
        if not module.name.endswith("._kernel"):  # compiled loops, which python cannot import
            importlib.import_module(module.name)


def below(part: type) -> Iterator[type]:
    """Every class under `part`, at any depth."""
    for child in part.__subclasses__():
        yield child
        yield from below(child)


def concrete(kind: type) -> bool:
    """A dataclass of its own, or a last of its line; what only others build on is left out."""
    return "__dataclass_fields__" in vars(kind) or not kind.__subclasses__()


def lacking(part: type, table: tuple[object, ...], home: str) -> list[str]:
    """The concrete classes under `part`, made in package `home`, that no specimen in `table` is of."""
    seen = {type(specimen) for specimen in table}
    ours = (kind for kind in below(part) if kind.__module__.split(".")[0] == home and concrete(kind))
    return sorted({kind.__name__ for kind in ours if kind not in seen})


@pytest.mark.parametrize("part", TABLE, ids=lambda part: part.__name__)
def test_every_concrete_part_has_a_specimen(part: type) -> None:
    everywhere()
    assert lacking(part, TABLE[part], "gossamer") == []


@pytest.mark.parametrize("part", TABLE, ids=lambda part: part.__name__)
def test_every_specimen_is_of_the_part_it_stands_for(part: type) -> None:
    assert TABLE[part]
    assert all(isinstance(specimen, part) for specimen in TABLE[part])
    assert len({repr(specimen) for specimen in TABLE[part]}) == len(TABLE[part])


def test_a_part_without_a_specimen_is_named() -> None:
    everywhere()
    for part, table in TABLE.items():
        victim = type(table[-1])
        rest = tuple(specimen for specimen in table if type(specimen) is not victim)
        assert lacking(part, rest, "gossamer") == [victim.__name__]


def test_a_part_derived_from_a_concrete_one_needs_its_own_specimen() -> None:
    @dataclass(frozen=True, repr=False)
    class Spiral(Ring):
        pass

    home = Spiral.__module__.split(".")[0]
    assert "Spiral" in lacking(Ring, (Ring(),), home)


def test_every_catalogue_entry_works_bare_and_called() -> None:
    for entry in CATALOG:
        assert parse(entry.name) == parse(f"{entry.name}()") == entry.make()
