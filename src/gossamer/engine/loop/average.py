"""The exact average of the replicas: what is evaluated and kept, while training goes on from the local ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from gossamer.engine.fabrics import Key
from gossamer.engine.loop.living import Means, Meeting
from gossamer.engine.loop.lookout import aside
from gossamer.engine.loop.session import Session
from gossamer.engine.loop.state import gather
from gossamer.engine.loop.strand import Strand
from gossamer.engine.lost import MemberLost
from gossamer.parts.codec import Mean
from gossamer.parts.route import Native

PIECE = 1 << 20  # numbers of an average that are under way at once
ASIDE = 0x7F  # the slot of what no strategy asked for

Plain = dict[str, Tensor]  # a model's parameters and buffers, by its own names


def mean(fabric: Means, mine: Tensor) -> Tensor:
    """The mean of all members' tensors, piece by piece, so that a fabric needs little memory for it; all call alike."""
    if fabric.size == 1:
        return mine.clone()
    sent, heard = fabric.sent[ASIDE], fabric.heard[ASIDE]
    whole = torch.empty_like(mine, memory_format=torch.contiguous_format)
    flat, found = mine.reshape(-1), whole.view(-1)
    for start in range(0, flat.numel(), PIECE):
        part, into = flat[start : start + PIECE], found[start : start + PIECE]
        with aside.waiting():
            into.copy_(fabric.everyone(Key(ASIDE, 0, 0), Mean(part), Native()).wait().one())
    fabric.sent[ASIDE], fabric.heard[ASIDE] = sent, heard  # no part of the strategy's bytes
    return whole


@contextmanager
def averaged(session: Session, models: Sequence[nn.Module]) -> Iterator[Meeting]:
    """Within, all members' models are the exact average, buffers of floating numbers too; afterwards their own again.

    All members enter it alike; who is there, and carries their mixes, is given. Where a hub owns the parameters, the
    average is what the hub has.
    """
    strands = [strand for course in session.courses for strand in course.strands]
    buffers = _floating(models)
    gather(session)
    met, models_of_all, buffers_of_all = _met(session, strands, buffers)
    own = [strand.replica.parameters.clone() for strand in strands]
    kept = [buffer.clone() for buffer in buffers]
    try:
        with torch.no_grad():
            for strand, values in zip(strands, models_of_all, strict=True):
                write(strand, values)
            for buffer, values in zip(buffers, buffers_of_all, strict=True):
                buffer.copy_(values)
        for course in session.courses:
            course.masters.round(course.strands)
        yield met
    finally:
        with torch.no_grad():
            for strand, mine in zip(strands, own, strict=True):
                write(strand, mine)
            for buffer, mine in zip(buffers, kept, strict=True):
                buffer.copy_(mine)
        for course in session.courses:
            course.masters.round(course.strands)
            course.rested()


@torch.no_grad()
def _met(
    session: Session, strands: Sequence[Strand], buffers: Sequence[Tensor]
) -> tuple[Meeting, list[Tensor], list[Tensor]]:
    """Who is there, and the averages of strands and buffers: of those that are left, where one dies meanwhile."""
    before: Sequence[int] = ()
    while True:
        met, lost, found = session.living.meet(), None, ([], [])  # type: ignore[var-annotated]
        try:
            found = [agreed(strand, met) for strand in strands], [mean(met.fabric, buffer) for buffer in buffers]
        except MemberLost as error:
            lost = error
        if session.living.all_have(met, lost is None):
            return met, *found
        if not session.survives or list(met.present) == list(before):  # nobody is gone whom it would help to leave out
            raise lost or MemberLost("others have no average")
        before = met.present


@torch.no_grad()
def plain(session: Session, models: Sequence[nn.Module]) -> tuple[Meeting, list[Plain]]:
    """Who is there, and each model's `state_dict` as the exact average of their replicas has it. All call it alike."""
    owned = [(course, strand) for course in session.courses for strand in course.strands]
    buffers = _floating(models)
    met, averages, means = _met(session, [strand for _, strand in owned], buffers)
    found = {id(buffer): mean for buffer, mean in zip(buffers, means, strict=True)}
    for (course, strand), values in zip(owned, averages, strict=True):
        found |= {
            id(course.masters.weight(t)): v for t, v in zip(strand.tensors, strand.layout.views(values), strict=True)
        }
    states = [model.state_dict(keep_vars=True) for model in models]
    plains = [{n: found.get(id(t), t).detach() for n, t in each.items() if isinstance(t, Tensor)} for each in states]
    return met, plains


def _floating(models: Sequence[nn.Module]) -> list[Tensor]:
    return [buffer for model in models for buffer in model.buffers() if buffer.is_floating_point()]


def write(strand: Strand, values: Tensor) -> None:
    """Put values where a strand's parameters are; parameters that exist once are what they are."""
    if not single(strand):
        with strand.stepper.still():
            strand.replica.parameters.copy_(values)


def single(strand: Strand) -> bool:
    """Whether the parameters exist once for all members."""
    return strand.shard is not None


@torch.no_grad()
def agreed(strand: Strand, met: Meeting) -> Tensor:
    """The model of all that have met: the average by mass; where a hub owns the parameters, the hub's centre."""
    if single(strand):
        return strand.replica.parameters
    replica, fabric = strand.replica, met.fabric
    mass = next((desk.mass for desk in replica.desks if desk.exchange.carries_mass), 1.0)
    with strand.stepper.still():
        mine = replica.parameters * mass
    total = mean(fabric, mine)
    if any(desk.exchange.carries_mass for desk in replica.desks):
        total /= mean(fabric, torch.tensor([mass], dtype=torch.float64, device=total.device)).to(total.dtype)
    for slot, desk in enumerate(replica.desks):
        if slot in strand.stepper.stepped_at_hubs() and strand.stepper.visits is not None:
            told = strand.stepper.visits.told_by(slot, first=replica.member == met.present[0])
            desk.chosen.put(total, mean(fabric, told) * len(met.present))
    return total


def divergence(strand: Strand, model: Tensor) -> tuple[float, float]:
    """Squares of this replica's distance from the model, and of the model's length."""
    apart = 0.0 if single(strand) else float((strand.replica.parameters.double() - model.double()).square().sum())
    return apart, float(model.double().square().sum())
