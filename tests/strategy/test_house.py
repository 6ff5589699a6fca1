"""The rooms keep to themselves: who may import the network, read the clock or the environment, or name an entry."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import gossamer
from gossamer.strategy import CATALOG

SOURCE = Path(gossamer.__file__).parent
CLOCKS = re.compile(r"(time|perf_counter|monotonic|process_time|thread_time|clock_gettime)(_ns)?")
Scan = Callable[[ast.Module], Iterator[str]]


def dotted(node: ast.AST) -> str:
    """`a.b.c` of an attribute or a name, else nothing."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def imports(tree: ast.Module) -> Iterator[str]:
    """Every module and every name of a module that is imported, in full."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def words(tree: ast.Module) -> Iterator[str]:
    """Every identifier and every text, whatever it stands for."""
    for node in ast.walk(tree):
        for _, value in ast.iter_fields(node):
            values = value if isinstance(value, list) else [value]
            yield from (str(one) for one in values if isinstance(one, str | bytes))


def network(tree: ast.Module) -> Iterator[str]:
    """Uses of torch.distributed, imported or reached through torch."""
    yield from (name for name in imports(tree) if name.startswith("torch.distributed"))
    yield from (dotted(node) for node in ast.walk(tree) if dotted(node) == "torch.distributed")


def entries(tree: ast.Module) -> Iterator[str]:
    """Names of the catalogue, as words of identifiers or texts."""
    named = re.compile(rf"(?<![a-z])({'|'.join(entry.name for entry in CATALOG)})(?![a-z])", re.IGNORECASE)
    yield from (word for word in words(tree) if named.search(word))


def environment(tree: ast.Module) -> Iterator[str]:
    """Uses of the process environment."""
    for node in ast.walk(tree):
        if dotted(node) in ("os.environ", "os.environb", "os.getenv", "os.putenv"):
            yield dotted(node)
    yield from (name for name in imports(tree) if re.fullmatch(r"os\.(environb?|getenv|putenv)", name))


def clocks(tree: ast.Module) -> Iterator[str]:
    """Readings of a wall clock."""
    for node in ast.walk(tree):
        room, _, name = dotted(node).rpartition(".")
        if (room == "time" and CLOCKS.fullmatch(name)) or name in ("utcnow", "default_timer"):
            yield dotted(node)
        if room.endswith("datetime") and name in ("now", "today"):
            yield dotted(node)
    yield from (name for name in imports(tree) if name.startswith("time.") and CLOCKS.fullmatch(name[5:]))


def pickles(tree: ast.Module) -> Iterator[str]:
    """Anything that pickles: the module and its kin, torch's own save and load, collectives of objects."""
    kin = ("pickle", "_pickle", "dill", "cloudpickle", "shelve", "marshal", "joblib")
    yield from (name for name in imports(tree) if name.split(".")[0] in kin)
    for node in ast.walk(tree):
        name = dotted(node)
        objects = isinstance(node, ast.Attribute) and node.attr.endswith(("_object", "_object_list"))
        if objects or name in ("torch.save", "torch.load", "numpy.load"):
            yield name
    yield from (name for name in imports(tree) if name.endswith(("_object", "_object_list")))


RULES: tuple[tuple[Scan, tuple[str, ...], tuple[str, ...]], ...] = (
    # what is looked for, the rooms it is looked for in, the rooms that may
    (network, ("",), ("engine",)),
    (entries, ("engine", "sim"), ()),
    (environment, ("",), ("cli", "engine", "lab")),
    (clocks, ("",), ("cli", "engine")),
    (pickles, ("",), ()),
)


TORCHS = ("engine/stock.py: allreduce",)  # what torch calls on a process group


def offences(scan: Scan, where: tuple[str, ...], allowed: tuple[str, ...]) -> list[str]:
    found = []
    for path in sorted({path for room in where for path in (SOURCE / room).rglob("*.py")}):
        place = path.relative_to(SOURCE)
        if place.parts[0] not in allowed:
            found += [f"{place}: {what[:60]}" for what in scan(ast.parse(path.read_text()))]
    return [each for each in found if each not in TORCHS]


@pytest.mark.parametrize(("scan", "where", "allowed"), RULES, ids=lambda rule: getattr(rule, "__name__", None))
def test_the_rooms_keep_to_themselves(scan: Scan, where: tuple[str, ...], allowed: tuple[str, ...]) -> None:
    assert offences(scan, where, allowed) == []


@pytest.mark.parametrize(
    ("scan", "text"),
    [
        (network, "import torch.distributed as dist"),
        (network, "from torch.distributed import send"),
        (network, "from torch import distributed"),
        (network, "import torch\ntorch.distributed.barrier()"),
        (entries, "def easgd(): pass"),
        (entries, "x = 'local_sgd'"),
        (entries, "is_dgc = True"),
        (entries, "match name:\n    case 'ssp': pass"),
        (entries, "f(diloco=1)"),
        (entries, '"""Plays DGC and others."""'),
        (environment, "import os\nos.environ['RANK']"),
        (environment, "from os import environ"),
        (environment, "import os\nos.getenv('RANK')"),
        (clocks, "import time\ntime.time()"),
        (clocks, "from time import perf_counter"),
        (clocks, "import time\nx = time.monotonic_ns"),
        (clocks, "import datetime\ndatetime.datetime.now()"),
        (pickles, "import pickle"),
        (pickles, "from cloudpickle import dumps"),
        (pickles, "import torch\ntorch.save(x, y)"),
        (pickles, "import torch.distributed as dist\ndist.all_gather_object(a, b)"),
        (pickles, "from torch.distributed import broadcast_object_list"),
    ],
)
def test_an_offence_is_found(scan: Scan, text: str) -> None:
    assert list(scan(ast.parse(text)))


@pytest.mark.parametrize(
    ("scan", "text"),
    [
        (network, "import torch\nfrom torch import nn"),
        (entries, "all_reduce = 'assp'\nobject_list = 'ring all-reduce'"),
        (environment, "import os\nos.path.join('a')"),
        (clocks, "clock.time(3)\nrecord.time\nfrom itertools import count"),
        (pickles, "import json\njson.load(x)\nis_object = 1"),
    ],
)
def test_what_is_no_offence_passes(scan: Scan, text: str) -> None:
    assert not list(scan(ast.parse(text)))


@pytest.mark.parametrize("module", ["gossamer", "gossamer.parts", "gossamer.strategy", "gossamer.records"])
def test_strategies_are_read_without_torch_or_numpy(module: str) -> None:
    code = f"import sys, {module}; print(sorted({{'torch', 'numpy', 'sklearn', 'matplotlib'}} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_a_strategy_is_parsed_without_torch_or_numpy() -> None:
    code = (
        "import sys; from gossamer.strategy import *; "
        "s = parse('powersgd + dgc'); list(phases(s, 3)); position(s); assert parse(repr(s)) == s; "
        "assert not {'torch', 'numpy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=200)
