"""What an exchange says of itself: whether it meets, who updates, what mass travels, how many bytes a turn takes."""

from __future__ import annotations

import pytest
from torch import nn

from gossamer.parts.refusal import Refused
from gossamer.replica import Layout
from gossamer.strategy import Exchange, parse, slots

TAGS = Layout(nn.Sequential(nn.Linear(10, 6), nn.Linear(6, 2))).tags  # matrices of 60 and 12, vectors of 6 and 2
DOUBLE = Layout(nn.Linear(3, 2).double()).tags


@pytest.mark.parametrize(
    ("text", "meets", "at_hub", "mass"),
    [
        ("allreduce", False, False, False),
        ("parameter_server", False, True, False),
        ("backup_workers", False, True, False),
        ("ssp", False, True, False),
        ("downpour", True, False, False),
        ("easgd", False, False, False),
        ("local_sgd", False, False, False),
        ("diloco", False, False, False),
        ("gossip_pull", True, False, False),
        ("sgp", False, False, True),
        ("Exchange(codec=DGC())", False, False, False),
        ("Exchange(topology=Exponential())", False, False, False),
        ("Exchange(payload=PARAMETERS, topology=RandomPeer(), synchrony=Synchrony(staleness=2))", True, False, False),
    ],
)
def test_who_waits_who_updates_and_what_travels(text: str, meets: bool, at_hub: bool, mass: bool) -> None:
    (exchange,) = slots(parse(text))
    assert (exchange.meets, exchange.updates_at_hub, exchange.carries_mass) == (meets, at_hub, mass)


@pytest.mark.parametrize(
    ("text", "turns"),
    [
        ("allreduce", [[320]]),
        ("sgp", [[324]]),  # the mass is one number more
        ("Exchange(codec=Half())", [[160]]),
        ("Exchange(where=Dims(most=1))", [[32]]),
        ("dgc", [[0], [320]]),  # nothing is large here; the rest goes as it is
        ("one_bit(where=Matrices(60))", [[8 + 80], [80]]),  # 60 bits, two means for each of 10 columns
        ("powersgd(rank=2)", [[96, 128]]),  # P: (6 + 2) x 2 numbers and the vectors' 8, Q: (10 + 6) x 2
        ("Exchange(codec=TopK(keep=0.5))", [[8 * (30 + 3 + 6 + 1)]]),
        ("Exchange(codec=Ternary())", [[16, 20]]),
    ],
)
def test_bytes_of_each_turn_without_running(text: str, turns: list[list[int]]) -> None:
    found = [[size.likely for size in exchange.wire_bytes(TAGS)] for exchange in slots(parse(text))]
    assert found == turns


def test_bytes_follow_the_type_of_the_model() -> None:
    assert [size.likely for size in Exchange().wire_bytes(DOUBLE)] == [64]
    assert [size.likely for size in slots(parse("sgp"))[0].wire_bytes(DOUBLE)] == [72]
    assert [size.likely for size in Exchange().wire_bytes([])] == [0]


def test_a_warm_up_is_told_as_a_range() -> None:
    (size,) = slots(parse("dgc(density=0.01, warmup=8, where=Everything())"))[0].wire_bytes(TAGS)
    assert (size.low, size.likely, size.high) == (32, 32, 8 * (24 + 3 + 5 + 1))


@pytest.mark.parametrize("field", Exchange.__dataclass_fields__)
def test_every_axis_takes_its_own_kind_only(field: str) -> None:
    for wrong in ("gradients", 5, None, Exchange):
        with pytest.raises(Refused, match=f"Exchange: {field} must be a"):
            Exchange(**{field: wrong})
