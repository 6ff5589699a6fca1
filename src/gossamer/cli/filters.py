"""The filters of `gossamer list`: a word on an axis of the taxonomy, and which rows have it. Prints nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from gossamer.cli.rows import Row, codecs
from gossamer.parts import codec, payload, topology
from gossamer.parts.refusal import Refused
from gossamer.parts.spelling import folded, nearest
from gossamer.strategy.expression import parts

NONE, ANY = "none", "any"


@dataclass(frozen=True)
class Axis:
    """One axis: the field of a position it reads, and its words in the order in which they are listed."""

    field: str
    words: tuple[str, ...]

    def of(self, row: Row) -> set[str]:
        """Every word that the row has here; of `gossip, fixed graph` the whole and both halves."""
        told = str(getattr(row.position, self.field))
        if self.field == "compression":
            return {NONE if told == NONE else ANY, *codecs(row.strategy)}
        words = told.split(" + ")
        return {*words, *(half for word in words for half in word.split(", "))}

    def read(self, flag: str, text: str) -> str:
        """The word that was meant: typed in full, or its beginning where no other word begins so."""
        meant = folded(text)
        exact = [word for word in self.words if folded(word) == meant]
        begun = [word for word in self.words if meant and folded(word).startswith(meant)]
        if exact or len(begun) == 1:
            return (exact or begun)[0]
        known = ", ".join(word for word in self.words if ", " not in word)
        reason = f"could be {' or '.join(begun)}" if begun else f"is none of: {known}"
        raise Refused(f"list: {flag} {text!r} {reason}", begun[0] if begun else nearest(text, self.words))


@dataclass(frozen=True)
class Filter:
    """One word that a row must have."""

    flag: str
    axis: Axis
    word: str

    def passes(self, row: Row) -> bool:
        return self.word in self.axis.of(row)

    def __str__(self) -> str:
        return f"{self.flag} '{self.word}'" if " " in self.word else f"{self.flag} {self.word}"


def axes() -> dict[str, Axis]:
    """The axes by the flag that filters on them."""
    return {
        "--optimisation": Axis("optimisation", ("centralised", "decentralised")),
        "--sync": Axis("scheduling", ("synchronous", "bounded asynchronous", "asynchronous")),
        "--exchange": Axis("exchanged", tuple(word.value for word in payload.Payload)),
        "--pattern": Axis("pattern", _patterns()),
        "--compression": Axis("compression", (NONE, ANY, *_names(codec.Codec))),
    }


def _patterns() -> tuple[str, ...]:
    """Every pattern of a topology: first as one word, then what kind of gossip. Who is made of others has theirs."""
    found = [getattr(parts()[name], "pattern", None) for name in _names(topology.Topology)]
    told = [word for word in found if isinstance(word, str)]
    coarse = [word.partition(", ")[0] for word in told]
    return tuple(dict.fromkeys([*coarse, *(half for word in told for half in word.split(", ")), *told]))


def _names(kind: type) -> list[str]:
    """The parts of an axis of the expression language."""
    return [name for name, part in parts().items() if isinstance(part, type) and issubclass(part, kind)]


def asked(given: dict[str, str | None]) -> list[Filter]:
    """The filters of a command line, each word read; one that is unknown is refused."""
    known = axes()
    return [Filter(flag, known[flag], known[flag].read(flag, text)) for flag, text in given.items() if text is not None]


def passing(rows: Sequence[Row], filters: Sequence[Filter]) -> list[Row]:
    """The rows that have every word."""
    return [row for row in rows if all(one.passes(row) for one in filters)]


def why_nothing(rows: Sequence[Row], filters: Sequence[Filter]) -> str:
    """That nothing passes, and the fewest filters to drop so that something does."""
    told = f"Nothing stands at {' '.join(map(str, filters))}."
    for count in range(1, len(filters) + 1):
        counts = {gone: len(passing(rows, _but(filters, gone))) for gone in combinations(filters, count)}
        ways = [f"Without {' and '.join(map(str, gone))}: {left}." for gone, left in counts.items() if left]
        if ways:
            return "\n".join([told, *ways])
    return told


def _but(filters: Sequence[Filter], gone: Sequence[Filter]) -> list[Filter]:
    return [one for one in filters if one not in gone]
