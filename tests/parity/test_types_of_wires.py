"""Whatever type of number a codec sends, to everybody or to a hub, real processes equal the rehearsal."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.parity import odd_codecs

from gossamer.engine.crew import Crew
from gossamer.engine.lines import DTYPES, number_of
from gossamer.parts.world import World
from gossamer.recipes import Optimizer
from gossamer.sim import Plan, Rehearsal
from gossamer.strategy import parse


@pytest.fixture
def two(crews: Callable[[int], Crew]) -> Crew:
    """Two real workers."""
    return crews(2)


KINDS = [str(dtype).removeprefix("torch.") for dtype in DTYPES]


def test_hubs_hear_every_type_a_codec_may_send() -> None:
    assert {"bool", "uint8", "int8", "int16", "int32", "int64"} < set(KINDS)
    assert {"float16", "bfloat16", "float32", "float64"} < set(KINDS)


@pytest.mark.parametrize("topology", ["Complete", "Hub"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_wire_of_any_type_is_heard_as_it_was_sent(two: Crew, kind: str, topology: str) -> None:
    strategy = parse(f"Exchange(topology={topology}(), codec=Typed(kind={kind!r}))")
    start = torch.nn.utils.parameters_to_vector(odd_codecs.task().model.parameters()).detach()
    played = Rehearsal(Plan(odd_codecs.task(), strategy, World(two.size), Optimizer(rate=0.2), 5, 3)).run()
    given = {"task": "tests.parity.odd_codecs:task", "batch": 5, "rate": 0.2}
    two.run(strategy="allreduce()", steps=1, **given)  # after which workers know the codec
    result = two.run(strategy=repr(strategy), steps=3, **given)
    assert (played.replicas - start).abs().max() > 1e-3
    torch.testing.assert_close(result.replicas, played.replicas, rtol=0, atol=1e-12)
    assert result.sent == sum(sum(record.sent.values()) for record in played.steps)


def test_a_type_nobody_knows_is_named() -> None:
    with pytest.raises(TypeError, match=r"torch\.complex64 cannot travel.*int8"):
        number_of(torch.complex64)
