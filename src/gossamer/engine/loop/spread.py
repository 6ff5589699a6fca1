"""Going on in a world of another size, or with parameters shared out otherwise: from the average of those who saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from gossamer.engine.loop.course import Course
from gossamer.engine.loop.session import Session
from gossamer.engine.loop.state import Tree, put_desks, set_course
from gossamer.engine.loop.steps import Named, hub_states, portion, remember
from gossamer.engine.loop.strand import Strand
from gossamer.replica.joined import cut, joined
from gossamer.replica.stretch import Stretch

FRESH: Tree = {"inbox": None, "mass": 1.0, "pushes": 0, "letters": 0}


@torch.no_grad()
def spread(
    session: Session,
    models: Sequence[nn.Module],
    plain: Sequence[Mapping[str, Tensor]],
    members: Sequence[Tree],
    named: Sequence[Named],
) -> None:
    """All start from the average and what the optimizers remember in all; what was not yet sent keeps its sum."""
    for number, course in enumerate(session.courses):
        olds = [tree["courses"][number] for tree in members]
        set_course(course, olds[0])
        for n, strand in enumerate(course.strands):
            parts = [old["strands"][n] for old in olds]
            _put_average(strand, course, models, plain, parts)
            remember(strand, course.optimizer, portion(strand, named[number]))
            put_desks(strand, [_desk(strand, slot, parts, session.size) for slot in range(len(parts[0]["desks"]))])
            strand.stepper.resume(course.step, _hubs(strand, parts))
    for model, tensors in zip(models, plain, strict=True):
        for name, buffer in model.named_buffers():
            if name in tensors:
                buffer.copy_(tensors[name])


def _put_average(
    strand: Strand,
    course: Course,
    models: Sequence[nn.Module],
    plain: Sequence[Mapping[str, Tensor]],
    parts: Sequence[Tree],
) -> None:
    """By name; a parameter that no model holds is averaged from what the members kept of it."""
    homes = {id(p): plain[m][n] for m, model in enumerate(models) for n, p in model.named_parameters()}
    with strand.stepper.still():
        for tensor, view, name in zip(strand.tensors, strand.replica.views, strand.layout.names, strict=True):
            found = homes.get(id(course.masters.weight(tensor)))
            view.copy_(_kept(strand, name, parts) if found is None else found)


def _kept(strand: Strand, name: str, parts: Sequence[Tree]) -> Tensor:
    """The average of what members kept of a parameter; of shares, all together."""
    if parts[0]["spans"] is None:
        return torch.stack([part["parameters"][name].double() for part in parts]).mean(0)
    flat = torch.empty(strand.layout.length, dtype=strand.replica.parameters.dtype)
    for part in parts:
        for (start, stop), values in zip(part["spans"], part["parameters"], strict=True):
            flat[start:stop] = values
    return strand.layout.named(flat)[name]


def _hubs(strand: Strand, parts: Sequence[Tree]) -> dict[int, list[Tree]]:
    """What this member has to keep of hubs now, however their shards were cut."""
    found = {}
    for slot, bounds in strand.stepper.hub_bounds().items():
        chosen = strand.replica.desks[slot].chosen
        whole = {**joined(hub_states(parts, slot), chosen), "pushes": {}}  # all count anew, as members do
        found[slot] = [cut(whole, Stretch(chosen, *each)) for each in bounds]
    return found


def _desk(strand: Strand, slot: int, parts: Sequence[Tree], size: int) -> Tree:
    """Memories of what was not sent keep their sum, those on which all agreed are kept, others begin anew."""
    olds = [part["desks"][slot]["memory"] for part in parts]
    codec = strand.replica.desks[slot].exchange.codec
    memory = {}
    for name, first in olds[0].items():
        every = [old[name] for old in olds if name in old]
        if name in codec.unsent:
            memory[name] = (torch.stack([each.double() for each in every]).sum(0) / size).to(first.dtype)
        elif len(every) == len(olds) and all(torch.equal(first, other) for other in every[1:]):
            memory[name] = first
    return {**FRESH, "versions": [0], "memory": memory}
