"""A wrong expression gets a caret under the fault, the reason, and the nearest right spelling."""

from __future__ import annotations

import warnings

import pytest

from gossamer.parts.refusal import Refused
from gossamer.parts.route import Ring
from gossamer.parts.selection import Named
from gossamer.parts.topology import Cycle
from gossamer.parts.trouble import Fail, Script, Slow
from gossamer.strategy import Exchange, Misread, Strategy, parse, parse_trouble


def short(text: str) -> str:
    return ascii(text[:40])


@pytest.mark.parametrize(
    ("text", "under"),
    [
        ("alreduce", "alreduce"),
        ("allreduce(rout=ring)", "rout"),
        ("allreduce(route=rnig)", "rnig"),
        ("powersgd(rank=0) + allreduce", "powersgd(rank=0)"),
        ("allreduce + local_sgd(evry=4)", "evry"),
        ("Exchange(payload=PARAMETRES)", "PARAMETRES"),
        ("Exchange(codec=ErrorFeedback(DGC))", "ErrorFeedback(DGC)"),
        ("easgd(rate=0.1 ** 2)", "0.1 ** 2"),
        ("allreduce(1, 2, 3)", "2"),
        ("Exchange(where=Named('ééé'), payload=PARAMETRES)", "PARAMETRES"),
        ("Exchange(where=Named('ééé'), paylod=PARAMETERS)", "paylod"),
        ("Exchange(\n  payload=PARAMETRES\n)", "PARAMETRES"),
        ("Exchange(\r\n  payload=PARAMETRES\r\n)", "PARAMETRES"),
        ("  alreduce  ", "alreduce"),
    ],
    ids=short,
)
def test_the_caret_is_under_the_fault(text: str, under: str) -> None:
    with pytest.raises(Misread) as caught:
        parse(text)
    error = caught.value
    assert error.text[error.start : error.stop] == under
    shown, carets, reason, *_ = error.pointed().split("\n")
    assert shown[carets.index("^") : carets.rindex("^") + 1] == under
    assert reason == error.reason


@pytest.mark.parametrize(
    ("text", "at"), [("allreduce(", 9), ("allreduce)", 9), ("allreduce +", 10), ("allreduce ssp", 10)]
)
def test_the_caret_of_broken_syntax_is_where_reading_stopped(text: str, at: int) -> None:
    with pytest.raises(Misread) as caught:
        parse(text)
    assert abs(caught.value.start - at) <= 1


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("alreduce", "allreduce"),
        ("AllReduce", "allreduce"),
        ("localsgd", "local_sgd"),
        ("powerSGD()", "PowerSGD"),
        ("Exchange(codec=topk)", "TopK"),
        ("Exchange(codec=ErorFeedback(Half))", "ErrorFeedback"),
        ("Exchange(payload=PARAMETRES)", "PARAMETERS"),
        ("allreduce(rout=ring)", "route"),
        ("local_sgd(evry=4)", "every"),
        ("allreduce(route=toruss(x=2))", "torus"),
        ("allreduce(ring", "allreduce(ring)"),
        ("local_sgd(every=0)", "every=1"),
        ("Graph", "Graph(edges)"),
        ("allreduce(1, 2)", "allreduce(route=Auto())"),
        ("", "allreduce()"),
        ("Dense()", "allreduce()"),
    ],
)
def test_the_nearest_right_spelling_is_given(text: str, nearest: str) -> None:
    with pytest.raises(Misread) as caught:
        parse(text)
    assert (caught.value.nearest or "").lower() == nearest.lower()
    assert f"nearest that works: {caught.value.nearest}" in caught.value.pointed()


@pytest.mark.parametrize("text", ["Exchange(where=Named('\\d'))", "1if 2else 3"])
def test_reading_raises_no_warning(text: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            assert parse(text) == Strategy((Exchange(where=Named("\\d")),))
        except Misread:
            assert text.startswith("1if")
    assert caught == []


def test_a_refusal_inside_an_expression_keeps_its_reason_and_advice() -> None:
    with pytest.raises(Refused) as direct:
        Exchange(topology=Cycle(), route=Ring())
    with pytest.raises(Misread) as read:
        parse("Exchange(topology=Cycle(), route=ring)")
    assert (read.value.reason, read.value.nearest) == (direct.value.reason, direct.value.nearest)


def test_trouble_is_read_in_its_own_words() -> None:
    found = parse_trouble("slow(rank=1, factor=5) + fail(rank=2, step=30) + slow(0, 2.5, 3, 7)")
    assert found == Script((Slow(1, 5), Fail(2, 30), Slow(0, 2.5, 3, 7)))
    assert parse_trouble("fail(rank=2, step=30)") == Script((Fail(2, 30),))
    for wrong in ("allreduce", "slow(rank=1)", "slow(rank=-1, factor=5)", "5", "fail + 5", "slwo(rank=1, factor=2)"):
        with pytest.raises(Misread):
            parse_trouble(wrong)
