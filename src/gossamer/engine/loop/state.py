"""All that a member must keep of a session to go on to the bit, as trees; and how it goes on from them.

A state is taken between two steps at which every member rests (`rest`): what was under way has been heard out, and what
is due later is held beside it. Knows no file.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from gossamer.engine.loop.course import Course
from gossamer.engine.loop.gathering import come
from gossamer.engine.loop.session import Session
from gossamer.engine.loop.steps import mine, remember
from gossamer.engine.loop.strand import Strand
from gossamer.parts.refusal import Refused
from gossamer.replica.states import rates, set_rates

Tree = dict[str, Any]
NUMBERS = ("mass", "versions", "pushes", "letters")


def gather(session: Session) -> None:
    """This member comes where all meet for this session, with weights as the user has made them."""
    for course in session.courses:
        course.masters.follow()
    come()


def rest(session: Session) -> None:
    """Hear out what is under way, before a state is taken. All members do it, at the same place in their loops."""
    for course in session.courses:
        if (
            course.mixed
            or course.gathered
            or (course.begun and any(d.memory.get("here") is not None for d in _desks(course)))
        ):
            raise Refused("save: in the midst of a step", "save(...) after optimizer.step(), before the next forward")
        for strand in course.strands:
            strand.stepper.rest(course.step)


def kept(session: Session, models: Sequence[nn.Module], *, first: bool) -> Tree:
    """This member's own part: parameters or its share of them, memories, what its optimizers remember, buffers; the
    first of those that are there keeps what belongs to nobody."""
    return {
        "courses": [_course(course, first) for course in session.courses],
        "buffers": [dict(model.named_buffers()) for model in models],
    }


@torch.no_grad()
def resume(session: Session, models: Sequence[nn.Module], tree: Tree) -> None:
    """Go on where `kept` was called, in a world of the same size."""
    for course, old in zip(session.courses, tree["courses"], strict=True):
        set_course(course, old)
        for strand, part in zip(course.strands, old["strands"], strict=True):
            put_parameters(strand, part)
            remember(strand, course.optimizer, part["steps"])
            put_desks(strand, part["desks"])
            strand.replica.held = {key: _moved(strand, pair) for key, pair in part["held"].items()}
            strand.stepper.resume(course.step, part["hubs"])
    for model, buffers in zip(models, tree["buffers"], strict=True):
        for name, buffer in model.named_buffers():
            buffer.copy_(buffers[name])


def set_course(course: Course, old: Tree) -> None:
    """How far it has come, and the settings its optimizer had."""
    course.step, course.skipped = old["step"], old["skipped"]
    course.optimizer.state.update(old["other"])
    set_rates(course.optimizer, old["rates"])


def put_parameters(strand: Strand, part: Tree) -> None:
    """A member's own parameters; of parameters that exist once, each member puts its share."""
    with strand.stepper.still():
        if strand.shard is None:
            for view, name in zip(strand.replica.views, strand.layout.names, strict=True):
                view.copy_(part["parameters"][name])
        else:
            for (start, stop), values in zip(strand.shard.spans, part["parameters"], strict=True):
                strand.replica.parameters[start:stop].copy_(values)


def put_desks(strand: Strand, desks: Sequence[Tree]) -> None:
    """Memories, masses and places at hubs."""
    device = strand.replica.parameters.device
    for desk, old in zip(strand.replica.desks, desks, strict=True):
        desk.memory = {name: tensor.to(device, copy=True) for name, tensor in old["memory"].items()}  # written over
        desk.inbox = None if old["inbox"] is None else old["inbox"].to(device, copy=True)
        for name in NUMBERS:
            setattr(desk, name, old[name])


def same_shares(session: Session, tree: Tree) -> bool:
    """Whether parameters and hubs were shared out then as they are now."""
    strands = [strand for course in session.courses for strand in course.strands]
    parts = [part for old in tree["courses"] for part in old["strands"]]
    hubs = [strand.stepper.hub_bounds() for strand in strands]
    kept = [{slot: [tuple(state["bounds"]) for state in all_] for slot, all_ in part["hubs"].items()} for part in parts]
    return [spans(strand) for strand in strands] == [part["spans"] for part in parts] and hubs == kept


def spans(strand: Strand) -> list[list[int]] | None:
    """This member's share of parameters that exist once."""
    return None if strand.shard is None else [list(span) for span in strand.shard.spans]


def _course(course: Course, first: bool) -> Tree:
    other = {key: value for key, value in course.optimizer.state.items() if not isinstance(key, Tensor)}
    strands = [_strand(strand, course.optimizer, first) for strand in course.strands]
    rated = rates(course.optimizer)
    return {"step": course.step, "skipped": course.skipped, "rates": rated, "other": other, "strands": strands}


def _strand(strand: Strand, optimizer: torch.optim.Optimizer, first: bool) -> Tree:
    replica, shard = strand.replica, strand.shard
    flat = replica.parameters
    return {
        "parameters": strand.layout.named(flat) if shard is None else [flat[start:stop] for start, stop in shard.spans],
        "spans": spans(strand),
        "steps": mine(strand, optimizer),
        "desks": [_desk(desk) for desk in replica.desks],
        "held": dict(sorted(replica.held.items())),
        "hubs": strand.stepper.hub_states(first=first),
    }


def _desk(desk: Any) -> Tree:
    memory = dict(sorted(desk.memory.items()))
    return {"memory": memory, "inbox": desk.inbox, **{name: getattr(desk, name) for name in NUMBERS}}


def _desks(course: Course) -> list[Any]:
    return [desk for strand in course.strands for desk in strand.replica.desks]


def _moved(strand: Strand, pair: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    device = strand.replica.parameters.device
    return pair[0].to(device), pair[1].to(device)
