"""Who goes on without a lost member is read off the fields of a strategy."""

from __future__ import annotations

import pytest

from gossamer.strategy import CATALOG, parse


@pytest.mark.parametrize(
    ("expression", "survives"),
    [
        ("allreduce", False),  # all wait for all
        ("local_sgd", False),
        ("parameter_server", False),  # the hub may be what was lost
        ("Exchange(payload=PARAMETERS, topology=RandomPeer(), synchrony=Synchrony(staleness=None))", True),
        ("Exchange(payload=PARAMETERS, topology=RandomPeer(), synchrony=Synchrony(staleness=3))", False),  # a gate
    ],
)
def test_it_follows_from_the_fields(expression: str, survives: bool) -> None:
    assert parse(expression).survives is survives


def test_one_exchange_that_waits_is_enough_to_stop_all() -> None:
    pull = "Exchange(payload=PARAMETERS, topology=RandomPeer(), synchrony=Synchrony(staleness=None))"
    assert not parse(f"{pull} + Exchange()").survives
    assert not parse(f"Staged(first=Exchange(payload=PARAMETERS), step=5, then={pull})").survives


def test_a_part_of_the_catalogue_survives() -> None:
    assert {entry.name for entry in CATALOG if parse(entry.name).survives} == {"gossip_pull", "gossip_push", "adpsgd"}
