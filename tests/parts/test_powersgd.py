"""PowerSGD: what its factors come to, for any shape, rank and type of number, and what is kept of it."""

from __future__ import annotations

from itertools import pairwise
from math import sqrt

import pytest
import torch
from tests.laws.lockstep import blocks, everybody, exchange
from tests.parts.test_codecs import by_oneself
from torch import Tensor

from gossamer.parts.chance import Chance
from gossamer.parts.codec import Block, ErrorFeedback, Heard, PowerSGD, alone
from gossamer.parts.codec.powersgd import matrix


def test_a_tensor_is_seen_as_rows_against_the_rest() -> None:
    assert [matrix(shape) for shape in ((8, 3, 3, 3), (5,), (), (4, 6))] == [(8, 27), (5, 1), (1, 1), (4, 6)]


def test_full_rank_powersgd_is_dense() -> None:
    given = blocks(3, 1)
    talk = exchange(PowerSGD(rank=64), given, everybody([1 / 3] * 3), [{}, {}, {}])
    torch.testing.assert_close(talk.mixed[0].double(), talk.mean([b.flat for b in given]), atol=1e-4, rtol=1e-4)


def test_powersgd_finds_a_matrix_of_its_rank_at_once() -> None:
    draw = torch.Generator().manual_seed(2)
    low = torch.randn(9, 2, generator=draw) @ torch.randn(2, 7, generator=draw)
    torch.testing.assert_close(by_oneself(PowerSGD(2), low.reshape(-1), ((9, 7),)).view(9, 7), low)


def test_vectors_go_beside_the_factors_as_they_are() -> None:
    """A column, a row, a vector, a number: exact in one turn, in as many bytes as they have; none in the other."""
    shapes = ((7, 1), (1, 5), (3,), ())
    flat = torch.linspace(-1.0, 1.0, 16)
    talk = PowerSGD(2).converse(Block(flat, shapes), {}, Chance(0, 0, 0, 0))
    wire = next(talk)
    assert torch.equal(wire.body, flat) and [size.likely for size in PowerSGD(2).wire_bytes(shapes, 4)] == [64, 0]
    assert talk.send(alone(wire)).body.numel() == 0
    assert torch.equal(by_oneself(PowerSGD(2), flat, shapes), flat)


def test_powersgd_warms_up_towards_the_best_factors() -> None:
    """One power iteration per exchange: on the same matrix the error falls to that of the truncated SVD."""
    values = torch.diag(torch.tensor([5.0, 3.0, 0.5, 0.2, 0.1]))
    draw = torch.Generator().manual_seed(3)
    left, right = (torch.linalg.qr(torch.randn(5, 5, generator=draw)).Q for _ in range(2))
    full, memory = left @ values @ right.T, {}
    found = [by_oneself(PowerSGD(2), full.reshape(-1), ((5, 5),), memory).view(5, 5) for _ in range(8)]
    errors = [float((one - full).norm()) for one in found]
    best = sqrt(0.5**2 + 0.2**2 + 0.1**2)
    assert errors[-1] == pytest.approx(best, abs=1e-4) and errors[0] > best
    assert all(later <= earlier + 1e-5 for earlier, later in pairwise(errors))


@pytest.mark.parametrize(
    "flat",
    [
        torch.zeros(12),
        torch.ones(12),
        torch.full((12,), 1e-30),
        torch.eye(4)[:3].reshape(-1),
    ],
    ids=["zero", "rank one", "tiny", "deficient"],
)
def test_powersgd_is_finite_on_matrices_without_full_rank(flat: Tensor) -> None:
    memory: dict[str, Tensor] = {}
    for rank in (1, 3):
        memory.clear()
        for step in range(4):
            found = by_oneself(PowerSGD(rank), flat, ((3, 4),), memory, step)
            assert found.isfinite().all()
            assert float((found - flat).norm()) <= float(flat.norm()) * (1 + 1e-5) + 1e-12
        assert by_oneself(PowerSGD(rank), torch.linspace(-1, 1, 12), ((3, 4),), memory, 9).isfinite().all()


def test_all_members_start_powersgd_from_the_same_factor() -> None:
    speaking = [PowerSGD(2).converse(Block(torch.ones(12), ((3, 4),)), {}, Chance(1, 0, 0, m)) for m in range(3)]
    bodies = [next(one).body for one in speaking]
    assert torch.equal(bodies[0], bodies[1]) and torch.equal(bodies[0], bodies[2])


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16], ids=str)
def test_powersgd_of_16_bit_numbers_whose_means_are_heard_in_32(kind: torch.dtype) -> None:
    """As every fabric says them: two members, wires of 16 bits, answers wider."""
    shapes, draw = ((9, 7), (5,)), torch.Generator().manual_seed(2)
    flats = [torch.randn(68, generator=draw).to(kind) for _ in range(2)]
    memories: list[dict[str, Tensor]] = [{}, {}]
    for step in range(3):
        talks = [
            ErrorFeedback(PowerSGD(2)).converse(Block(flat, shapes), memory, Chance(0, 0, step, member))
            for member, (flat, memory) in enumerate(zip(flats, memories, strict=True))
        ]
        wires = [next(talk) for talk in talks]
        for _ in range(2):
            assert {wire.body.dtype for wire in wires} == {kind}
            heard = Heard(whole=torch.stack([wire.body.float() for wire in wires]).mean(0))
            ends: list[Tensor] = []
            for place, talk in enumerate(talks):
                try:
                    wires[place] = talk.send(heard)
                except StopIteration as end:
                    ends.append(end.value[0])
        assert len(ends) == 2 and torch.equal(*ends) and ends[0].dtype == kind
        mean = torch.stack([flat.float() for flat in flats]).mean(0)
        assert (ends[0].float()[63:] - mean[63:]).abs().max() < 0.02, "vectors are exact, but for 16 bits"


def test_what_was_said_in_vain_is_not_lost() -> None:
    """A conversation that ends before its answer: residual and gradient are both still to be sent."""
    memory = {"residual": torch.full((12,), 0.5)}
    talk = ErrorFeedback(PowerSGD(1)).converse(Block(torch.ones(12), ((3, 4),)), memory, Chance(0, 0, 0, 0))
    next(talk)
    talk.close()
    assert torch.equal(memory["residual"], torch.full((12,), 1.5))
