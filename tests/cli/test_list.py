"""`gossamer list`: the whole catalogue, and every line of it can be typed back in."""

from __future__ import annotations

from tests.cli.ask import ask, told

from gossamer.strategy import CATALOG, parse, parse_trouble
from gossamer.strategy.expression import ROUTES, WORDS, parts
from gossamer.tasks.build import OURS, build


def test_json_holds_every_entry_and_its_position() -> None:
    found = told("list")
    assert list(found) == ["strategies"]
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


def test_the_table_names_everybody() -> None:
    result = ask("list")
    assert result.exit_code == 0
    for entry in CATALOG:
        assert f"{entry.name}(" in result.stdout


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
            staleness = None if item["name"] in ("RandomPush", "RandomPair") else 0
            synchrony = f"Synchrony(every=2, staleness={staleness})"
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
