"""What `gossamer list` lists: an entry or a system, read, with where it stands. Prints nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from inspect import signature

from gossamer.parts.codec import Codec
from gossamer.parts.refusal import Refused
from gossamer.parts.spelling import folded, nearest
from gossamer.strategy import CATALOG, AnyStrategy, Entry, Position, parse, position, slots
from gossamer.strategy.entry import OURS
from gossamer.strategy.systems import OUTSIDE, PLACED, SYSTEMS

PAGES = "docs/catalogue"


@dataclass(frozen=True)
class Row:
    """One line of the list; a system has no paper here, because who put it where it stands is us."""

    name: str
    usage: str
    sentence: str
    paper: str | None
    strategy: AnyStrategy

    @cached_property
    def position(self) -> Position:
        """Where it stands, computed."""
        return position(self.strategy)

    @property
    def source(self) -> str:
        """Who says so."""
        return self.paper or PLACED

    @property
    def page(self) -> str | None:
        """The entry's own page, in the project's folder."""
        return f"{PAGES}/{self.name}.md" if self.paper not in ("", OURS) else None

    def told(self) -> dict[str, object]:
        """As JSON tells it."""
        return {
            "name": self.name,
            "usage": self.usage,
            "expression": repr(self.strategy),
            "sentence": self.sentence,
            **({"paper": self.paper} if self.paper else {"placement": PLACED}),
            "position": asdict(self.position),
        }


def entries() -> list[Row]:
    """The catalogue, in its own order."""
    return [Row(entry.name, usage(entry), entry.sentence, entry.paper, entry.make()) for entry in CATALOG]


def systems() -> list[Row]:
    """The systems that are one of our expressions, in their own order."""
    return [Row(system.name, system.expression, system.says, None, parse(system.expression)) for system in SYSTEMS]


def usage(entry: Entry) -> str:
    """The name with every option and its default, as it may be typed."""
    options = signature(entry.make).parameters.values()
    return f"{entry.name}({', '.join(f'{option.name}={option.default!r}' for option in options)})"


def codecs(strategy: AnyStrategy) -> set[str]:
    """The names of all that writes its exchanges, inside one another too."""
    return {name for ex in slots(strategy) for name in _inside(ex.codec)}


def _inside(codec: Codec) -> Iterator[str]:
    yield type(codec).__name__
    for inner in vars(codec).values():
        if isinstance(inner, Codec):
            yield from _inside(inner)


def named(name: str) -> tuple[list[Row], list[Row]]:
    """The entry of this name, and the systems, in all their ways; else a refusal with the nearest."""
    wanted = folded(name)
    for outside in OUTSIDE:
        if wanted == folded(outside.name):
            raise Refused(f"list: {outside.name} is none of our expressions: {outside.reason}")
    ours = [row for row in entries() if wanted == folded(row.name)]
    others = [row for row in systems() if wanted in (folded(row.name), folded(row.name.partition(",")[0]))]
    if not ours and not others:
        known = [entry.name for entry in CATALOG] + [system.title for system in SYSTEMS]
        raise Refused(f"list: nothing here is named {name!r}", nearest(name, known) or "gossamer list")
    return ours, others
