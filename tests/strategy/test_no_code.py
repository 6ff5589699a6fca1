"""Nothing is run through an expression: code, garbled text and numbers without end are misread, and nothing else."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.laws.specimens import TABLE

from gossamer.strategy import CATALOG, Misread, Staged, Strategy, parse, parse_trouble

ATTEMPTS = (
    "__import__('os').system('true')",
    "().__class__.__bases__[0].__subclasses__()",
    "allreduce.__globals__",
    "Exchange.__init__",
    "Exchange().topology",
    "__builtins__",
    "open('x', 'w')",
    "eval('1')",
    "exec('1')",
    "lambda: 1",
    "(lambda: allreduce)()",
    "[allreduce for _ in (1,)][0]",
    "{allreduce for _ in (1,)}",
    "{1: allreduce}",
    "(allreduce for _ in (1,))",
    "f'{allreduce}'",
    "Exchange(where=Named(f'{1}'))",
    "import os",
    "from os import system",
    "x = allreduce",
    "(x := allreduce)",
    "allreduce(route := ring)",
    "allreduce if True else ssp",
    "allreduce or ssp",
    "not allreduce",
    "1 < 2",
    "2 ** 2",
    "9 ** 9 ** 9 ** 9 ** 9",
    "easgd(rate=0.1 ** 2)",
    "allreduce() - ssp()",
    "allreduce() * 3",
    "'x' * 10 ** 9",
    "allreduce(**{'route': ring})",
    "allreduce(*(ring,))",
    "allreduce[0]",
    "allreduce()()",
    "[allreduce]",
    "await allreduce",
    "yield allreduce",
    "allreduce; ssp",
    "del allreduce",
    "1j",
    "b'allreduce'",
    "...",
)
GARBLED = (
    "",
    "   ",
    "\x00",
    "allreduce(\x00)",
    "allreduce\ud800",
    "\u202eallreduce",
    "allreduce(",
    "allreduce)",
    "allreduce()()(",
    "allreduce +",
    "+ allreduce",
    "allreduce(route=)",
    "allreduce(=ring)",
    "Exchange(where=Named('*)",
    "5",
    "'allreduce'",
    "None",
    "True",
    "(allreduce,)",
    "PARAMETERS",
    "Dense()",
    "ring",
    "(" * 500 + "1" + ")" * 500,
    "-" * 9000 + "1",
    "not " * 2000 + "1",
    "a." * 4000 + "b",
    "[" * 3000,
    "Except(" * 150 + "Everything" + ")" * 150,
    "1" * 5000,
    "local_sgd(every=0x" + "f" * 5000 + ")",
    "x" * 2_000_000,
    "allreduce" + " " * 2_000_000 + "()",
    "Staged(allreduce, 3, Staged(allreduce, 2, allreduce))",
    "Staged(allreduce, 3, 5)",
    "Staged(allreduce, 'x', allreduce)",
    "allreduce() + Staged(allreduce, 3, allreduce)",
    "allreduce() + 5",
    "allreduce(1, 2, 3)",
    "allreduce(ring, route=ring)",
    "allreduce(route=ring, route=ring)",
    "PARAMETERS()",
    "Graph",
    "Exchange(topology=Graph(edges=((0, 'a'),)))",
    "Exchange(payload='gradients')",
    "Exchange(codec=ring)",
)
SIGNS = ("(", ")", "(", ")", ",", "=", "+", "1", "0.5", "-1", "'a'", "GRADIENTS", "every", "rate", ".", "**")
PARTS = sorted({type(part).__name__ for table in TABLE.values() for part in table})
WORDS = (*(entry.name for entry in CATALOG), *PARTS, *SIGNS)


def short(text: str) -> str:
    return ascii(text[:40])


@pytest.mark.parametrize("text", ATTEMPTS, ids=short)
def test_code_is_refused(text: str) -> None:
    with pytest.raises(Misread) as caught:
        parse(text)
    assert caught.value.reason
    with pytest.raises(Misread):
        parse_trouble(text)


def test_nothing_is_run(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    for text in (f"open({str(mark)!r}, 'w')", f"__import__('pathlib').Path({str(mark)!r}).touch()"):
        with pytest.raises(Misread):
            parse(text)
        with pytest.raises(Misread):
            parse(f"Exchange(where=Named({text}))")
    assert not mark.exists()


@pytest.mark.parametrize("text", GARBLED, ids=short)
def test_what_cannot_be_read_is_misread(text: str) -> None:
    with pytest.raises(Misread) as caught:
        parse(text)
    error = caught.value
    assert error.reason and 0 <= error.start < error.stop
    assert "^" in error.pointed()


@pytest.mark.parametrize("thing", [5, None, b"allreduce", ["allreduce"]], ids=repr)
def test_what_is_not_text_is_misread(thing: object) -> None:
    with pytest.raises(Misread):
        parse(thing)  # type: ignore[arg-type]


@settings(max_examples=400, derandomize=True, database=None, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join) | st.text(max_size=30))
def test_any_text_is_read_or_misread(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that warnings stay silent is another test's question
        try:
            found = parse(text)
        except Misread as error:
            assert error.reason
            return
    assert isinstance(found, Strategy | Staged)
