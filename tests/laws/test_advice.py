"""A refusal's nearest choice is one that works: taken up, the exchange is legal."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.laws.arbitrary import AXES
from tests.laws.specimens import TABLE

from gossamer.parts.codec import PowerSGD
from gossamer.parts.payload import Order, Payload
from gossamer.parts.refusal import Refused
from gossamer.parts.synchrony import AllBut, Late, Synchrony
from gossamer.parts.topology import Hub
from gossamer.strategy import CATALOG, Exchange, parse, slots

WORDS: dict[str, Any] = {word.name: word for words in (Payload, Order, Late) for word in words}
WORDS |= {type(part).__name__: type(part) for table in TABLE.values() for part in table}
WORDS |= {"Synchrony": Synchrony, "AllBut": AllBut, "__builtins__": {}}
CHOICE = re.compile(r"(\w+)=((?:\w|\.)+(?:\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))?)")


def changes(nearest: str) -> list[dict[str, Any]]:
    """The choices an advice names, as `field=value`: each by itself, and all together."""
    apart = [{name: eval(value, WORDS)} for name, value in CHOICE.findall(nearest)]
    together = {name: value for one in apart for name, value in one.items()}
    return [*apart, together] if apart else []


def works(given: dict[str, Any], change: dict[str, Any]) -> bool:
    """Whether the exchange is legal once the change is made, on its own axes or on its synchrony's."""
    axes = {name: value for name, value in change.items() if name in Exchange.__dataclass_fields__}
    times = {name: value for name, value in change.items() if name in Synchrony.__dataclass_fields__}
    try:
        Exchange(**{**given, "synchrony": replace(given["synchrony"], **times), **axes})
    except Refused:
        return False
    return bool(axes or times)


def bad_advice(given: dict[str, Any]) -> str | None:
    """What a refused exchange was told to do instead, if that does not work either."""
    try:
        Exchange(**given)
    except Refused as no:
        if no.nearest is None or any(works(given, change) for change in changes(no.nearest)):
            return None
        return f"{no.reason} -> {no.nearest}"
    return None


def one_step_off(exchange: Exchange) -> Iterator[dict[str, Any]]:
    """The exchange with one axis changed, in every way the specimens know."""
    start = {name: getattr(exchange, name) for name in Exchange.__dataclass_fields__}
    for axis, values in AXES.items():
        for value in values:
            yield {**start, axis: value}


@pytest.mark.parametrize("name", [entry.name for entry in CATALOG])
def test_the_nearest_choice_works(name: str) -> None:
    """Every exchange of the catalogue with one thing changed is legal, or the advice makes it so."""
    told = {bad_advice(given) for exchange in slots(parse(name)) for given in one_step_off(exchange)}
    assert sorted(told - {None}) == []


def test_advice_that_does_not_work_is_found_out() -> None:
    given = {"synchrony": Synchrony(quorum=1), "codec": PowerSGD()}
    assert changes("staleness=0, with delay=1 if late")[-1] == {"staleness": 0, "delay": 1}
    assert not works(given, {"topology": Hub()})
    assert works(given, {"quorum": None})
    assert not works(given, {})
