"""The published runs are as sure as our sources make them, fact by fact: this list is held by hand against those."""

from __future__ import annotations

import pytest
from tests.cli.ask import ask

from gossamer.recipes.published import FACTS, HARDLY, READ, REMEMBERED, RUNS, TOLD, Run

SURE = {  # of each work: what was read in it or its abstract, what another text told, and what all the rest is
    "He et al.": ("", "", REMEMBERED),
    "Goyal et al. (Facebook)": ("", "batches count seconds", REMEMBERED),
    "Smith et al. (Google)": ("", "", REMEMBERED),
    "You et al. (UC Berkeley)": ("", "", HARDLY),
    "Akiba et al. (PFN)": ("batches count processors seconds", "", REMEMBERED),
    "Jia et al. (Tencent)": ("", "batches count seconds", REMEMBERED),
    "Ying et al. (Google)": ("", "", HARDLY),
    "Mikami et al. (Sony), v1": ("", "count processors library seconds top1", REMEMBERED),
    "Mikami et al. (Sony), v2": ("seconds", "library", REMEMBERED),
}


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.work)
def test_no_fact_is_surer_than_its_source(run: Run) -> None:
    read, told, rest = SURE[run.work]
    wanted = dict.fromkeys(FACTS, rest) | dict.fromkeys(told.split(), TOLD) | dict.fromkeys(read.split(), READ)
    assert run.described()["sure"] == wanted
    if rest == HARDLY:
        assert run.source == "our memory"


def test_every_work_is_in_the_list() -> None:
    assert [run.work for run in RUNS] == list(SURE)


def test_what_is_remembered_is_marked_where_it_is_printed() -> None:
    lines = {line[:24].strip(): line.split() for line in ask("recipes").stdout.splitlines()}
    assert lines["Akiba et al. (PFN)"][4:] == [
        "32K", "1,024", "x", "P100", "15", "min", "~74.90%", "128,117", "40"
    ]  # fmt: skip
    assert "?75.40%" in lines["You et al. (UC Berkeley)"] and "~P100" in lines["Goyal et al. (Facebook)"]
    told = " ".join(ask("recipes", "akiba").stdout.split())
    assert "(read: batch, how many processors, which processors, time; remembered: library, accuracy)" in told


def test_sony_does_not_pass_for_the_122_seconds() -> None:
    told = " ".join(ask("recipes", "sony").stdout.split())
    assert "Both of Sony's runs in one" in told and "did not grow the batch" in told
