"""Bricks composed: exchanges, strategies, the order of a step, the catalogue and its language."""

from gossamer.strategy.catalog import CATALOG, named
from gossamer.strategy.entry import Entry
from gossamer.strategy.exchange import Exchange
from gossamer.strategy.expression import Misread, parse, parse_trouble
from gossamer.strategy.phases import Compute, Meet, Phase, Send, Settle, Update, phases
from gossamer.strategy.position import Position, position
from gossamer.strategy.strategy import AnyStrategy, Staged, Strategy, as_strategy, at, fits, since, slots, spells

__all__ = [
    "AnyStrategy", "CATALOG", "Compute", "Entry", "Exchange", "Meet", "Misread", "Phase", "Position", "Send", "Settle",
    "Staged", "Strategy", "Update", "as_strategy", "at", "fits", "named", "parse", "parse_trouble", "phases",
    "position", "since", "slots", "spells",
]  # fmt: skip
