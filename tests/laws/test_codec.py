"""Every codec keeps its promises: wires of the stated size, one mix for all, nothing written that is not its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from tests.laws.lockstep import SHAPES, Talk, blocks, everybody, exchange, talks
from tests.laws.specimens import CODECS
from tests.laws.wrong_codecs import (
    Boastful,
    Coarse,
    Deaf,
    Fickle,
    Forgetful,
    Grabbing,
    Hopeful,
    Liar,
    Meddler,
    Modest,
    Nervous,
    Noisy,
    Remembering,
    Sharing,
    Soothing,
    Squared,
    Stubborn,
    Talkative,
)  # fmt: skip
from torch import Tensor

from gossamer.parts.codec import Codec, Each, Mean, TopK, decoded, laid_down
from gossamer.parts.payload import Payload

Law = Callable[[Codec], str | None]


def agrees(codec: Codec) -> bool:
    """Whether all members end with one value; a codec for parameters alone pulls each member part of the way."""
    return Payload.GRADIENTS in codec.payloads


def off(found: Tensor, wanted: Tensor, talk: Talk) -> bool:
    return not float((found.double() - wanted.double()).abs().max()) <= talk.tolerance()


def wires_are_of_the_stated_size(codec: Codec) -> str | None:
    """As many wires as turns, each of a size that was stated without running."""
    for talk, _ in talks(codec, steps=10):
        stated = codec.wire_bytes(SHAPES, talk.blocks[0].flat.element_size())
        if not len(talk.wires) == len(stated) == codec.turns:
            return f"{len(talk.wires)} wires, {len(stated)} sizes stated, {codec.turns} turns"
        for turn, (wires, size) in enumerate(zip(talk.wires, stated, strict=True)):
            made = sorted({wire.body.nbytes for wire in wires})
            if not size.low <= made[0] <= made[-1] <= size.high or not size.low <= size.likely <= size.high:
                return f"turn {turn}: {made} bytes made, {size} stated"
            if any(isinstance(wire, Each) != size.gathered for wire in wires):
                return (
                    f"turn {turn}: {type(wires[0]).__name__} wires, stated as {'' if size.gathered else 'not '}gathered"
                )
    return None


def all_end_alike(codec: Codec) -> str | None:
    """After a complete exchange all hold one mix, bit for bit; a codec that pulls keeps the members' mean."""
    for talk, _ in talks(codec):
        if agrees(codec) and any(not torch.equal(talk.mixed[0], mixed) for mixed in talk.mixed):
            return "members end with different mixes"
        if not agrees(codec) and off(talk.mean(talk.mixed), talk.mean([b.flat for b in talk.blocks]), talk):
            return "the pull moves the mean of all members"
    return None


def mix_is_the_mean_of_what_is_heard(codec: Codec) -> str | None:
    """The mix is the weighted mean, over members, of what the others heard of each."""
    for talk, _ in talks(codec):
        if agrees(codec) and off(talk.mixed[0], talk.mean(talk.heard_of_me), talk):
            return f"{len(talk.blocks)} members: the mix is not the mean of what was heard of them"
    return None


def summed_in_flight_or_gathered(codec: Codec) -> str | None:
    """Where every wire is a Mean: decoding the sum equals summing what each wire stands for by itself."""
    for talk, _ in talks(codec):
        if not agrees(codec) or any(not isinstance(wires[0], Mean) for wires in talk.wires):
            return None
        apart = talk.heard_of_me
        if codec.turns == 1 and not codec.draws_alike:
            apart = [decoded(codec, wire, block) for wire, block in zip(talk.wires[0], talk.blocks, strict=True)]
        if off(talk.mixed[0], talk.mean(apart), talk):
            return f"{len(talk.blocks)} members: summed in flight is not gathered and summed"
    return None


def one_turn_is_decoded_alone(codec: Codec) -> str | None:
    """The only wire of a one-turn codec stands for what the others heard of its sender."""
    for talk, _ in talks(codec) if agrees(codec) and codec.turns == 1 and not codec.draws_alike else ():
        for wire, block, meant in zip(talk.wires[0], talk.blocks, talk.heard_of_me, strict=True):
            if not torch.equal(decoded(codec, wire, block), meant):
                return "a wire decoded alone is not what was heard of its sender"
    return None


def writes_to_nothing_lent(codec: Codec) -> str | None:
    """Neither the block, nor a wire in flight, nor what was heard (others hear it too) is written to."""
    touched = {what for talk, _ in talks(codec) for what in talk.written_to}
    return f"wrote to: {', '.join(sorted(touched))}" if touched else None


def memories_are_private(codec: Codec) -> str | None:
    """What a codec remembers shares no storage with the block, with what others hear, or with another's memory."""
    for talk, memories in talks(codec):
        kept = [{tensor.untyped_storage().data_ptr() for tensor in memory.values()} for memory in memories]
        lent = {t.untyped_storage().data_ptr() for t in (*talk.shared, talk.mixed[0], talk.blocks[0].flat)}
        if any(one & lent for one in kept) or sum(map(len, kept)) > len(set().union(*kept)):
            return f"a memory lies in storage that is not its own: {sorted(memories[0])}"
    return None


def loses_nothing_unless_lossy(codec: Codec) -> str | None:
    """A codec that is not lossy hands over every bit, and the plain mean comes back."""
    for talk, _ in talks(codec) if not codec.lossy else ():
        if any(not torch.equal(block.flat, h) for block, h in zip(talk.blocks, talk.heard_of_me, strict=True)):
            return "what was heard is not what was said"
        if off(talk.mixed[0], talk.mean([block.flat for block in talk.blocks]), talk):
            return "the mix is not the mean of the members"
    return None


