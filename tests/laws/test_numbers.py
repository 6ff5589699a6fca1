"""Negative, zero, infinite, absurd and mistyped numbers are refused by the part that owns them, by its name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import pytest
from tests.laws.specimens import SYNCHRONIES, TABLE

from gossamer.parts.merge import Elastic
from gossamer.parts.refusal import Refused
from gossamer.parts.synchrony import AllBut, OneIn, Synchrony
from gossamer.parts.topology import Graph
from gossamer.parts.value import Value
from gossamer.parts.world import World
from gossamer.strategy import Exchange, Misread, Staged, Strategy, parse

INFINITE = (float("nan"), float("inf"), float("-inf"))
ALWAYS_BAD = (-1, -0.5, *INFINITE, True, False, "1", (1,), 1j, 10**13, 1e300)
NOT_A_FLAG = (0, 1, "True", None, 1.0)
ZERO_IS_FINE = {
    "staleness", "delay", "least", "most", "index", "clip", "momentum", "warmup", "rank", "start", "step", "seed",
    "root",
    "inertia", "lookahead", "strength",
}  # fmt: skip
PARTS: tuple[Any, ...] = (
    *(part for table in TABLE.values() for part in table),
    *SYNCHRONIES,
    AllBut(1),
    OneIn(2),
    World(4, 1),
)
ENTRIES = {
    "backup_workers": "backups", "ssp": "staleness", "downpour": "every", "easgd": "every", "local_sgd": "every",
    "diloco": "every", "gossip_pull": "pulls", "sgp": "every", "powersgd": "rank", "dgc": "density",
    "tencent": "limit", "sony": "x",
    "qsgd": "bits", "terngrad": "clip", "strom": "threshold", "gradient_dropping": "keep", "dryden": "keep",
    "eight_bits": "bucket", "random_k": "keep",
    "adacomp": "bin", "ako": "parts", "gaia": "threshold", "gossip_hosts": "per_host",
    "two_levels": "per_host",
}  # fmt: skip


def numeric(part: Any) -> Iterator[tuple[str, tuple[object, ...]]]:
    """The fields of a part that hold a number or a flag, with values that are bad for each."""
    for field in fields(part):
        value = getattr(part, field.name)
        if isinstance(value, bool):
            yield field.name, NOT_A_FLAG
        elif isinstance(value, int | float):
            zero = () if field.name in ZERO_IS_FINE and not isinstance(part, AllBut | OneIn) else (0,)
            yield field.name, (*ALWAYS_BAD, *zero) if field.name != "seed" else ALWAYS_BAD[:-2]


def lets_pass(part: Any) -> str | None:
    """What the part lets pass though it is bad, or refuses without giving its name, or trips over."""
    name = type(part).__name__.lower()
    for field, values in numeric(part):
        for value in values:
            shown = f"{field}={value!r}"
            try:
                replace(part, **{field: value})
            except Refused as no:
                if name not in no.reason.lower() or field not in no.reason:
                    return f"{shown} is refused by {no.reason[:80]!r}"
            except Exception as error:
                return f"{shown} ends in {type(error).__name__}"
            else:
                return f"{shown} passes"
    return None


@pytest.mark.parametrize("part", PARTS, ids=repr)
def test_bad_numbers_are_refused_by_their_owner(part: Any) -> None:
    assert lets_pass(part) is None


@dataclass(frozen=True, repr=False)
class Careless(Value):
    rate: float = 0.5


@dataclass(frozen=True, repr=False)
class Anonymous(Value):
    rate: float = 0.5

    def __post_init__(self) -> None:
        if self.rate != 0.5:
            raise Refused("no")


@dataclass(frozen=True, repr=False)
class Clumsy(Value):
    rate: float = 0.5

    def __post_init__(self) -> None:
        if self.rate < 0:
            raise ValueError("negative")


def test_the_law_rejects_a_careless_part() -> None:
    assert lets_pass(Careless()) == "rate=-1 passes"
    assert lets_pass(Anonymous()) == "rate=-1 is refused by 'no'"
    assert lets_pass(Clumsy()) == "rate=-1 ends in ValueError"


@pytest.mark.parametrize("huge", [10**400, -(10**400), 10**5000], ids=["1e400", "-1e400", "1e5000"])
def test_numbers_too_long_for_a_float_or_to_print_are_refused_too(huge: int) -> None:
    with pytest.raises(Refused, match="Synchrony: every"):
        Synchrony(every=huge)
    with pytest.raises(Refused, match="Elastic: rate"):
        Elastic(rate=huge)


@pytest.mark.parametrize("value", ["-1", "1e999", "-1e999", "True", "False", "'3'", "1" + "0" * 400, "(1,)", "0.5j"])
@pytest.mark.parametrize("entry", ENTRIES)
def test_entries_hand_bad_numbers_to_the_part_that_refuses_them(entry: str, value: str) -> None:
    with pytest.raises(Misread):
        parse(f"{entry}({ENTRIES[entry]}={value})")


@pytest.mark.parametrize("staleness", [False, 0.0, "0"])
def test_no_slack_is_the_whole_number_zero(staleness: object) -> None:
    from gossamer.strategy.catalog import ssp

    with pytest.raises(Refused, match="staleness"):
        ssp(staleness)  # type: ignore[arg-type]


@pytest.mark.parametrize("step", [0, -1, True, 1.5, "3", float("nan"), 10**13])
def test_a_stage_begins_at_a_whole_step(step: object) -> None:
    with pytest.raises(Refused, match="Staged: step"):
        Staged(Strategy((Exchange(),)), step, Strategy((Exchange(),)))  # type: ignore[arg-type]


@pytest.mark.parametrize("edge", [(0, -1), (0.0, 1), (True, 0), (0, 10**9), (2, 2), (1, 2, 3), 5, (float("nan"), 1)])
def test_a_graph_refuses_edges_that_lead_nowhere(edge: object) -> None:
    with pytest.raises(Refused, match="Graph"):
        Graph(edges=((0, 1), edge))  # type: ignore[arg-type]


@pytest.mark.parametrize("quorum", [0, -1, 1.5, True, "2", float("inf")])
def test_a_quorum_is_a_whole_number_of_workers(quorum: object) -> None:
    with pytest.raises(Refused, match="Synchrony: quorum"):
        Synchrony(quorum=quorum)  # type: ignore[arg-type]
