"""`gossamer list` with filters, or with a name: who is found, what is refused, and what an empty answer advises."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.cli.ask import ask, refused, told

from gossamer.cli.filters import axes
from gossamer.cli.rows import entries, systems
from gossamer.strategy import CATALOG
from gossamer.strategy.expression import parts
from gossamer.strategy.systems import OUTSIDE, SYSTEMS, Outside


def found(*words: str) -> set[str]:
    """The names of the entries that pass."""
    return {entry["name"] for entry in told("list", *words)["strategies"]}


def others(*words: str) -> set[str]:
    """The names of the systems that pass."""
    return {system["name"] for system in told("list", *words)["systems"]}


def ours(words: Sequence[str]) -> list[str]:
    """Without the parts that other tests have made, if they were loaded before."""
    return [word for word in words if getattr(parts().get(word), "__module__", "gossamer").startswith("gossamer")]


def test_filters_combine() -> None:
    assert found("--sync", "async", "--exchange", "parameters") == {
        "gossip_pull", "gossip_push", "adpsgd", "async_easgd", "eamsgd",
    }  # fmt: skip
    assert found("--sync", "async", "--exchange", "parameters", "--pattern", "gossip") == {
        "gossip_pull", "gossip_push", "adpsgd",
    }  # fmt: skip
    assert found("--sync", "bounded", "--optimisation", "centralised") == {"ssp", "ako"}


def test_filters_apply_to_systems() -> None:
    assert others("--sync", "bounded") == {"Parameter Server (Li), bounded delay", "Petuum"}
    assert others("--exchange", "deltas") == {"DistBelief", "CNTK, BMUF"}
    assert others("--compression", "Threshold") == {"MXNet, 2-bit", "DL4J, shared gradients"}


@pytest.mark.parametrize(
    ("flag", "field", "word"),
    [(flag, axis.field, word) for flag, axis in axes().items() for word in ours(axis.words)[:3] if word != "Dense"],
)
def test_a_filter_finds_those_whose_position_has_the_word_and_nobody_else(flag: str, field: str, word: str) -> None:
    def has(place: str) -> bool:
        words = [one.split(", ")[0] for one in place.split(" + ")]
        return place != "none" if word == "any" else word in words

    everybody, answer = told("list"), told("list", flag, word)
    for kind in ("strategies", "systems"):
        assert answer[kind] == [row for row in everybody[kind] if has(row["position"][field])]
        assert answer[kind]


def test_every_word_of_every_position_can_be_asked_for() -> None:
    for row in [*entries(), *systems()]:
        for axis in axes().values():
            assert axis.of(row) <= set(axis.words)
            assert axis.of(row)


def test_who_has_several_words_is_found_by_each() -> None:
    for way in (("--optimisation", "centralised"), ("--optimisation", "decentralised"), ("--exchange", "parameters")):
        assert "post_local_sgd" in found(*way)
    assert "gossip_pga" in found("--pattern", "gossip") & found("--pattern", "all-reduce")
    assert "Poseidon" in others("--pattern", "parameter server") & others("--pattern", "all-reduce")


@pytest.mark.parametrize(
    ("short", "long"),
    [
        (("--sync", "sync"), ("--sync", "synchronous")),
        (("--sync", "async"), ("--sync", "asynchronous")),
        (("--sync", "bounded"), ("--sync", "bounded asynchronous")),
        (("--pattern", "parameter_server"), ("--pattern", "parameter server")),
        (("--pattern", "allreduce"), ("--pattern", "all-reduce")),
        (("--optimization", "Decentralized"), ("--optimisation", "decentralised")),
        (("--compression", "powersgd"), ("--compression", "PowerSGD")),
        (("--exchange", "grad"), ("--exchange", "gradients")),
    ],
)
def test_words_may_be_cut_short_or_spelt_otherwise(short: tuple[str, str], long: tuple[str, str]) -> None:
    assert told("list", *short) == told("list", *long)
    assert 0 < len(found(*short)) < len(CATALOG)


def test_bounded_is_not_unbounded() -> None:
    assert not found("--sync", "bounded") & found("--sync", "async")


def test_compression_finds_a_codec_inside_another() -> None:
    assert found("--compression", "TopK") == {"gradient_dropping"}
    assert found("--compression", "Half") == {"half", "tencent", "sony", "two_levels"}
    assert found("--compression", "none") | found("--compression", "any") == {entry.name for entry in CATALOG}
    assert not found("--compression", "none") & found("--compression", "any")


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (("--sync", "asink"), "asynchronous"),
        (("--sync", "synchronus"), "synchronous"),
        (("--exchange", "paramters"), "parameters"),
        (("--optimisation", "decentral1sed"), "decentralised"),
        (("--pattern", "gosip"), "gossip"),
        (("--compression", "PowrSGD"), "PowerSGD"),
        (("eesgd",), "easgd"),
        (("Projekt Adam",), "Project Adam"),
    ],
)
def test_an_unknown_word_is_refused_with_the_nearest(words: tuple[str, ...], near: str) -> None:
    assert refused("list", *words).strip().endswith(f"nearest that works: {near}")


def test_a_word_like_no_other_is_told_all_there_are() -> None:
    for name in ("nosuch", "banana", "elastic"):
        assert refused("list", name).endswith("nearest that works: gossamer list\n")
    assert "gradients, parameters, deltas" in refused("list", "--exchange", "weights")
    assert "rotating partners or random partners" in refused("list", "--pattern", "r")
    assert "is none of" in refused("list", "--sync", "")


def test_an_empty_answer_says_what_to_drop() -> None:
    answer = ask("list", "--sync", "async", "--pattern", "all-reduce")
    assert answer.exit_code == 0
    counts = [len(found(*way)) + len(others(*way)) for way in (("--pattern", "all-reduce"), ("--sync", "async"))]
    assert answer.stdout.splitlines() == [
        "Nothing stands at --sync asynchronous --pattern all-reduce.",
        f"Without --sync asynchronous: {counts[0]}.",
        f"Without --pattern all-reduce: {counts[1]}.",
    ]


def test_the_fewest_filters_to_drop_may_be_two() -> None:
    words = ("--sync", "bounded", "--exchange", "deltas", "--compression", "DGC")
    lines = ask("list", *words).stdout.splitlines()
    assert len(lines) == 4
    assert lines[1].startswith("Without --sync 'bounded asynchronous' and --exchange deltas: ")


def test_an_empty_answer_is_still_one_object() -> None:
    answer = ask("list", "--sync", "async", "--pattern", "all-reduce", "--json")
    assert told("list", "--sync", "async", "--pattern", "all-reduce") == {"strategies": [], "systems": []}
    assert "Without --sync asynchronous" in answer.stderr


def test_a_name_is_shown_in_full() -> None:
    screen = ask("list", "parameter_server").stdout
    for word in (
        "A hub averages all gradients", "Exchange(topology=Hub())", "centralised", "synchronous", "Li et al. 2014",
        "docs/catalogue/parameter_server.md", "GeePS; SINGA, synchronous",
    ):  # fmt: skip
        assert word in screen
    assert [entry["name"] for entry in told("list", "Local-SGD")["strategies"]] == ["local_sgd"]


def test_a_system_is_shown_in_all_its_ways_and_as_placed_by_us() -> None:
    ways = told("list", "mxnet")
    assert ways["strategies"] == []
    assert [way["name"] for way in ways["systems"]] == ["MXNet, synchronous", "MXNet, asynchronous", "MXNet, 2-bit"]
    assert ask("list", "mxnet").stdout.count("placed by us") == 3
    assert [way["name"] for way in told("list", "MXNet, 2-bit")["systems"]] == ["MXNet, 2-bit"]


def test_every_system_is_marked_as_placed_by_us_wherever_it_is_told() -> None:
    for system in told("list")["systems"]:
        assert system["placement"] == "placed by us"
        assert "paper" not in system
    assert ask("list").stdout.count("placed by us") == len(SYSTEMS) + 1


@pytest.mark.parametrize("outside", OUTSIDE, ids=lambda outside: outside.name)
def test_who_is_outside_is_told_why(outside: Outside) -> None:
    assert outside.reason in refused("list", outside.name)


def test_what_leaves_nothing_to_filter_is_refused() -> None:
    assert "gossamer list easgd" in refused("list", "easgd", "--sync", "sync")
    assert "gossamer list --parts" in refused("list", "--parts", "--sync", "sync")
    assert "gossamer list easgd" in refused("list", "easgd", "--parts")
