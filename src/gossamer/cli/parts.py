"""`gossamer list --parts`: every word that an expression, a script of trouble or a task option may use.

The vocabulary is what the reader of expressions itself reads, gathered by axis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from inspect import getdoc, signature
from typing import Any

TITLE = 40  # characters that say too little by themselves


@dataclass(frozen=True)
class Item:
    """A word as it may be typed, and what it does."""

    name: str
    usage: str
    sentence: str


def vocabulary() -> dict[str, list[Item]]:
    """Everything that can be typed, by axis, in the order in which an exchange asks for it."""
    from gossamer.parts import codec, merge, payload, route, selection, synchrony, topology

    words = {
        "payload: what is exchanged": payload.Payload,
        "order: on which side of the update": payload.Order,
        "late: what a hub does with late contributions": synchrony.Late,
    }
    axes: dict[str, type] = {
        "topology: who hears whom": topology.Topology,
        "codec: how it is written": codec.Codec,
        "merge: how it comes back": merge.Merge,
        "route: how an all-reduce travels": route.Route,
        "where: which tensors": selection.Selection,
    }
    found = {title: [Item(word.name, word.name, "") for word in kind] for title, kind in words.items()}
    found |= {title: list(_axis(axis)) for title, axis in axes.items()}
    found["synchrony: when, how stale, how many"] = list(_axis(synchrony.Synchrony, synchrony.AllBut, synchrony.OneIn))
    found["composing"] = list(_axis(*_composers()))
    return found | {"trouble (--trouble)": list(_trouble()), "task options (--task, --task-option)": list(_tasks())}


def _composers() -> tuple[type, ...]:
    from gossamer.strategy import Exchange, Staged

    return (Exchange, Staged)


def _axis(*axes: type) -> Iterator[Item]:
    """The parts of an axis, out of all that the reader of expressions knows; a route's short name with its own."""
    from gossamer.strategy.expression import ROUTES, parts

    short = {kind: name for name, kind in ROUTES.items()}
    for name, kind in parts().items():
        if isinstance(kind, type) and issubclass(kind, axes):
            alias = f", or {short[kind]}" if kind in short else ""
            yield Item(name, usage(name, kind) + alias, _sentence(kind))


def _trouble() -> Iterator[Item]:
    from gossamer.parts.trouble import Trouble

    for kind in Trouble.__subclasses__():
        name = kind.__name__.lower()
        yield Item(name, usage(name, kind), _sentence(kind))


def _tasks() -> Iterator[Item]:
    from gossamer.tasks.build import OURS, maker
    from gossamer.tasks.build import usage as options

    for name in OURS:
        yield Item(name, options(name, maker(name)), _sentence(maker(name)))


def usage(name: str, make: Callable[..., Any]) -> str:
    """The name with every field, and its default where it has one."""
    fields = signature(make).parameters.values()
    return f"{name}({', '.join(f.name if f.default is f.empty else f'{f.name}={f.default!r}' for f in fields)})"


def _sentence(kind: Callable[..., Any]) -> str:
    """The first paragraph of what it says of itself, and the next where the first is only a title."""
    first, _, rest = (getdoc(kind) or "").partition("\n\n")
    told = " ".join(f"{first} {rest if len(first) < TITLE else ''}".split())
    return told if told.endswith(".") else f"{told}."


def draw() -> None:
    """Print the vocabulary: each axis with its words, each word with what it does below it."""
    from rich.padding import Padding
    from rich.text import Text

    from gossamer.cli.screen import out

    console = out()
    for title, items in vocabulary().items():
        console.print(Text(title, style="bold"))
        for item in items if items[0].sentence else ():
            console.print(Padding(Text(item.usage, style="cyan"), (0, 0, 0, 2)))
            console.print(Padding(Text(item.sentence, style="dim"), (0, 0, 0, 6)))
        if not items[0].sentence:
            console.print(Padding(Text(", ".join(item.usage for item in items), style="cyan"), (0, 0, 0, 2)))
        console.print()
    console.print(Text("Exchanges are joined with +. Defaults may be left out. Try: gossamer show EXPR", style="dim"))
