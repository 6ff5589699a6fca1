"""The numbers inside each codec: what is picked, packed, clipped, drawn and factored."""

from __future__ import annotations

from math import ceil

import numpy
import pytest
import torch
from tests.laws.lockstep import blocks, everybody, exchange
from torch import Tensor

from gossamer.parts.chance import Chance
from gossamer.parts.codec import (
    DGC,
    AdaComp,
    Block,
    Brain,
    Codec,
    Conversation,
    Each,
    ErrorFeedback,
    Half,
    Max,
    Mean,
    OneBit,
    Proportion,
    Sign,
    Ternary,
    TopK,
    alone,
    decoded,
)
from gossamer.parts.codec.bits import pack_bits, unpack_bits
from gossamer.parts.codec.sparse import kept, pack, top, unpack
from gossamer.replica import combine


def by_oneself(codec: Codec, flat: Tensor, shapes: tuple, memory: dict | None = None, step: int = 0) -> Tensor:
    """The mix of a member that hears nobody else."""
    return exchange(codec, [Block(flat, shapes)], everybody([1.0]), [{} if memory is None else memory], step).mixed[0]


def test_wires_combine_as_they_say() -> None:
    bodies = [torch.tensor([1.0, 5.0]), torch.tensor([3.0, -5.0])]
    assert combine([(0.25, Mean(bodies[0])), (0.75, Mean(bodies[1]))]).one().tolist() == [2.5, -2.5]
    assert combine([(0.25, Max(bodies[0])), (0.75, Max(bodies[1]))]).one().tolist() == [3.0, 5.0]
    apart = combine([(0.25, Each(bodies[0])), (0.75, Each(bodies[1]))]).apart
    assert [weight for weight, _ in apart] == [0.25, 0.75] and all(
        a is b for (_, a), b in zip(apart, bodies, strict=True)
    )
    with pytest.raises(AssertionError, match="apart"):
        alone(Each(bodies[0])).one()


def test_what_follows_from_what_was_heard_is_worked_out_once() -> None:
    heard, made = combine([(1.0, Mean(torch.ones(2)))]), []
    assert [heard.once("it", lambda: made.append(1) or len(made)) for _ in range(3)] == [1, 1, 1]


def test_half_rounds_to_nearest() -> None:
    fine = torch.tensor([1.0, 1.0 + 2**-11, 1.0 + 3 * 2**-11, 0.1])
    assert by_oneself(Half(), fine, ((4,),)).tolist() == numpy.float16(fine.numpy()).astype(numpy.float32).tolist()


def test_top_k_keeps_the_largest_of_each_tensor() -> None:
    flat = torch.tensor([1.0, -9.0, 3.0, 0.5, 0.1, 0.2, -0.3])
    assert by_oneself(TopK(0.5), flat, ((4,), (3,))).tolist() == pytest.approx([0, -9.0, 3.0, 0, 0, 0.2, -0.3])
    assert by_oneself(TopK(1e-9), flat, ((4,), (3,))).tolist() == pytest.approx([0, -9.0, 0, 0, 0, 0, -0.3])


@pytest.mark.parametrize(
    ("shape", "keep", "count"),
    [((10,), 0.1, 1), ((10,), 0.11, 2), ((3, 4), 1.0, 12), ((), 0.5, 1), ((0,), 0.5, 0)],
)
def test_no_tensor_starves(shape: tuple[int, ...], keep: float, count: int) -> None:
    assert kept(shape, keep) == count


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_indices_and_values_are_packed_in_bytes(dtype: torch.dtype) -> None:
    block = Block(torch.zeros(9, dtype=dtype), ((9,),))
    places, values = torch.tensor([0, 4, 8]), torch.tensor([1.5, -2.5, 3.0], dtype=dtype)
    body = pack(places, values)
    assert body.dtype == torch.uint8 and body.nbytes == 3 * (4 + values.element_size())
    found = unpack(body, block)
    assert torch.equal(found[0], places) and torch.equal(found[1], values)


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("masking", [False, True])
def test_dgc_is_the_algorithm_of_the_paper(nesterov: bool, masking: bool) -> None:
    codec, memory = DGC(0.4, 0.5, nesterov=nesterov, masking=masking), {}
    u, v = numpy.zeros(5), numpy.zeros(5)
    for step in range(6):
        g = torch.randn(5, dtype=torch.float64, generator=torch.Generator().manual_seed(step))
        found = by_oneself(codec, g, ((5,),), memory, step)
        u = 0.5 * (u + g.numpy()) if nesterov else 0.5 * u + g.numpy()
        v = v + u + (g.numpy() if nesterov else 0)
        sent = numpy.argsort(-abs(v))[:2]
        wanted = numpy.zeros(5)
        wanted[sent] = v[sent]
        v[sent] = 0
        if masking:
            u[sent] = 0
        numpy.testing.assert_allclose(found.numpy(), wanted, atol=1e-12)


