"""The compiled loops of the codecs say what the torch operations say, bit for bit wherever nothing is added up."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from gossamer.parts import kernel
from gossamer.parts.chance import Chance
from gossamer.parts.codec import QSGD, Block, Codec, Each, Heard, Int8, Natural, OneBit, Sign, Ternary, Wire, laid_down
from gossamer.parts.codec.bits import pack_bits, pack_signs, unpack_bits

pytestmark = pytest.mark.skipif(kernel.library() is None, reason="no C compiler was at hand")
SHAPES = [((1,),), ((7,),), ((8,), (9,)), ((3, 5), (), (64,), (2, 3, 4)), ((65, 33), (1000,)), ((300, 17), (4097,))]
CODECS = [
    Natural(),
    Int8(),
    Int8(bucket=7),
    OneBit(),
    Sign(),
    QSGD(2, 7),
    QSGD(4),
    QSGD(8, 100),
    Ternary(),
    Ternary(clip=0.0),
]


@pytest.fixture(params=["compiled", "torch"])
def loops(request: pytest.FixtureRequest) -> Iterator[str]:
    """One way, then the other."""
    kernel.switch_off(request.param == "torch")
    yield request.param
    kernel.switch_off(False)


def block(shapes: tuple[tuple[int, ...], ...], seed: int = 0) -> Block:
    torch.manual_seed(seed)
    return Block(torch.randn(sum(torch.Size(shape).numel() for shape in shapes)), shapes)


def talk(codec: Codec, given: Block, off: bool) -> tuple[list[Tensor], Tensor, Tensor]:
    """The bodies a member says, the mix where another says the same, and what it means; by one of the two ways."""
    kernel.switch_off(off)
    try:
        talking, bodies = codec.converse(given, {}, Chance(3, 1, 4, 1)), []
        wire: Wire = next(talking)
        while True:
            bodies.append(wire.body)
            heard = Heard(whole=wire.body)
            if isinstance(wire, Each):
                heard = Heard(apart=((0.25, wire.body), (0.75, wire.body.clone())))
            try:
                wire = talking.send(heard)
            except StopIteration as end:
                return bodies, end.value[0], laid_down(end.value[1])
    finally:
        kernel.switch_off(False)


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("codec", CODECS, ids=repr)
def test_both_ways_say_and_hear_the_same(codec: Codec, shapes: tuple[tuple[int, ...], ...]) -> None:
    given = block(shapes)
    (one, mixed, meant), (other, mixed_, meant_) = (talk(codec, given, off) for off in (False, True))
    assert [body.nbytes for body in one] == [body.nbytes for body in other]
    assert (mixed - mixed_).abs().max() <= 2e-6 * given.flat.abs().max() * len(given.flat) ** 0.5
    assert (meant - meant_).abs().max() <= 2e-6 * given.flat.abs().max() * len(given.flat) ** 0.5
    assert (mixed - meant).abs().max() <= 1e-6 * meant.abs().max()


def test_draws_are_the_same_to_the_bit_and_uniform() -> None:
    like, chance = torch.empty(100_000), Chance(1, 2, 3, 4)
    one = chance.uniform_like(like)
    kernel.switch_off()
    other = chance.uniform_like(like)
    kernel.switch_off(False)
    assert torch.equal(one, other)
    assert one.min() >= 0.0 and one.max() < 1.0
    counts = torch.histc(one, 100, 0.0, 1.0)
    assert ((counts - 1000) ** 2 / 1000).sum() < 150  # of 99 degrees of freedom
    pairs = torch.histc((one[::2] * 10).floor() + 10 * (one[1::2] * 10).floor() + 0.5, 100, 0.0, 100.0)
    assert ((pairs - 500) ** 2 / 500).sum() < 150  # neighbours know nothing of each other
    for near in (Chance(1, 2, 3, 5), Chance(1, 2, 4, 4), Chance(1, 3, 3, 4)):
        assert torch.corrcoef(torch.stack([one, near.uniform_like(like)]))[0, 1].abs() < 0.015


@pytest.mark.parametrize("count", [1, 2, 7, 8, 9, 255, 256, 257, 2047, 2048, 2049, 5000])
def test_signs_and_codes_are_packed_alike(count: int) -> None:
    torch.manual_seed(count)
    flat = torch.randn(count)
    flat[::5], flat[1::7] = 0.0, -0.0
    kernel.switch_off()
    wanted = pack_signs(flat)
    kernel.switch_off(False)
    assert torch.equal(pack_signs(flat), wanted)
    for bits in (2, 4, 8):
        codes = torch.randint(2**bits, (count,), dtype=torch.uint8)
        kernel.switch_off()
        wanted = pack_bits(codes, bits)
        kernel.switch_off(False)
        assert torch.equal(pack_bits(codes, bits), wanted)
        assert torch.equal(unpack_bits(wanted, bits, count), codes)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("codec", CODECS, ids=repr)
def test_what_is_not_finite_shows(codec: Codec, bad: float, loops: str) -> None:
    given = block(((40, 10), (70,)))
    given.flat[123] = bad
    assert not talk(codec, given, loops == "torch")[1].isfinite().all()


@pytest.mark.parametrize("scale", [1e-42, 1e-30, 1e30, 1e35])
@pytest.mark.parametrize("codec", CODECS, ids=repr)
def test_very_small_and_very_large_numbers_are_numbers(codec: Codec, scale: float, loops: str) -> None:
    given = block(((40, 10), (70,)))
    given.flat.mul_(scale)
    _, mixed, _ = talk(codec, given, loops == "torch")
    assert mixed.isfinite().all() and mixed.abs().max() <= 10 * given.flat.double().norm()
