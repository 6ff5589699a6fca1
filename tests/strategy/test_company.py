"""Each rule of which exchanges may carry the same tensors, by a pair that breaks it and one beside it that does not."""

from __future__ import annotations

import pytest
from tests.laws.tiny import fault

from gossamer.parts.refusal import Refused
from gossamer.strategy import Misread, parse

GRAPH = "Exchange(payload=PARAMETERS, topology=Graph(edges=((0, 1), (1, 2), (2, 0), (2, 1))))"
RULES = {
    "steps them twice": ("parameter_server + allreduce", "local_sgd + allreduce"),
    "hands them back whole": ("ssp + gossip_pull", "allreduce + gossip_pull"),
    "would be lost": ("parameter_server + diloco(every=3)", "allreduce + downpour"),
    "two hubs": ("downpour + easgd", "downpour + local_sgd"),
    "counted twice": ("diloco + diloco", "diloco + local_sgd"),
    "masses differ": (f"{GRAPH} + local_sgd", f"allreduce + {GRAPH}"),
    "mixed again": ("Exchange(synchrony=Synchrony(delay=1)) + Exchange()", "Exchange(codec=TopK()) + Exchange()"),
    "would be overwritten": ("adpsgd + sgp", "adpsgd + gossip_push"),
    "must not be read or traded with": ("eamsgd + gossip_pull", "async_easgd + gossip_pull"),
    "both codecs apply the momentum": ("Exchange(codec=DGC()) + Exchange(codec=DGC())", "dgc + allreduce"),
}


@pytest.mark.parametrize("reason", RULES)
def test_a_clash_is_refused_whichever_comes_first(reason: str) -> None:
    wrong, right = RULES[reason]
    for text in (wrong, " + ".join(reversed(wrong.split(" + ")))):
        with pytest.raises(Misread, match=reason):
            parse(text)
    assert fault(parse(right), 3, 14) is None


@pytest.mark.parametrize("reason", RULES)
def test_apart_they_get_on(reason: str) -> None:
    """On different tensors the same two exchanges train; on overlapping ones the model tells, before the first step."""
    one, other = (parse(text).exchanges[0] for text in RULES[reason][0].split(" + "))
    apart, overlapping = (
        parse(f"{put(one, 'Dims(least=2)')} + {put(other, where)}") for where in ("Dims(most=1)", "Named('0.*')")
    )
    assert fault(apart, 3, 14) is None
    found = fault(overlapping, 3, 14)
    assert isinstance(found, Refused) and reason in found.reason and "overlap" in found.reason


def put(exchange: object, where: str) -> str:
    """The exchange's expression, on these tensors only."""
    text = repr(exchange)
    return text.replace("Exchange(", f"Exchange(where={where}, ", 1)
