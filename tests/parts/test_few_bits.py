"""The codecs that write few bits: what lies on the wire byte by byte, what is drawn, and what happens at the edges."""

from __future__ import annotations

from math import inf, nan

import numpy as np
import pytest
import torch
from tests.laws.lockstep import blocks, everybody, exchange
from tests.laws.wrong_codecs import Hopeful
from torch import Tensor

from gossamer.parts.chance import Chance
from gossamer.parts.codec import (
    QSGD,
    AdaComp,
    Block,
    Codec,
    Conversation,
    ErrorFeedback,
    Natural,
    OneBit,
    Proportion,
    Sign,
    Significant,
    Slice,
    Ternary,
    Threshold,
    TopK,
    decoded,
    laid_down,
)
from gossamer.parts.codec.bits import pack_bits, unpack_bits
from gossamer.parts.codec.signed import _one_mean
from gossamer.parts.codec.sparse import scatter_mean
from gossamer.parts.refusal import Refused

SHAPES = ((64, 128), (64,))
COUNT = 64 * 128 + 64
NEW = (
    OneBit(), Sign(), QSGD(), QSGD(bits=2), QSGD(bits=8, bucket=3), Natural(), Threshold(), Proportion(), AdaComp(),
    AdaComp(bin=1), Slice(), Significant(),
)  # fmt: skip


def said(
    codec: Codec, block: Block, step: int = 0, member: int = 0, memory: dict | None = None
) -> tuple[bytes, Tensor]:
    """The bytes a member puts on the wire, and what it says they stand for."""
    talking = codec.converse(block, {} if memory is None else memory, Chance(11, 2, step, member))
    wire = next(talking)
    assert wire.meant is not None
    return wire.body.numpy().tobytes(), laid_down(wire.meant)


def meant(codec: Codec, values: list[float] | Tensor, dtype: torch.dtype = torch.float32, step: int = 0) -> Tensor:
    """What a vector becomes."""
    flat = torch.as_tensor(values, dtype=dtype)
    return said(codec, Block(flat, ((flat.numel(),),), torch.ones_like(flat)), step)[1]


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 64, 1001])
def test_codes_are_packed_without_gaps(bits: int, count: int) -> None:
    codes = torch.randint(0, 2**bits, (count,), dtype=torch.uint8, generator=torch.Generator().manual_seed(count))
    body = pack_bits(codes, bits)
    assert body.dtype == torch.uint8 and body.numel() == (count * bits + 7) // 8
    assert torch.equal(unpack_bits(body, bits, count), codes)