def comes_back_in_shape(codec: Codec) -> str | None:
    """The mix and what was heard are flat, of the block's length and type, and finite."""
    for talk, _ in talks(codec):
        for block, *ends in zip(talk.blocks, talk.mixed, talk.heard_of_me, strict=True):
            for end in ends:
                if end.shape != block.flat.shape or end.dtype != block.flat.dtype or not end.isfinite().all():
                    return f"{end.dtype} {tuple(end.shape)} came back of {block.flat.dtype} {tuple(block.flat.shape)}"
    return None


def silence_stays_silence(codec: Codec) -> str | None:
    """Zeros come back as zeros, from the first exchange on and at any shape, and what comes after is finite."""
    for shapes in (SHAPES, ((1,),), ((1, 7), (7, 1)), ((2, 2, 2, 2),)):
        memories: list[dict[str, Tensor]] = [{}, {}]
        for step in range(2):
            zeros = [replace(block, flat=torch.zeros_like(block.flat)) for block in blocks(2, 0, shapes=shapes)]
            if exchange(codec, zeros, everybody([0.5, 0.5]), memories, step).mixed[0].any():
                return f"{shapes}: zeros come back as something else"
        after = exchange(codec, blocks(2, 1, shapes=shapes), everybody([0.5, 0.5]), memories, 2)
        if not after.mixed[0].isfinite().all():
            return f"{shapes}: not finite after zeros"
    return None


def what_is_not_finite_shows(codec: Codec) -> str | None:
    """A member whose numbers stay not finite at one place is not taken for a healthy one: the mix shows it."""
    for place, bad in ((0, float("nan")), (21, float("inf")), (35, float("-inf")), (22, float("nan"))):
        memories: list[dict[str, Tensor]] = [{}, {}]
        for step in range(104):  # a codec that sends a range at a time needs many
            given = blocks(2, step)
            given[0].flat[place] = bad
            if not exchange(codec, given, everybody([0.5, 0.5]), memories, step).mixed[0].isfinite().all():
                break
        else:
            return f"{bad} at {place} is swallowed"
    return None


def means_what_is_heard(codec: Codec) -> str | None:
    """A first wire that tells what the others will hear of its sender tells the truth, to the bit."""
    for talk, _ in talks(codec):
        for wire, heard in zip(talk.wires[0], talk.heard_of_me, strict=True):
            if wire.meant is not None and not torch.equal(laid_down(wire.meant), heard):
                return "what was meant is not what was heard"
    return None


def draws_from_its_chance_alone(codec: Codec) -> str | None:
    """Said again with the same chance, the wires are the same to the bit, whatever the global generator did."""
    bodies = []
    for seed in (1, 2):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            bodies.append([w.body for talk, _ in talks(codec) for wires in talk.wires for w in wires])
    same = all(torch.equal(a, b) for a, b in zip(*bodies, strict=True))
    return None if same else "the wires depend on something else than the chance"


def a_factor_passes_through(codec: Codec) -> str | None:
    """Of a proportional codec: four times what it is given, from one step on, comes to four times the mix."""
    if not codec.proportional:
        return None
    halves = everybody([0.5, 0.5])
    once, changed = ([dict[str, Tensor]() for _ in range(2)] for _ in range(2))
    for step in range(4):
        given, factor = blocks(2, step), 4.0 if step > 1 else 1.0
        wanted = exchange(codec, given, halves, once, step).mixed[0] * factor
        scaled = [replace(block, flat=block.flat * factor) for block in given]
        if not torch.equal(exchange(codec, scaled, halves, changed, step).mixed[0], wanted):
            return f"step {step}: {factor} times as much comes to something else"
    return None


LAWS = (
    wires_are_of_the_stated_size,
    all_end_alike,
    mix_is_the_mean_of_what_is_heard,
    summed_in_flight_or_gathered,
    one_turn_is_decoded_alone,
    writes_to_nothing_lent,
    memories_are_private,
    loses_nothing_unless_lossy,
    comes_back_in_shape,
    silence_stays_silence,
    what_is_not_finite_shows,
    means_what_is_heard,
    draws_from_its_chance_alone,
    a_factor_passes_through,
)


@pytest.mark.parametrize("codec", CODECS, ids=repr)
@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
def test_holds(law: Law, codec: Codec) -> None:
    assert law(codec) is None


WRONG = (
    (wires_are_of_the_stated_size, Boastful()),
    (wires_are_of_the_stated_size, Modest()),
    (wires_are_of_the_stated_size, Talkative()),
    (all_end_alike, Deaf()),
    (all_end_alike, Fickle()),
    (mix_is_the_mean_of_what_is_heard, Liar()),
    (summed_in_flight_or_gathered, Squared()),
    (one_turn_is_decoded_alone, Liar()),
    (writes_to_nothing_lent, Meddler()),
    (writes_to_nothing_lent, Grabbing()),
    (memories_are_private, Sharing()),
    (memories_are_private, Forgetful()),
    (loses_nothing_unless_lossy, Coarse()),
    (comes_back_in_shape, Nervous()),
    (silence_stays_silence, Nervous()),
    (what_is_not_finite_shows, Soothing()),
    (means_what_is_heard, Hopeful()),
    (draws_from_its_chance_alone, Noisy()),
    (a_factor_passes_through, Remembering(TopK())),
)


@pytest.mark.parametrize(("law", "wrong"), WRONG, ids=lambda one: getattr(one, "__name__", repr(one)))
def test_rejects(law: Law, wrong: Codec) -> None:
    assert law(wrong) is not None


def test_every_law_rejects_something() -> None:
    assert {law for law, _ in WRONG} == set(LAWS)


def test_members_out_of_step_are_found_out() -> None:
    with pytest.raises(AssertionError, match="out of step"):
        all_end_alike(Stubborn())
