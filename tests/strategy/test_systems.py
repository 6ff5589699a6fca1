"""Systems that are an expression of ours: each can be read, stands where we say, and nobody of paper 2 is forgotten."""

from __future__ import annotations

import pytest

from gossamer.strategy import CATALOG, parse, position
from gossamer.strategy.systems import OUTSIDE, SYSTEMS, System

# Who is to be found somewhere: the systems and algorithms that paper 2 is about, as we gathered them.
LITERATURE = (
    "DistBelief", "Downpour", "DistBelief Sandblaster L-BFGS", "Project Adam", "Hogwild!", "Parameter Server (Li)",
    "Petuum", "GeePS", "Poseidon", "SINGA", "MXNet", "TensorFlow", "CNTK", "FireCaffe", "SparkNet", "CaffeOnSpark",
    "BigDL", "DeepSpark", "DL4J", "EASGD", "EAMSGD", "MPCA-SGD", "CROSSBOW", "Ako", "Gaia", "Horovod", "D-PSGD",
    "AD-PSGD", "Gossiping SGD", "GoSGD", "GossipGraD", "GPipe", "PipeDream",
)  # fmt: skip

# Optimisation and scheduling, from each system's design; in the order of its ways.
PLACES = {
    "DistBelief": [("centralised", "asynchronous")],
    "Project Adam": [("centralised", "asynchronous")],
    "Parameter Server (Li)": [
        ("centralised", "synchronous"), ("centralised", "bounded asynchronous"), ("centralised", "asynchronous"),
    ],
    "Petuum": [("centralised", "bounded asynchronous")],
    "GeePS": [("centralised", "synchronous")],
    "Poseidon": [("centralised", "synchronous")],
    "SINGA": [("centralised", "synchronous"), ("centralised", "asynchronous")],
    "MXNet": [("centralised", "synchronous"), ("centralised", "asynchronous"), ("centralised", "synchronous")],
    "TensorFlow": [("centralised", "synchronous"), ("centralised", "synchronous"), ("centralised", "asynchronous")],
    "CNTK": [
        ("centralised", "synchronous"), ("decentralised", "synchronous"), ("decentralised", "synchronous"),
        ("centralised", "asynchronous"),
    ],
    "CaffeOnSpark": [("centralised", "synchronous")],
    "BigDL": [("centralised", "synchronous")],
    "DeepSpark": [("decentralised", "asynchronous")],
    "DL4J": [("decentralised", "synchronous"), ("centralised", "synchronous")],
    "MPCA-SGD": [("decentralised", "asynchronous")],
    "Gossiping SGD": [("decentralised", "asynchronous"), ("decentralised", "asynchronous")],
    "GoSGD": [("decentralised", "asynchronous")],
    "Rudra": [("centralised", "asynchronous")],
    "Caffe2": [("centralised", "synchronous")],
    "PyTorch DDP": [("centralised", "synchronous")],
}  # fmt: skip


def folded(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def homes(name: str) -> list[str]:
    """Where a system of the literature is to be found: as an entry, as a system, or told to be outside."""
    names = {
        "entry": [entry.name for entry in CATALOG],
        "system": [system.title for system in SYSTEMS],
        "outside": [outside.name for outside in OUTSIDE],
    }
    return [home for home, known in names.items() if folded(name) in map(folded, known)]


@pytest.mark.parametrize("name", LITERATURE)
def test_nobody_is_forgotten_and_nobody_is_told_twice(name: str) -> None:
    assert len(homes(name)) == 1


def test_somebody_unknown_would_be_missed() -> None:
    assert homes("Hydra-Hoard") == []


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda system: system.name)
def test_every_system_is_an_expression_that_can_be_read(system: System) -> None:
    assert parse(repr(parse(system.expression))) == parse(system.expression)
    assert system.says.endswith(".") and "\n" not in system.says


def test_every_system_stands_where_its_design_puts_it() -> None:
    found: dict[str, list[tuple[str, str]]] = {}
    for system in SYSTEMS:
        place = position(parse(system.expression))
        found.setdefault(system.title, []).append((place.optimisation, place.scheduling))
    assert found == PLACES


def test_names_differ_and_reasons_are_given() -> None:
    assert len({folded(system.name) for system in SYSTEMS}) == len(SYSTEMS)
    assert all(len(outside.reason) > 20 for outside in OUTSIDE)
