"""Every entry of the catalogue has a page, and what the page says is so: expression, position, code and command."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Callable
from dataclasses import asdict
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.cli.ask import ask

import gossamer
from gossamer.parts.refusal import Refused
from gossamer.strategy import CATALOG, Entry, parse, position
from gossamer.strategy.catalog import OURS

ROOT = Path(__file__).parent.parent.parent
FOLDER = ROOT / "docs" / "catalogue"
INDEX = (FOLDER / "README.md").read_text()
PAGES = {path.stem: path.read_text() for path in sorted(FOLDER.glob("*.md")) if path.name != "README.md"}
ENTRIES = {entry.name: entry for entry in CATALOG}
PUBLIC = {"gossamer": set(gossamer.__all__), "gossamer.tasks": {"build"}}

LABELS = ("Equation", "Expression", "Position", "Parameters", "Use it when", "Not when", "Our reading", "Paper")
WRITTEN = sorted(set(ENTRIES) & set(PAGES))


def block(text: str, kind: str) -> str:
    """The first fenced block of a kind; nothing where there is none."""
    found = re.search(rf"^```{kind}\n(.*?)^```$", text, flags=re.S | re.M)
    return found.group(1) if found else ""


def told(text: str, label: str) -> str:
    """What stands behind a label, on its line and those that continue it."""
    found = re.search(rf"^- \*\*{label}\*\* (.*?)(?=^- |^$)", text, flags=re.S | re.M)
    return " ".join(found.group(1).split()) if found else ""


def standing(name: str) -> str:
    """The position of an entry as pages tell it."""
    return "; ".join(f"{axis}: {word}" for axis, word in asdict(position(parse(name))).items())


def form(name: str, text: str) -> list[str]:
    """What is wrong with a page whatever its entry is."""
    flaws = [] if text.startswith(f"# {name}\n\n") else ["the title is not its name"]
    flaws += [f"{label} is missing" for label in LABELS if not re.search(rf"^(- )?\*\*{label}\*\*", text, flags=re.M)]
    flaws += [f"no {kind} block" for kind in ("text", "python", "sh") if not block(text, kind).strip()]
    flaws += [] if 25 <= len(text.splitlines()) <= 60 else [f"{len(text.splitlines())} lines"]
    flaws += [f"dead link {target}" for target in links(text) if not (FOLDER / target).exists()]
    return flaws + strangers(block(text, "python"))


def links(text: str) -> list[str]:
    """Where its relative links lead."""
    return [target for target in re.findall(r"\]\(([^)#]+)\)", text) if "://" not in target]


def strangers(code: str) -> list[str]:
    """What code takes that is not public, and whether it claims anything."""
    tree = list(ast.walk(ast.parse(code)))
    taken = [(node.module, alias.name) for node in tree if isinstance(node, ast.ImportFrom) for alias in node.names]
    flaws = [f"{module}.{name} is not public" for module, name in taken if name not in PUBLIC.get(module or "", ())]
    return flaws + ([] if any(isinstance(node, ast.Assert) for node in tree) else ["the code claims nothing"])


def untrue(entry: Entry, text: str) -> list[str]:
    """What a page says of its entry that is not so."""
    written = told(text, "Expression").strip("`")
    try:
        same = parse(written) == parse(entry.name) and written == repr(parse(entry.name))
    except Refused:
        same = False
    flaws = [] if same else [f"the expression is not {parse(entry.name)!r}"]
    flaws += [] if told(text, "Position") == standing(entry.name) else [f"the position is not {standing(entry.name)}"]
    wanted = [f"`{field.name}={field.default!r}`" for field in signature(entry.make).parameters.values()]
    found = re.findall(r"`\w+=[^`]*`(?=: )", told(text, "Parameters"))
    return flaws + ([] if found == wanted else [f"the parameters are not {wanted}"])


def row(entry: Entry) -> str:
    """The line of the index for an entry."""
    place = asdict(position(parse(entry.name)))
    words = ", ".join(place[axis] for axis in ("optimisation", "scheduling", "exchanged"))
    return f"| [{entry.name}]({entry.name}.md) | {entry.sentence} | {words} | {place['pattern']} |"


@pytest.fixture
def dry(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The requests that `rehearse` would have played."""
    asked: list[Any] = []

    def instead(request: object, *_: object) -> None:
        asked.append(request)
        raise typer.Exit(0)

    monkeypatch.setattr("gossamer.cli.rehearse._play", instead)
    return asked


def test_every_entry_has_a_page() -> None:
    assert {entry.name for entry in CATALOG if entry.paper != OURS} <= set(PAGES)


def test_every_page_has_an_entry_or_waits_for_one() -> None:
    assert set(PAGES) == set(ENTRIES)


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_whole(name: str) -> None:
    assert form(name, PAGES[name]) == []


@pytest.mark.parametrize("name", WRITTEN)
def test_what_a_page_says_of_its_entry_is_so(name: str) -> None:
    assert untrue(ENTRIES[name], PAGES[name]) == []


@pytest.mark.parametrize("name", WRITTEN)
def test_its_code_runs(name: str) -> None:
    exec(compile(block(PAGES[name], "python"), f"{name}.md", "exec"), {"__name__": name})


@pytest.mark.parametrize("name", WRITTEN)
def test_its_command_is_understood(name: str, dry: list[Any]) -> None:
    words = shlex.split(block(PAGES[name], "sh"))
    assert words[:2] == ["gossamer", "rehearse"]
    result = ask(*words[1:])
    assert result.exit_code == 0, result.stderr
    [part] = dry[0].parts
    assert re.fullmatch(rf"{name}(\(.*\))?", part.text)


def test_the_index_has_every_entry_and_every_page() -> None:
    rows = re.findall(r"^\| \[.*$", INDEX, flags=re.M)
    named = [re.findall(r"\[(\w+)\]\((\w+)\.md\)", line)[0] for line in rows]
    assert all(name == page for name, page in named)
    assert sorted(name for name, _ in named) == sorted(PAGES)
    for name in WRITTEN:
        assert row(ENTRIES[name]) in rows
    assert [target for target in links(INDEX) if not (FOLDER / target).exists()] == []


WRONG: dict[str, Callable[[str], str]] = {
    "another expression": lambda text: text.replace("Synchrony(every=8)", "Synchrony(every=9)"),
    "another position": lambda text: text.replace("scheduling: synchronous", "scheduling: asynchronous"),
    "another default": lambda text: text.replace("`every=8`: ", "`every=7`: "),
    "no expression": lambda text: text.replace("- **Expression** `", "- **Expression** `Nothing"),
    "a missing label": lambda text: text.replace("- **Not when** ", "- "),
    "another title": lambda text: text.replace("# local_sgd", "# Local SGD"),
    "a dead link": lambda text: text.replace("(README.md)", "(nowhere.md)"),
    "no equation": lambda text: text.replace("```text", "```"),
    "no claim": lambda text: text.replace("assert ", ""),
    "something private": lambda text: text.replace("from gossamer import", "from gossamer.sim import"),
}


@pytest.mark.parametrize("how", WRONG)
def test_a_wrong_page_is_found_out(how: str) -> None:
    wrong = WRONG[how](PAGES["local_sgd"])
    assert wrong != PAGES["local_sgd"]
    assert form("local_sgd", wrong) + untrue(ENTRIES["local_sgd"], wrong)


def test_code_that_claims_something_wrong_fails() -> None:
    with pytest.raises(AssertionError):
        exec(block(PAGES["local_sgd"], "python").replace("assert 8 *", "assert 9 *"), {})
