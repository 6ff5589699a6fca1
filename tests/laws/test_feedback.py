"""What is not sent is not lost: error feedback telescopes, and differences lead lossy gossip to consensus."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from tests.laws.lockstep import SHAPES, Memories, blocks, everybody, exchange
from tests.laws.specimens import CODECS
from tests.laws.wrong_codecs import Fickle, Hopeful, Leaky, Patient, Thrifty
from torch import Tensor

from gossamer.parts.chance import Chance
from gossamer.parts.codec import (
    DGC,
    Block,
    Codec,
    Conversation,
    Difference,
    ErrorFeedback,
    Half,
    TopK,
    Wire,
    alone,
    decoded,
)
from gossamer.parts.topology import Complete, Cycle, hears
from gossamer.parts.world import World

Law = Callable[[Codec], str | None]
FEEDBACKS = tuple(ErrorFeedback(codec) for codec in CODECS if codec.lossy and not codec.remembers)
DIFFERENCES = tuple(codec for codec in CODECS if isinstance(codec, Difference))


def residual_is_what_was_not_heard(codec: Codec) -> str | None:
    """residual = fl(input - decoded), bit for bit, the input being what is new plus the last residual."""
    for dtype in (torch.float32, torch.float64):
        memories: Memories = [{}, {}, {}]
        for step in range(6):
            given = blocks(3, step, dtype)
            before = [memory.get("residual", torch.zeros_like(given[0].flat)).clone() for memory in memories]
            talk = exchange(codec, given, everybody([1 / 3] * 3), memories, step)
            for block, rest, heard, memory in zip(given, before, talk.heard_of_me, memories, strict=True):
                if not torch.equal(memory["residual"], (block.flat + rest) - heard):
                    return f"step {step}: the residual is not fl(input - decoded)"
    return None


def nothing_is_lost_on_the_way(codec: Codec) -> str | None:
    """All that came out, plus all that is still held back, is all that was put in."""
    size, steps, held = 4, 30, "velocity" if isinstance(codec, DGC) else "residual"
    memories: Memories = [{} for _ in range(size)]
    put_in, came_out = torch.zeros(36, dtype=torch.float64), torch.zeros(36, dtype=torch.float64)
    for step in range(steps):
        given = blocks(size, step, torch.float64)
        talk = exchange(codec, given, everybody([1 / size] * size), memories, step)
        put_in += talk.mean([block.flat for block in given])
        came_out += talk.mixed[0]
    kept = torch.stack([memory[held] for memory in memories]).mean(0)
    gap, allowed = float((put_in - came_out - kept).abs().max()), steps * talk.tolerance()
    return f"{gap:g} of what was put in is gone" if gap > allowed else None


def keeps_the_rest_before_the_answer(codec: Codec) -> str | None:
    """With a delay the next send comes before the answer: what the first did not tell is part of the second."""
    memory: dict[str, Tensor] = {}
    given = [blocks(1, step, torch.float64)[0] for step in range(3)]
    talking = [codec.converse(block, memory, Chance(11, 2, step, 0)) for step, block in enumerate(given)]
    wires = [next(one) for one in talking]
    if codec.turns == 1:
        told = sum(
            decoded(codec, wire, block, Chance(11, 2, step, 0))
            for step, (wire, block) in enumerate(zip(wires, given, strict=True))
        )
    else:  # who is answered in turns knows only then what was heard of it: all that is kept is there in the end
        told = sum(_ended(one, wire) for one, wire in zip(talking, wires, strict=True))
    gap = float((sum(block.flat for block in given) - told - memory.get("residual", 0.0)).abs().max())
    return f"{gap:g} of what was put in was neither told nor kept" if gap > 1e-12 else None


def _ended(talking: Conversation, wire: Wire) -> Tensor:
    """What a conversation comes to that hears nobody else."""
    while True:
        try:
            wire = talking.send(alone(wire))
        except StopIteration as end:
            mixed: Tensor = end.value[0]
            return mixed


def reaches_consensus(codec: Codec) -> str | None:
    """Lossy gossip on a circle (or, for two-turn codecs, among all) agrees in the end, on the mean of the start."""
    size, topology = 6, Complete() if codec.turns > 1 or codec.draws_alike else Cycle()
    rows = [hears(topology, member, 0, World(size), 0) for member in range(size)]
    memories: Memories = [{} for _ in range(size)]
    values = torch.stack([block.flat for block in blocks(size, 5, torch.float64)])
    mean, spread = values.mean(0), _spread(values)
    for step in range(400):
        talk = exchange(codec, [Block(row, SHAPES) for row in values], rows, memories, step)
        values = torch.stack(talk.mixed)
    moved, left = float((values.mean(0) - mean).abs().max()), _spread(values) / spread
    if not moved <= max(1e-9, talk.tolerance()):
        return f"the mean of the members moved by {moved:.2g}"
    return f"{left:.2g} of the spread is left" if not left < 1e-3 else None


def _spread(values: Tensor) -> float:
    return float((values - values.mean(0)).norm())


@pytest.mark.parametrize("codec", FEEDBACKS, ids=repr)
@pytest.mark.parametrize(
    "law",
    [residual_is_what_was_not_heard, nothing_is_lost_on_the_way, keeps_the_rest_before_the_answer],
    ids=lambda f: f.__name__,
)
def test_feedback_telescopes(law: Law, codec: Codec) -> None:
    assert law(codec) is None


@pytest.mark.parametrize("masking", [False, True])
def test_dgc_without_momentum_is_error_feedback_around_top_k(masking: bool) -> None:
    codec = DGC(density=0.1, momentum=0.0, masking=masking)
    assert nothing_is_lost_on_the_way(codec) is None
    memories, others = [{}, {}], [{}, {}]
    for step in range(5):
        one = exchange(codec, blocks(2, step), everybody([0.5, 0.5]), memories, step)
        other = exchange(ErrorFeedback(TopK(0.1)), blocks(2, step), everybody([0.5, 0.5]), others, step)
        torch.testing.assert_close(one.mixed[0], other.mixed[0])


@pytest.mark.parametrize("codec", DIFFERENCES, ids=repr)
def test_differences_lead_to_consensus(codec: Codec) -> None:
    assert reaches_consensus(codec) is None


@pytest.mark.parametrize(
    ("law", "wrong"),
    [
        (residual_is_what_was_not_heard, Leaky()),
        (residual_is_what_was_not_heard, Thrifty(codec=TopK(keep=0.1))),
        (nothing_is_lost_on_the_way, Leaky(codec=TopK(keep=0.1))),
        (nothing_is_lost_on_the_way, Thrifty(codec=TopK(keep=0.1))),
        (nothing_is_lost_on_the_way, ErrorFeedback(codec=Hopeful(keep=0.1))),
        (keeps_the_rest_before_the_answer, Patient(codec=TopK(keep=0.1))),
        (reaches_consensus, TopK(keep=0.4)),
        (reaches_consensus, Fickle(codec=TopK(keep=0.4), rate=0.25)),
    ],
    ids=lambda one: getattr(one, "__name__", repr(one)),
)
def test_rejects(law: Law, wrong: Codec) -> None:
    assert law(wrong) is not None


def test_feedback_makes_a_constant_gradient_arrive_in_full() -> None:
    """Half precision drops 2**-12 next to 1 every time; with feedback it comes through after a few steps."""
    fine = Block(torch.tensor([1.0 + 2.0**-12]), ((1,),))
    for codec, wanted in ((Half(), 64.0), (ErrorFeedback(Half()), 64.0 + 64 * 2.0**-12)):
        memory: dict[str, Tensor] = {}
        total = sum(float(exchange(codec, [fine], everybody([1.0]), [memory], s).mixed[0]) for s in range(64))
        assert total == pytest.approx(wanted, abs=1e-3 if codec == Half() else 2.0**-10)
