"""The expression language: text to value and back. `parse` reads names, literals, calls and +, and runs no code."""

from __future__ import annotations

import ast
import inspect
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from enum import Enum
from typing import Any

from gossamer.parts import codec, merge, payload, route, selection, synchrony, topology, trouble
from gossamer.parts.refusal import Refused, told
from gossamer.parts.value import Value
from gossamer.strategy.catalog import CATALOG
from gossamer.strategy.exchange import Exchange
from gossamer.strategy.strategy import AnyStrategy, Staged, Strategy, as_strategy, slots

LONGEST = 1_000_000  # characters; a longer expression is not one a person wrote

Makers = Mapping[str, Callable[..., Any]]


class Misread(Refused):
    """An expression that cannot be read: where, why, and the nearest right spelling."""

    def __init__(self, text: str, start: int, stop: int, reason: str, nearest: str | None = None) -> None:
        super().__init__(reason, nearest)
        self.text, self.start, self.stop = text, start, max(stop, start + 1)

    def pointed(self) -> str:
        """The expression with carets under the fault, the reason below."""
        hint = f"\nnearest that works: {self.nearest}" if self.nearest else ""
        return f"{self.text}\n{' ' * self.start}{'^' * (self.stop - self.start)}\n{self.reason}{hint}"


ROUTES: dict[str, Callable[..., Any]] = {
    "auto": route.Auto, "native": route.Native, "ring": route.Ring, "torus": route.Torus, "tree": route.Tree,
    "halving_doubling": route.HalvingDoubling, "doubling": route.Doubling, "binary_blocks": route.BinaryBlocks,
    "direct": route.Direct, "hierarchical": route.Hierarchical, "sharded_hub": route.ShardedHub,
    "by_size": route.BySize, "sharded": route.Sharded,
}  # fmt: skip
WORDS: dict[str, Enum] = {
    word.name: word for words in (payload.Payload, payload.Order, synchrony.Late) for word in words
}


def parts() -> dict[str, Callable[..., Any]]:
    """Every part by its name: whatever is a final class of an axis, ours before anybody else's of the same name."""
    axes = (topology.Topology, route.Route, codec.Codec, merge.Merge, selection.Selection)
    found = [kind for axis in axes for kind in _final(axis)]
    found.sort(key=lambda kind: kind.__module__.startswith("gossamer."))
    return {
        kind.__name__: kind
        for kind in (*found, synchrony.Synchrony, synchrony.AllBut, synchrony.OneIn, Exchange, Staged)
    }


def _final(kind: type[Value]) -> Iterator[type[Value]]:
    """The final classes below an abstract one: those that are dataclasses of their own."""
    for below in kind.__subclasses__():
        if "__dataclass_params__" in vars(below):
            yield below
        yield from _final(below)


def parse(text: str) -> AnyStrategy:
    """The strategy an expression stands for; `parse(repr(s)) == s`."""
    makers = {**parts(), **ROUTES, **{entry.name: entry.make for entry in CATALOG}}
    value = _Reader(text, makers, WORDS).read()
    if not isinstance(value, Exchange | Strategy | Staged):
        raise Misread(text, 0, len(text), f"{_kind(value)} is not a strategy", "allreduce()")
    return as_strategy(value)


def read(text: str, makers: Makers, words: Mapping[str, object]) -> Any:
    """What an expression of these names, and nothing else, stands for."""
    return _Reader(text, makers, words).read()


def parse_trouble(text: str) -> trouble.Script:
    """The script of trouble an expression such as `slow(rank=1, factor=5) + fail(rank=2, step=30)` stands for."""
    value = _Reader(text, {"slow": trouble.Slow, "fail": trouble.Fail}, {}).read()
    if isinstance(value, trouble.Trouble):
        value = trouble.Script((value,))
    if not isinstance(value, trouble.Script):
        raise Misread(text, 0, len(text), f"{_kind(value)} is not trouble", "slow(rank=1, factor=5)")
    return value


