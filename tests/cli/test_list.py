"""`gossamer list`: the whole catalogue, and every line of it can be typed back in."""

from __future__ import annotations

import pytest
from tests.cli.ask import ask, told

from gossamer.strategy import CATALOG, parse, parse_trouble
from gossamer.strategy.expression import ROUTES, WORDS, parts
from gossamer.strategy.systems import OUTSIDE, SYSTEMS
from gossamer.tasks.build import OURS, build


def test_json_holds_every_entry_and_its_position() -> None:
    found = told("list")
    assert list(found) == ["strategies", "systems"]
    assert [entry["name"] for entry in found["strategies"]] == [entry.name for entry in CATALOG]
    positions = {entry["name"]: entry["position"] for entry in found["strategies"]}
    assert positions["allreduce"] == {
        "parallelism": "data",
        "optimisation": "centralised",
        "scheduling": "synchronous",
        "pattern": "all-reduce",
        "exchanged": "gradients",
        "compression": "none",
    }
    assert positions["gossip_pull"]["scheduling"] == "asynchronous"
    assert positions["easgd"]["optimisation"] == "decentralised"


def test_name_usage_and_expression_all_read_as_the_same_strategy() -> None:
    for entry in told("list")["strategies"]:
        assert parse(entry["name"]) == parse(entry["usage"]) == parse(entry["expression"])
        assert entry["sentence"].endswith(".")
        assert entry["paper"]


@pytest.mark.parametrize("columns", [80, 140])
def test_everybody_is_named_in_lines_that_fit(columns: int) -> None:
    result = ask("list", columns=columns)
    assert result.exit_code == 0
    told = " ".join(result.stdout.split())
    for entry in CATALOG:
        assert f" {entry.name}(" in told
    for system in SYSTEMS:
        assert f"{system.name} = " in told
    for outside in OUTSIDE:
        assert outside.name in told
    assert max(map(len, result.stdout.splitlines())) <= columns
    assert len(result.stdout.splitlines()) < (250 if columns == 140 else 450)


def test_everybody_stands_below_the_heading_of_their_place() -> None:
    places: dict[str, list[str]] = {}
    for line in ask("list", columns=200).stdout.splitlines():
        if line.startswith(("Centralised", "Decentralised")):
            heading = places.setdefault(line.strip(), [])
        elif line.startswith("  ") and line[2:3].strip():
            heading.append(line.split("(")[0].split("=")[0].strip())
    assert places["Decentralised, asynchronous: parameters by parameter server"] == [
        "async_easgd", "eamsgd", "DeepSpark", "MPCA-SGD",
    ]  # fmt: skip
    assert places["Centralised + decentralised, synchronous: gradients + parameters by all-reduce"] == [
        "post_local_sgd"
    ]
    assert places["Centralised, bounded asynchronous: gradients by parameter server"][0] == "ssp"
    assert "dgc" in places["Centralised, synchronous: gradients by all-reduce, compressed"]
    first = [heading.split(",")[0] for heading in places]
    assert first == sorted(first, key=["Centralised", "Centralised + decentralised", "Decentralised"].index)


def test_the_vocabulary_is_what_the_reader_of_expressions_reads() -> None:
    found = told("list", "--parts")["parts"]
    assert list(found) == [
        "payload", "order", "late", "topology", "codec", "merge", "route", "where", "synchrony", "composing", "trouble",
        "task options",
    ]  # fmt: skip
    named = {item["name"] for axis, items in found.items() if axis not in ("trouble", "task options") for item in items}
    assert named == {*parts(), *WORDS}
    assert all(f"or {name}" in str(found["route"]) for name in ROUTES)
    assert {item["name"] for item in found["task options"]} == set(OURS)
    assert [item["usage"] for item in found["trouble"]] == [
        "slow(rank, factor, start=0, stop=None)",
        "fail(rank, step)",
    ]


def test_words_stand_under_their_axis_and_can_be_typed() -> None:
    found = told("list", "--parts")["parts"]
    for item in found["topology"]:
        if item["name"] not in ("Graph", "Hub"):
            met = item["name"].startswith("Random")  # a partner that is met as it is: nobody is in step with it
            synchrony = "Synchrony(every=2, staleness=None)" if met else "Synchrony(every=2)"
            assert parse(f"Exchange(payload=PARAMETERS, topology={item['name']}(), synchrony={synchrony})")
    for item in found["trouble"]:
        assert parse_trouble(f"{item['name']}(0, 2)").lines
    for item in found["task options"]:
        if item["name"] != "idx":
            options = dict(pair.split("=") for pair in item["usage"].partition("(")[2].rstrip(")").split(", "))
            assert build(item["name"], 0, {key: eval(value) for key, value in options.items()}).size


def test_the_vocabulary_is_told_axis_by_axis() -> None:
    screen = ask("list", "--parts").stdout
    for word in (
        "topology: who hears whom",
        "RandomPeer(pulls=1)",
        "GRADIENTS, PARAMETERS, DELTAS",
        "every: local updates",
    ):
        assert word in screen
    assert "gossamer list --parts" in ask("list").stdout