@pytest.mark.parametrize("count", [100_000, 1_000_003])
@pytest.mark.parametrize("keep", [0.001, 0.01])
@pytest.mark.parametrize("kind", ["normal", "heavy", "sorted", "mostly zero", "periodic", "equal", "one nan"])
def test_a_sampled_bound_finds_the_largest_all_the_same(kind: str, keep: float, count: int) -> None:
    """Of a sample that misleads as of one that does not: as many as asked for, and none smaller than those left out."""
    torch.manual_seed(0)
    flat = torch.randn(count)
    match kind:
        case "heavy":
            flat = flat**5
        case "sorted":
            flat = flat.sort().values
        case "mostly zero":
            flat[torch.rand(count) < 0.9999] = 0.0
        case "periodic":
            flat[:: 1 + int(keep * count) // 100] *= 100
        case "equal":
            flat.fill_(-2.0)
        case "one nan":
            flat[count // 3] = float("nan")
    wanted = ceil(keep * count)
    places = top(flat, wanted)
    assert len(places) == len(places.unique()) == wanted
    sizes = flat.abs().nan_to_num(float("inf"))  # what is no number is larger than everything
    assert sizes[places].sort(descending=True).values.equal(sizes.topk(wanted).values)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("codec", [ErrorFeedback(Half()), ErrorFeedback(Brain())], ids=repr)
def test_what_is_in_16_bits_already_is_sent_all_the_same(codec: Codec, dtype: torch.dtype) -> None:
    """What is kept back is written over where the numbers were, and the wire must not lie there."""
    flat, memory = torch.tensor([1.0, 2.0, -3.0], dtype=dtype), dict[str, Tensor]()
    for step in range(2):
        talk = exchange(codec, [Block(flat, ((3,),))], everybody([1.0]), [memory], step)
        assert torch.equal(talk.mixed[0], flat)


def test_a_long_gradient_in_16_bits_is_cut_to_length() -> None:
    flat = torch.full((512,), 4163.0, dtype=torch.float16)  # longer than 65,504, which 16 bits can hold
    talk = exchange(DGC(1.0, 0.0, clip=1.0), [Block(flat, ((512,),), members=4)], everybody([1.0]), [{}])
    assert float(talk.mixed[0].float().norm()) == pytest.approx(0.5, rel=1e-2)


def test_dgc_warms_up_in_the_stages_of_the_paper() -> None:
    codec = DGC(density=0.001, warmup=8)
    stages = [codec.keeps(step) for step in (0, 2, 4, 6, 8, 1000)]
    assert stages == pytest.approx([0.2512, 0.0631, 0.0158, 0.0040, 0.001, 0.001], abs=1e-4)
    assert codec.keeps(1) == codec.keeps(0)


@pytest.mark.parametrize("count", range(1, 10))
def test_four_trits_fill_a_byte(count: int) -> None:
    signs = torch.tensor([(7 * place + count) % 3 - 1 for place in range(count)], dtype=torch.float32)
    body = pack_bits((signs + 1).to(torch.uint8), 2)
    assert body.dtype == torch.uint8 and body.numel() == (count + 3) // 4
    assert torch.equal(unpack_bits(body, 2, count).float() - 1, signs)


def bias(codec: Ternary, draws: int = 2000) -> str | None:
    """The mean of many draws is within 4 deviations of the clipped gradient; every value is -s, 0 or s."""
    shapes = ((12, 5), (40,))
    given = blocks(1, 3, shapes=shapes)[0]
    bounds = [codec.clip * float(part.std(correction=0)) if codec.clip else float("inf") for part in given.tensors()]
    clipped = torch.cat([part.clamp(-b, b).reshape(-1) for part, b in zip(given.tensors(), bounds, strict=True)])
    scale = torch.cat([part.abs().max().expand(part.numel()) for part in Block(clipped, shapes).tensors()])
    total = torch.zeros(100, dtype=torch.float64)
    for step in range(draws):
        drawn = by_oneself(codec, given.flat, shapes, step=step)
        if not ((drawn == 0) | (drawn == scale) | (drawn == -scale)).all():
            return "a value is neither -s nor 0 nor s"
        total += drawn
    deviation = (clipped.abs() * (scale - clipped.abs()) / draws).sqrt()
    surprise = float(((total / draws - clipped).abs() - 4 * deviation).max())
    return f"the mean is off by {surprise:.2g} beyond 4 deviations" if surprise > 1e-6 else None


@pytest.mark.parametrize("clip", [0.0, 2.5, 1.0])
def test_ternary_is_unbiased_for_the_clipped_gradient(clip: float) -> None:
    assert bias(Ternary(clip)) is None


class Certain(Chance):
    """Always draws one half, so that values are rounded and not drawn."""

    def uniform_like(self, like: Tensor) -> Tensor:
        return torch.full_like(like, 0.5)


class Rounded(Ternary):
    def converse(self, block: Block, memory: dict[str, Tensor], chance: Chance) -> Conversation:
        return super().converse(block, memory, Certain(0, 0, 0, 0))


class Clipless(Ternary):
    def _sizes(self, part: Tensor) -> tuple[Tensor, Tensor]:
        return part.new_tensor(float("inf")), part.abs().amax()


def test_a_biased_ternary_is_found_out() -> None:
    assert "mean is off" in (bias(Rounded(2.5), draws=200) or "")
    assert "neither" in (bias(Clipless(1.0), draws=200) or "")


def test_ternary_members_share_the_largest_scaler() -> None:
    given = [Block(torch.tensor([1.0, -1.0]), ((2,),)), Block(torch.tensor([4.0, 4.0]), ((2,),))]
    talk = exchange(Ternary(0.0), given, everybody([0.5, 0.5]), [{}, {}])
    assert talk.heard_of_me[1].tolist() == [4.0, 4.0]
    assert set(talk.heard_of_me[0].abs().tolist()) <= {0.0, 4.0}
    assert isinstance(talk.wires[0][0], Max) and [w.body.nbytes for w in talk.wires[1]] == [1, 1]


def test_what_dgc_has_sent_is_not_sent_again_before_the_answer_comes() -> None:
    """With a delay the next conversation begins before the last one has ended."""
    codec, memory, ones = DGC(density=0.25, momentum=0.0), {}, torch.ones(8)
    first = codec.converse(Block(ones, ((8,),)), memory, Chance(0, 0, 0, 0))
    second = codec.converse(Block(ones, ((8,),)), memory, Chance(0, 0, 1, 0))
    told = sum(float(decoded(codec, next(talk), Block(ones, ((8,),))).sum()) for talk in (first, second))
    assert told + float(memory["velocity"].sum()) == pytest.approx(16.0)


@pytest.mark.parametrize("codec", [Proportion(keep=1.0), AdaComp(bin=50), Sign(), OneBit()], ids=repr)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_means_of_many_16_bit_numbers_do_not_overflow(codec, dtype):
    block = Block(torch.ones(400 * 400, dtype=dtype), ((400, 400),))
    speaking = codec.converse(block, {}, Chance(0, 0, 0, 0))
    mixed, _ = ended(speaking, alone(next(speaking)))
    assert mixed.dtype is dtype and torch.equal(mixed, block.flat)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_ternary_sends_what_is_as_large_as_the_scaler_always(dtype):
    block = Block(torch.ones(20000, dtype=dtype), ((20000,),))
    speaking = Ternary(clip=0.0).converse(block, {}, Chance(1, 0, 0, 0))
    trits = speaking.send(alone(next(speaking)))
    mixed, _ = ended(speaking, alone(trits))
    assert torch.equal(mixed, block.flat)


def ended(speaking, heard):
    try:
        speaking.send(heard)
    except StopIteration as end:
        return end.value
    raise AssertionError("not over")
