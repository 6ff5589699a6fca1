"""Drift is named where looks in a row show it, once, and nowhere else."""

from __future__ import annotations

import pytest

from gossamer.records import Truth
from gossamer.records.drift import LOOKS, Trail


def look(cosine: float = 0.9, bias: float = 0.0, residual: float = 1.0, keeps: bool = True, slot: int = 0) -> Truth:
    return Truth(slot, 0, cosine, bias, residual, keeps, "0.weight", cosine)


def said(*looks: Truth) -> list[str]:
    trail = Trail()
    return [words for each in looks for words in trail.take([each])]


@pytest.mark.parametrize(
    "good",
    [look(), look(cosine=0.2, bias=-0.9, residual=10.0), look(bias=0.2, keeps=False), look(bias=-2.0, residual=19.0)],
)
def test_what_is_as_codecs_are_is_not_named(good: Truth) -> None:
    assert said(*[good] * 10) == []


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (look(cosine=-0.9), "points elsewhere: cosine -0.90"),
        (look(cosine=0.05), "points elsewhere"),
        (look(bias=-0.9, keeps=False), "90% short of the exact one, and nothing is kept"),
        (look(bias=1.0, keeps=False), "100% longer than the exact one"),
        (look(residual=100.0), "holds 100 exact averages"),
    ],
)
def test_a_drift_is_named_once_it_lasts(bad: Truth, words: str) -> None:
    assert said(*[look()] * 5, bad, look(), look(), look()) == []  # one look is chance
    told = said(look(), *[bad] * 10)
    assert len(told) == 1 and words in told[0] and "exchange 0" in told[0]
    assert said(*[bad] * (LOOKS - 1)) == []


def test_what_is_no_number_is_named_at_once() -> None:
    assert "no number" in said(look(cosine=float("nan")))[0]


def test_exchanges_are_told_apart() -> None:
    """Looks at a good exchange between those at a bad one do not hide it."""
    both = [each for _ in range(LOOKS) for each in (look(), look(cosine=0.0, slot=1))]
    told = said(*both)
    assert len(told) == 1 and "exchange 1" in told[0]