def expected_bytes(codec: Codec, v: np.ndarray, beside: np.ndarray) -> int:
    """Bytes on the wire counted on paper, of 32-bit numbers v in tensors of SHAPES."""
    matrix, vector = v[: 64 * 128], v[64 * 128 :]
    match codec:
        case OneBit():
            return COUNT // 8 + 2 * (128 + 1) * 4
        case Sign():
            return COUNT // 8 + 2 * 4
        case QSGD(bits, bucket):
            return COUNT * bits // 8 + -(-COUNT // bucket) * 4
        case Natural():
            return COUNT + COUNT // 8
        case Threshold(threshold):
            return 4 * int((np.abs(v) > np.float32(threshold)).sum())
        case Proportion(keep):
            sides = [(side * part > 0).sum() for part in (matrix, vector) for side in (1, -1)]
            return 4 * 4 + 4 * int(sum(np.ceil(keep * count) for count in sides))
        case AdaComp(bin):
            bins = [b for part in (matrix, vector) for b in np.split(np.abs(part), range(bin, part.size, bin))]
            return 2 * 4 + 4 * sum(int((2 * b >= b.max()).sum()) for b in bins)  # the first time H is 2 G
        case Slice(of):
            return 4 + 4 * (COUNT // of)
        case Significant(threshold):
            return 8 * int((np.abs(v) > np.float32(threshold) * np.abs(beside)).sum())
    raise AssertionError(codec)


@pytest.mark.parametrize("codec", [*NEW, Threshold(1.5), Proportion(0.3), Significant(2.0)], ids=repr)
def test_bytes_on_the_wire_are_the_bytes_on_paper(codec: Codec) -> None:
    block = blocks(1, 4, shapes=SHAPES)[0]
    body, _ = said(codec, block)
    assert block.beside is not None
    assert len(body) == expected_bytes(codec, block.flat.numpy(), block.beside.numpy())


def test_one_bit_is_a_thirty_second_and_its_columns() -> None:
    shares = [len(said(OneBit(), blocks(1, 0, shapes=((rows, 8),))[0])[0]) / (rows * 8 * 4) for rows in (8, 64, 4096)]
    assert shares == pytest.approx([1 / 32 + 2 / rows for rows in (8, 64, 4096)])


def test_one_bit_read_off_the_wire_by_hand_leaves_the_residual_bit_for_bit() -> None:
    """residual = fl(input - decoded); residual + decoded is within an ulp of the input (C47)."""
    codec, memory, before = ErrorFeedback(OneBit()), {}, np.zeros(24, np.float32)
    for step in range(8):
        block = blocks(1, step, shapes=((6, 4),))[0]
        body, _ = said(codec, block, step, memory=memory)
        means = np.frombuffer(body[:32], np.float32)
        bits = np.array([body[32 + place % 3] >> place // 3 & 1 for place in range(24)]).reshape(6, 4)
        decoded = np.where(bits, means[:4], means[4:]).ravel()
        whole = block.flat.numpy() + before
        assert (bits.ravel() == (whole >= 0)).all()
        residual = memory["residual"].numpy()
        assert (residual == whole - decoded).all()
        off = np.abs(residual.astype(np.float64) + decoded - whole)
        assert (off <= np.spacing(np.maximum(np.abs(whole), np.abs(decoded)))).all()
        before = residual.copy()


def test_one_bit_means_are_those_of_the_columns() -> None:
    flat = torch.tensor([1.0, -1.0, 3.0, 0.0, -2.0, 5.0])
    _, found = said(OneBit(), Block(flat, ((3, 2),)))
    assert found.tolist() == [2.0, -1.0, 2.0, 2.5, -2.0, 2.5]
    assert meant(OneBit(), flat).tolist() == [2.25, -1.5, 2.25, 2.25, -1.5, 2.25]


def test_a_sign_is_as_large_as_the_tensor_is_on_average() -> None:
    assert meant(Sign(), [3.0, -1.0, 0.0, -4.0]).tolist() == [2.0, -2.0, 2.0, -2.0]


def test_a_threshold_lets_pass_what_is_above_it() -> None:
    assert meant(Threshold(0.5), [0.5, 0.75, -3.0, -0.5, 0.0]).tolist() == [0.0, 0.5, -0.5, 0.0, 0.0]
    body, _ = said(Threshold(0.5), Block(torch.tensor([0.0, 0.75, -3.0]), ((3,),)))
    assert np.frombuffer(body, np.uint32).tolist() == [1, 2 + 2**31]


def test_a_proportion_of_each_side_becomes_its_mean() -> None:
    values = [4.0, 1.0, 3.0, 2.0, -8.0, 0.0, -1.0, -4.0]
    assert meant(Proportion(0.5), values).tolist() == [3.5, 0.0, 3.5, 0.0, -6.0, 0.0, 0.0, -6.0]
    assert meant(Proportion(1e-9), values).tolist() == [4.0, 0.0, 0.0, 0.0, -8.0, 0.0, 0.0, 0.0]


def test_adacomp_sends_what_stands_out_in_its_bin() -> None:
    values = [1.0, -8.0, 3.0, 0.0, 2.0, 1.0, 0.5]  # bins of 3: maxima 8, 2, 0.5 and their mean 3.5
    assert meant(AdaComp(3), values).tolist() == [0.0, -3.5, 0.0, 0.0, 3.5, 3.5, 3.5]


def test_all_ranges_are_sent_in_turn_and_members_begin_at_different_ones() -> None:
    flat = torch.arange(1.0, 12.0)
    sent = [[said(Slice(4), Block(flat, ((11,),)), step, member)[1] for step in range(4)] for member in range(4)]
    assert all(torch.equal(sum(mine), flat) for mine in sent)
    assert all(torch.equal(sum(mine[step] for mine in sent), flat) for step in range(4))
    assert sent[1][2].nonzero().squeeze(1).tolist() == [8, 9, 10]


def test_what_is_significant_depends_on_the_parameter_and_falls_with_the_step() -> None:
    flat, beside = torch.tensor([0.1, 0.1, 0.1, 0.0]), torch.tensor([0.0, -0.9, 1.1, 0.0])
    block = Block(flat, ((4,),), beside)
    assert said(Significant(0.1), block)[1].tolist() == pytest.approx([0.1, 0.1, 0.0, 0.0])
    assert said(Significant(0.1), block, step=1)[1].tolist() == pytest.approx([0.1, 0.1, 0.1, 0.0])
    with pytest.raises(Refused, match="Significant compares each element"):
        said(Significant(), Block(flat, ((4,),)))


@pytest.mark.parametrize("codec", NEW, ids=repr)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(
    "shapes", [(), ((0,),), ((),), ((1,),), ((0,), (3, 0), (2, 2), (), (0, 3), (5,))], ids=lambda s: str(len(s))
)
def test_odd_shapes_and_types_come_back(codec: Codec, dtype: torch.dtype, shapes: tuple) -> None:
    count = sum(int(np.prod(shape)) for shape in shapes)
    flat = torch.linspace(-1.0, 1.0, 2 * count)[::2].to(dtype)  # no element is 0
    given = [Block(flat, shapes, 0.5 * flat), Block(flat * 2, shapes, flat)]
    talk = exchange(codec, given, everybody([0.5, 0.5]), [{}, {}])
    for end in (*talk.mixed, *talk.heard_of_me):
        assert end.dtype == dtype and end.shape == flat.shape and end.isfinite().all()
    (size,) = codec.wire_bytes(shapes, flat.element_size())
    assert all(size.low <= wire.body.nbytes <= size.high for wire in talk.wires[0])


@pytest.mark.parametrize("codec", [OneBit(), Sign(), QSGD(), Proportion(), AdaComp(), Significant()], ids=repr)
@pytest.mark.parametrize("value", [0.3, -7.5, 1e-30, -3e38])
def test_one_element_alone_is_told_as_it_is(codec: Codec, value: float) -> None:
    assert meant(codec, [value]).item() == pytest.approx(value, rel=1e-6)


def test_powers_of_two_stay_what_they_are() -> None:
    powers = [1.0, -0.25, 1024.0, 2.0**-126, -(2.0**127), 0.0]
    assert meant(Natural(), powers).tolist() == powers


@pytest.mark.parametrize(
    ("value", "dtype", "wanted"),
    [(3.4e38, torch.float32, 2.0**127), (1e300, torch.float64, 2.0**127), (65504.0, torch.float16, 2.0**15),
     (1e-300, torch.float64, 0.0), (nan, torch.float32, -inf), (-inf, torch.float32, -inf)],
)  # fmt: skip
def test_exponents_out_of_range_end_at_the_edge(value: float, dtype: torch.dtype, wanted: float) -> None:
    assert meant(Natural(), [value] * 50, dtype).unique().tolist() == [wanted]


@pytest.mark.parametrize("scale", [1e-38, 1e-22, 1e22, 1e36])
def test_qsgd_squares_neither_overflow_nor_vanish(scale: float) -> None:
    found = meant(QSGD(bits=8), torch.linspace(-1, 1, 256) * scale)
    assert float((found - torch.linspace(-1, 1, 256) * scale).abs().max()) < scale * 10 / 127


# Unbiased over 10,000 draws: a vector many times over, so that many draws are made at once.

DRAWS, COPIES = 10_000, 500
VECTOR = blocks(1, 9, torch.float64, shapes=((36,),))[0].flat * torch.logspace(-2, 1, 36, dtype=torch.float64)


def drawn(codec: Codec, chance: type[Chance] = Chance) -> Tensor:
    """What VECTOR became in 10,000 draws, one in each row."""
    block, found = Block(VECTOR.repeat(COPIES), ((36,),) * COPIES), []
    for step in range(DRAWS // COPIES):
        talking = codec.converse(block, {}, chance(5, 1, step, step % 3))
        wire = next(talking)
        assert wire.meant is not None
        found.append(laid_down(wire.meant).view(COPIES, 36))
    return torch.cat(found)


def beyond(found: Tensor, wanted: Tensor, variance: Tensor) -> float:
    """By how many deviations of the mean the worst element is off."""
    off = (found.mean(0) - wanted).abs()
    return float((off / (variance / len(found)).sqrt().clamp_min(1e-12)).max())


def qsgd_variance(s: int) -> Tensor:
    unit = VECTOR.norm() / s
    share = (VECTOR.abs() / unit).frac()
    return unit**2 * share * (1 - share)


def natural_variance() -> Tensor:
    low = 2 ** VECTOR.abs().log2().floor()
    return (VECTOR.abs() - low) * (2 * low - VECTOR.abs())


class Half(Chance):
    """Always draws one half, so that values are rounded and not drawn."""

    def uniform_like(self, like: Tensor) -> Tensor:
        return torch.full_like(like, 0.5)


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_qsgd_is_unbiased_on_the_grid_and_within_its_variance(bits: int) -> None:
    s, codec, length = 2 ** (bits - 1) - 1, QSGD(bits, bucket=36), float(VECTOR.norm())
    found = drawn(codec)
    levels = found / length * s
    assert float((levels - levels.round()).abs().max()) < 1e-9 and float(levels.abs().max()) <= s + 1e-9
    assert beyond(found, VECTOR, qsgd_variance(s)) < 4
    spread = float((found - VECTOR).square().sum(1).mean())
    assert spread == pytest.approx(float(qsgd_variance(s).sum()), rel=0.05)
    assert spread <= min(36 / s**2, 6 / s) * length**2
    assert bits == 8 or spread > min(36 / 127**2, 6 / 127) * length**2  # the bound of more levels would not hold
    assert beyond(drawn(codec, Half), VECTOR, qsgd_variance(s)) > 4


def test_natural_is_unbiased_between_powers_of_two() -> None:
    found = drawn(Natural())
    low = 2 ** VECTOR.abs().log2().floor()
    assert ((found.abs() == low) | (found.abs() == 2 * low)).all() and (found.sign() == VECTOR.sign()).all()
    assert beyond(found, VECTOR, natural_variance()) < 4
    assert float((found - VECTOR).square().sum(1).mean()) <= float(VECTOR.square().sum()) / 8  # Horvath et al.
    assert beyond(drawn(Natural(), Half), VECTOR, natural_variance()) > 4


def test_natural_is_unbiased_where_numbers_are_denormal() -> None:
    found = meant(Natural(), [2.0**-128] * DRAWS)
    assert set(found.tolist()) == {0.0, 2.0**-126}
    assert int((found > 0).sum()) == pytest.approx(DRAWS / 4, abs=4 * (DRAWS * 3 / 16) ** 0.5)


def test_terngrad_is_unbiased_for_the_clipped_gradient() -> None:
    bound = float(2.5 * VECTOR.std(correction=0))
    clipped = VECTOR.clamp(-bound, bound)
    assert not torch.equal(clipped, VECTOR)
    scale, found = clipped.abs().max(), []
    block = Block(VECTOR.repeat(COPIES), ((36,),) * COPIES)
    for step in range(DRAWS // COPIES):
        found.append(exchange(Ternary(), [block], everybody([1.0]), [{}], step).mixed[0].view(COPIES, 36))
    variance = clipped.abs() * (scale - clipped.abs())
    assert beyond(torch.cat(found), clipped, variance) < 4
    assert beyond(torch.cat(found), VECTOR, variance) > 4


def gone(codec: Codec) -> float:
    """The most, over elements and steps, by which what was sent and what is kept is not what was given."""
    memory: dict[str, Tensor] = {}
    given, sent, most = torch.zeros(36, dtype=torch.float64), torch.zeros(36, dtype=torch.float64), 0.0
    for step in range(40):
        block = blocks(1, step, torch.float64)[0]
        given += block.flat
        sent += decoded(codec, next(codec.converse(block, memory, Chance(11, 2, step, 0))), block)
        most = max(most, float((sent + memory["residual"] - given).abs().max()))
    assert float(sent.abs().sum()) > 1
    return most


KEEPING = (ErrorFeedback(Threshold(0.3)), ErrorFeedback(TopK(0.1)), ErrorFeedback(Proportion(0.1)), AdaComp(5))


@pytest.mark.parametrize("codec", KEEPING, ids=repr)
def test_what_was_sent_and_what_is_kept_is_what_was_given(codec: Codec) -> None:
    """Element by element, step by step (C50)."""
    assert gone(codec) < 1e-12


class Greedy(AdaComp):
    """Clears what it sent instead of taking off what was heard of it."""

    def converse(self, block: Block, memory: dict[str, Tensor], chance: Chance) -> Conversation:
        wire = next(super().converse(block, memory, chance))
        assert wire.meant is not None
        memory["residual"][laid_down(wire.meant) != 0] = 0.0
        heard = yield wire
        return scatter_mean(heard, block, _one_mean), wire.meant


@pytest.mark.parametrize("wrong", [Greedy(5), ErrorFeedback(Hopeful(0.1))], ids=repr)
def test_what_is_lost_is_found_out(wrong: Codec) -> None:
    assert gone(wrong) > 1e-3
