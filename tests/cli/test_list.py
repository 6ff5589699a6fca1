"""`gossamer list`: the whole catalogue, and every line of it can be typed back in."""

from __future__ import annotations

from tests.cli.ask import ask, told

from gossamer.strategy import CATALOG, parse


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