class _Reader:
    """Walks the syntax tree of one expression, allowing only what is listed."""

    def __init__(self, text: str, makers: Makers, words: Mapping[str, object]) -> None:
        if not isinstance(text, str):
            raise Misread(repr(text), 0, 1, "an expression is text", "'allreduce()'")
        self.text = re.sub(r"\s", " ", text).strip()
        self.makers, self.words = makers, words

    def read(self) -> Any:
        if len(self.text) > LONGEST:
            raise Misread(self.text[:60] + "...", 0, 60, f"the expression is longer than {LONGEST} characters")
        if not self.text:
            raise Misread("", 0, 1, "the expression is empty", "allreduce()")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of what the text would mean to Python
                tree = ast.parse(self.text, mode="eval")
            return self.value(tree.body)
        except SyntaxError as error:
            place = min(error.offset - 1 if error.offset else len(self.text), len(self.text))
            raise Misread(self.text, place, place + 1, f"cannot be read: {error.msg}", self._closed()) from None
        except (ValueError, RecursionError, MemoryError) as error:
            if isinstance(error, Refused):
                raise
            raise Misread(self.text, 0, 1, "cannot be read: too deep, or not plain text") from None

    def value(self, node: ast.AST) -> Any:
        match node:
            case ast.Constant(value=bool() | int() | float() | str() | None):
                return node.value
            case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=ast.Constant(value=int() | float() as number)):
                return -number if isinstance(node.op, ast.USub) else number
            case ast.Tuple(elts=elements):
                return tuple(self.value(element) for element in elements)
            case ast.Name(id=name):
                return self.named(node, name)
            case ast.Call(func=ast.Name(id=name)):
                return self.called(node, name)
            case ast.BinOp(op=ast.Add()):
                return self.added(node)
        raise self.fault(node, "only names, calls by name, numbers, text, tuples and + are read here; nothing is run")

    def named(self, node: ast.Name, name: str) -> Any:
        if name in self.words:
            return self.words[name]
        return self._made(node, self._maker(node, name), name, [], {})

    def called(self, node: ast.Call, name: str) -> Any:
        if name in self.words:
            raise self.fault(node.func, f"{name} is a word, not something to call", name)
        make = self._maker(node.func, name)
        allowed = list(inspect.signature(make).parameters)
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                raise self.fault(argument, "* is not read here")
        if len(node.args) > len(allowed):
            raise self.fault(node.args[len(allowed)], f"{name} takes {len(allowed)} values", self._usage(name, make))
        given: dict[str, Any] = {}
        for keyword in node.keywords:
            self._known(keyword, name, allowed, {*given, *allowed[: len(node.args)]})
            given[str(keyword.arg)] = self.value(keyword.value)
        return self._made(node, make, name, [self.value(argument) for argument in node.args], given)

    def added(self, node: ast.BinOp) -> Any:
        operands: list[ast.expr] = []
        rest: ast.expr = node
        while isinstance(rest, ast.BinOp) and isinstance(
            rest.op, ast.Add
        ):  # a long sum is checked once, not at every +
            operands.insert(0, rest.right)
            rest = rest.left
        values = [self.value(operand) for operand in (rest, *operands)]
        if all(isinstance(value, Exchange | Strategy) for value in values):
            exchanges = [ex for value in values for ex in slots(as_strategy(value))]
            return self._made(node, Strategy, "+", [tuple(exchanges)], {})
        if all(isinstance(value, trouble.Trouble | trouble.Script) for value in values):
            lines = [line for value in values for line in getattr(value, "lines", (value,))]
            return self._made(node, trouble.Script, "+", [tuple(lines)], {})
        kinds = " and ".join(dict.fromkeys(_kind(value) for value in values))
        raise self.fault(node, f"{kinds} do not add up; + joins exchanges")

    def _maker(self, node: ast.expr, name: str) -> Callable[..., Any]:
        if name.lower() in ("nan", "inf", "infinity"):
            raise self.fault(node, f"{name} is no number that anything here can be")
        if name not in self.makers:
            raise self.fault(node, f"there is no {name!r} here", self._nearest(name, [*self.makers, *self.words]))
        return self.makers[name]

    def _known(self, keyword: ast.keyword, name: str, allowed: list[str], taken: set[str]) -> None:
        if keyword.arg is None:
            raise self.fault(keyword.value, "** is not read here")
        start = self._column(keyword.col_offset)
        stop = start + len(keyword.arg)
        if keyword.arg not in allowed:
            nearest = self._nearest(keyword.arg, allowed) or self._usage(name, self.makers[name])
            raise Misread(self.text, start, stop, f"{name} has no {keyword.arg!r}", nearest)
        if keyword.arg in taken:
            raise Misread(self.text, start, stop, f"{keyword.arg!r} is given twice")

    def _made(self, node: ast.expr, make: Callable[..., Any], name: str, args: list[Any], given: dict[str, Any]) -> Any:
        try:
            inspect.signature(make).bind(*args, **given)
        except TypeError as error:
            raise self.fault(node, f"{name}: {error}", self._usage(name, make)) from None
        try:
            return make(*args, **given)
        except Misread:
            raise
        except Refused as error:
            raise self.fault(node, error.reason, error.nearest) from None

    def fault(self, node: ast.AST, reason: str, nearest: str | None = None) -> Misread:
        start = self._column(getattr(node, "col_offset", 0))
        stop = self._column(getattr(node, "end_col_offset", None) or len(self.text.encode()))
        return Misread(self.text, start, stop, reason, nearest)

    def _column(self, offset: int) -> int:
        return len(self.text.encode()[:offset].decode(errors="ignore"))

    def _nearest(self, name: str, among: list[str]) -> str | None:
        folded = {word.lower().replace("_", ""): word for word in reversed(among)}
        close = get_close_matches(name.lower().replace("_", ""), list(folded), n=1, cutoff=0.5)
        return folded[close[0]] if close else None

    def _usage(self, name: str, make: Callable[..., Any]) -> str:
        fields = inspect.signature(make).parameters.values()
        return f"{name}({', '.join(f.name if f.default is f.empty else f'{f.name}={f.default!r}' for f in fields)})"

    def _closed(self) -> str | None:
        missing = self.text.count("(") - self.text.count(")")
        return self.text + ")" * missing if missing > 0 else None


def _kind(value: object) -> str:
    return value.__class__.__name__ if not isinstance(value, int | float | str) else told(value)
